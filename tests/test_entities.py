"""Basic types that all rooms share."""

import os
import pickle
import subprocess
import sys

from insitu.entities import CallPath


def test_a_call_path_of_another_process_is_found_among_equal_ones():
    # Texts have another hash there: a process of an executor returns series by call path.
    code = (
        "import pickle, sys; from insitu.entities import CallPath;"
        "sys.stdout.buffer.write(pickle.dumps(CallPath(('main', 'solve'))))"
    )

    pickled = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        stdout=subprocess.PIPE,
        check=True,
    ).stdout

    assert pickle.loads(pickled) in {CallPath(("main", "solve")): 1}
