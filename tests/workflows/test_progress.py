import math
from dataclasses import replace

import pytest

from insitu.campaign.attempts import AttemptRecord, append_attempt
from insitu.entities import RunState
from insitu.errors import UsageError
from insitu.workflows.progress import load_agenda
from tests.support.campaigns import heat_run

ASKED = """
[levels]
p = [2, 4, 8]
[run]
command = "./heat.py"
repetitions = 2
"""


def test_a_campaign_says_what_is_made_and_what_is_left(tmp_path):
    (tmp_path / "campaign.toml").write_text(ASKED)
    runs = [heat_run(p)[0] for p in (2, 2, 4)]

    found = load_agenda(str(tmp_path), runs)

    assert found is not None
    assert (found.done, found.left) == (3, 3)
    with_8_ranks = (found.seconds - 3.0) / 2
    assert 3.0 < with_8_ranks < 4.5  # both measured configurations took 3 s
    assert found.core_hours == pytest.approx((4 * 3.0 + 2 * 8 * with_8_ranks) / 3600)


def test_a_run_whose_program_failed_is_none(tmp_path):
    (tmp_path / "campaign.toml").write_text(ASKED)

    found = load_agenda(str(tmp_path), [replace(heat_run(2)[0], exit_status=(0, 3))])

    assert found is not None
    assert (found.done, found.left) == (0, 6)
    assert math.isnan(found.seconds)


def test_a_run_that_was_killed_with_its_job_is_interrupted_not_failed(tmp_path):
    """The time limit of a job kills insitu as well: no attempt is written, but the run is known."""
    (tmp_path / "campaign.toml").write_text(ASKED)
    run = heat_run(4)[0]
    killed = replace(run, state=RunState.INCOMPLETE, ended_at=run.started_at + 600.0)
    attempted = replace(heat_run(8)[0], state=RunState.INCOMPLETE, started_at=1000.0)
    append_attempt(str(tmp_path), AttemptRecord({"p": 8}, began_at=999.0, seconds=9.0, code=124))

    found = load_agenda(str(tmp_path), [heat_run(2)[0], killed, attempted])

    assert found is not None
    lines = {dict(line.point.values)["p"]: line for line in found.lines}
    assert [len(lines[p].interrupted_s) for p in (2, 4, 8)] == [0, 1, 0]
    assert [lines[p].failed for p in (2, 4, 8)] == [0, 0, 1]
    assert lines[4].interrupted_s == (600.0,)
    assert lines[4].seconds == 600.0


def test_without_a_design_there_is_nothing_to_come(tmp_path):
    assert load_agenda(str(tmp_path), []) is None


def test_a_design_that_makes_no_sense_is_named(tmp_path):
    (tmp_path / "campaign.toml").write_text(ASKED.replace("[2, 4, 8]", '"x"'))

    with pytest.raises(UsageError, match=r"campaign\.toml"):
        load_agenda(str(tmp_path), [])
