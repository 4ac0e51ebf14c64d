"""Wrappers, helpers and programs that replace themselves: which process of a rank is measured."""

import pytest

from insitu.entities import RunState
from tests.support.parameters import plain_and_full
from tests.system.hostile.compare import compare, compile_program

pytestmark = [pytest.mark.mpi, pytest.mark.native]

REAL = """
    import sys
    from mpi4py import MPI
    def work(n): return sum(range(n))
    for i in range(100): work(int(sys.argv[1]))
    MPI.COMM_WORLD.Barrier()
"""
WRAPPER = """
    N=$({python} -c 'def helper(n): return n
    print(sum(helper(i) for i in range(10)))')
    echo "N=$N"
    {start} {python} {script} $N
"""
ISOLATED = """
    import os, subprocess, sys
    from mpi4py import MPI
    names = [name for name in os.environ if name in ("INSITU_RUN", "INSITU_META")]
    values = [os.environ.get("LD_PRELOAD"), os.environ.get("PYTHONPATH")]
    os.write(1, f"{names} {values}\\n".encode())
    MPI.COMM_WORLD.Barrier()
    code = "def child(): return 1\\nfor i in range(5): child()"
    subprocess.run([sys.executable, "-c", code])
"""
RESTART = """
    import os, sys
    def prepare(): return 1
    prepare()
    if "AGAIN" not in os.environ:
        os.environ["AGAIN"] = "1"
        sys.stdout.flush()
        {exec}
    def work(i): return i
    for i in range(100): work(i)
    from mpi4py import MPI
    names = [name for name in os.environ if name in ("INSITU_RUN", "INSITU_META")]
    values = [os.environ.get("LD_PRELOAD"), os.environ.get("PYTHONPATH")]
    os.write(1, f"{MPI.COMM_WORLD.allreduce(1)} {names} {values}\\n".encode())
"""
EXECS = {
    "execv": "os.execv(sys.executable, [sys.executable, *sys.argv])",
    "execvp": "os.execvp('env', ['env', sys.executable, *sys.argv])",
    "execve": "os.execve(sys.executable, [sys.executable, *sys.argv], dict(os.environ))",
}


@plain_and_full("start", ["exec", "", "nice -n 0"])
def test_a_helper_of_a_wrapper_is_not_the_program(bench, start):
    script = bench.script(REAL, "real.py")
    wrapper = bench.script(
        WRAPPER.format(python=bench.python, script=script, start=start), "wrap.sh"
    )

    both = compare(bench, "sh", wrapper, ranks=2)

    assert both.differences() == []
    assert not bench.ingest().errors
    (record,) = bench.records()
    assert record.state == RunState.COMPLETE
    assert bench.values("real.py->work", "visits") == [100, 100]
    assert not any("helper" in str(path) for path in bench.table().callpaths)


def test_isolated_python_measures_its_mpi_calls_and_no_child(bench):
    script = bench.script(ISOLATED)

    both = compare(bench, "python", "-I", script, ranks=2)

    assert both.differences() == []
    assert not bench.ingest().errors
    (record,) = bench.records()
    assert record.state == RunState.COMPLETE
    assert "python-isolated" in {finding.code for finding in record.findings}
    names = {path.name for path in bench.table().callpaths}
    assert "MPI_Barrier" in names
    assert "child" not in names


@plain_and_full("how", EXECS)
def test_a_program_that_replaces_itself_is_measured_from_then_on(bench, how):
    script = bench.script(RESTART.replace("{exec}", EXECS[how]))

    both = compare(bench, "python", script, ranks=2, options=("--agent", "on"))

    assert both.differences() == []
    (record,) = bench.records()
    assert record.state == RunState.COMPLETE
    assert bench.values("app.py->work", "visits") == [100, 100]
    assert bench.values("app.py->prepare", "visits") == [1, 1]


@plain_and_full("status", [0, 4])
def test_os_exit_is_a_normal_end(bench, status):
    script = bench.script(f"""
        import os
        def work(i): return i
        for i in range(10): work(i)
        os._exit({status})
    """)

    both = compare(bench, "python", script)

    assert both.bare.code == status
    assert both.differences() == []
    assert not bench.ingest().errors
    (record,) = bench.records()
    assert record.state == RunState.COMPLETE
    assert bench.values("app.py->work", "visits") == [10]


@plain_and_full("how", ["_exit", "quick_exit", "exec"])
def test_a_compiled_program_ends_without_exit_handlers(bench, how):
    program = compile_program(bench, "endings.c", "-finstrument-functions")

    both = compare(bench, program, how, ranks=1, options=("--agent", "on"))

    assert "ending" in both.bare.out
    assert both.differences() == []
    (record,) = bench.records()
    assert record.state == RunState.COMPLETE


def test_a_child_inherits_no_descriptor_of_the_measurement(bench):
    """New threads look where their stack is, for which a file is open for a moment."""
    program = compile_program(bench, "kernel.c", "-pthread")

    both = compare(bench, program, "forks-beside-threads", ranks=1)

    assert both.bare.out == "children with other descriptors: 0\nsum 1\n"
    assert both.differences() == []


def test_a_child_that_finalises_the_mpi_of_its_parent_ends_as_bare(bench):
    program = compile_program(bench, "kernel.c", "-pthread")

    both = compare(bench, program, "child-finalises")

    assert both.bare.out == "child 0 7\n"
    assert both.differences() == []


def test_functions_of_the_program_with_names_of_the_c_library_are_not_called_more_often(bench):
    program = compile_program(bench, "kernel.c", "-pthread", "-DOWN_FUNCTIONS")

    both = compare(bench, program, "own-functions", ranks=1)

    assert "opened 21 closed 21 read 21 written 21" in both.bare.out
    assert both.differences() == []
