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
