"""The phases that a program names, as the agent sees them from outside."""

import subprocess
import sys

import pytest

from insitu.collectors import node, phases
from tests.collectors.measured import rank_variables

WAITS = """
import insitu
for name in ("grow", "keep", "end"):
    insitu.phase(name)
    kept = bytearray(b"x" * (32 << 20)) if name == "grow" else kept
    print(name, flush=True)
    input()
"""


@pytest.mark.native
def test_memory_read_just_after_a_mark_belongs_to_the_phase_that_has_ended(tmp_path, shared):
    script = tmp_path / "program.py"
    script.write_text(WAITS)
    with subprocess.Popen(
        [sys.executable, str(script)],
        env=rank_variables(script, shared, tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout.readline() == "grow\n"
        here = node.Node(str(next(tmp_path.rglob("*.table")).parent))
        here.scan()
        (rank,) = here.ranks.values()
        phases.probe_memory(rank, now_s=0.0)  # just after the first mark: no phase has ended
        first = dict(rank.pages)
        phases.probe_memory(rank, now_s=10.0)
        running = dict(rank.pages[1])
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "keep\n"
        here.scan()
        phases.probe_memory(rank, now_s=20.0)
        behind = dict(rank.pages)
        ended, still = (values for _, _, values in phases.phase_gauges(rank))
        program.stdin.write("\n\n")
        program.stdin.flush()

    assert list(first) == [0]
    assert running["memory_pss"] > 32 << 20
    assert sorted(behind) == [0, 1]
    assert behind[1]["memory_private"] > 32 << 20
    assert ended["memory_pss"] > 32 << 20
    assert still == {}
