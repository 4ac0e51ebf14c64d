"""Deep recursion on small stacks, in every Python."""

import pytest

from tests.support.interpreters import OWN_FIRST, find_python
from tests.support.parameters import plain_and_full
from tests.system.hostile.compare import compare

pytestmark = [pytest.mark.mpi, pytest.mark.native]

IN_A_THREAD = """
    import threading
    def descend(n): return 0 if n == 0 else 1 + descend(n - 1)
    threading.stack_size({kib} * 1024)
    depths = []
    thread = threading.Thread(target=lambda: depths.append(descend(900)))
    thread.start()
    thread.join()
    print(depths)
"""
IN_THE_MAIN_THREAD = """
    import sys
    sys.setrecursionlimit(5000)
    def descend(n): return 0 if n == 0 else 1 + descend(n - 1)
    print(descend(1400))
"""


@plain_and_full("version", OWN_FIRST)
@plain_and_full("kib", [64, 128])
def test_recursion_in_a_thread_with_a_small_stack(bench, version, kib):
    python = find_python(version)
    if not python:
        pytest.skip(f"no Python {version}")
    script = bench.script(IN_A_THREAD.format(kib=kib))

    both = compare(bench, python, script, ranks=1)

    assert both.bare.out == "[900]\n"
    assert both.differences() == []


@pytest.mark.full
def test_recursion_in_a_process_with_a_small_stack(bench):
    script = bench.script(IN_THE_MAIN_THREAD)

    both = compare(bench, "sh", "-c", f"ulimit -s 512; exec {bench.python} {script}", ranks=1)

    assert both.bare.out == "1400\n"
    assert both.differences() == []
