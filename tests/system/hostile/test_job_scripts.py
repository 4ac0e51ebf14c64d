"""What a job script sets reaches the programs that it starts, and they are measured."""

import pytest

from tests.support.parameters import plain_and_full
from tests.system.hostile.compare import PROGRAMS, compare, compile_program

pytestmark = [pytest.mark.mpi, pytest.mark.native]


@plain_and_full("program", ["shows_path.py", "shows_path.c"], plain=2)
@plain_and_full("value", ["mine:$PYTHONPATH", "mine", "$PYTHONPATH:the mine:", ":"], plain=2)
def test_a_script_may_set_the_path_of_python(bench, program, value):
    script = bench.script(f'export PYTHONPATH="{value}"\nexec "$@"\n', name="job.sh")
    words = ["python", PROGRAMS / program]
    if program.endswith(".c"):
        words = [compile_program(bench, program)]

    both = compare(bench, "sh", script, *words, ranks=1)

    assert both.bare.code == 0
    assert both.differences() == []
    assert len(bench.left_tables()) == 1


def test_what_a_script_asks_of_the_dynamic_linker_says_nothing_of_insitu(bench):
    """The process that prepares the measurement printed lines into the program's output."""
    program = compile_program(bench, "shows_path.c")
    script = bench.script(
        """
        export LD_DEBUG=statistics LD_DEBUG_OUTPUT=$1/debug LD_SHOW_AUXV=1
        shift
        exec "$@"
        """,
        name="job.sh",
    )
    launches = {"bare": [], "measured": bench.command("-q", "--agent", "off", "--")}
    shows = {}
    for name, launch in launches.items():
        folder = bench.folder / name
        folder.mkdir()
        words = [*bench.mpiexec, "-n", "1", "sh", str(script), str(folder), str(program)]
        done = bench.execute([*launch, *words])
        shows[name] = (done.code, done.out.count("AT_SECURE"), done.err, len([*folder.iterdir()]))

    assert shows["bare"][1] > 0
    assert shows["measured"] == shows["bare"]
    assert len(bench.left_tables()) == 1
