"""Basic types that all rooms share."""

import os
import pickle
import subprocess
import sys

import pytest

from insitu.entities import CallPath, is_start_up


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


@pytest.mark.parametrize(
    ("path", "is_expected"),
    [
        ("app->main->numpy.__getattr__", True),
        ("app->main->numpy.__getattr__->open", True),
        ("app->main->Proxy.__getattr__", False),
        ("app->main->model.Proxy.__getattr__", False),
        ("app->main->numpy.linalg.solve", False),
    ],
)
def test_what_a_package_imports_on_demand_belongs_to_the_start(path, is_expected):
    assert is_start_up(CallPath.parse(path)) == is_expected
