"""The JSON output has the fields that docs/reference/json.md names."""

import json
import re
from pathlib import Path

import pytest

from insitu.entities import Finding, RunKey, RunRecord, RunState
from insitu.run.supervise import append_result, result_row

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md"
GROWTH = '[[expect]]\ncallpath = "MPI_Allreduce"\ngrowth = "O(log p)"\n'


def fields_of(output: str) -> set[str]:
    (row,) = [
        line
        for line in REFERENCE.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| `insitu {output}`")
    ]
    states = {"sealed", "partial", "absent", "waiting"}
    return set(re.findall(r"`(\w+)`", row.split("|")[2])) - states


def test_models(insitu, heat):
    rows = [json.loads(line) for line in insitu("models", heat, "--json").lines]

    assert all(set(row) == fields_of("models --json") for row in rows)


def test_check(insitu, heat, tmp_path):
    (tmp_path / "expectations.toml").write_text(GROWTH)

    (row,) = map(json.loads, insitu("check", heat, "expectations.toml", "--json").lines)

    assert set(row) == fields_of("check --json")


@pytest.mark.parametrize("action", ["plan", "status"])
def test_campaign(insitu, tmp_path, action):
    (tmp_path / "app.insitu").mkdir(mode=0o700)
    text = '[levels]\np = [1, 2]\n[run]\ncommand = "app.py"\n'
    (tmp_path / "app.insitu" / "campaign.toml").write_text(text)

    rows = [json.loads(line) for line in insitu("campaign", action, "app.insitu", "--json").lines]

    assert [set(row) for row in rows] == [fields_of("campaign plan --json")] * 2


def test_result_of_a_run(tmp_path):
    record = RunRecord(
        id="1",
        key=RunKey.of({"p": 2, "n": 64}, 1),
        state=RunState.INCOMPLETE,
        started_at=10.0,
        ended_at=12.5,
        missing=(1,),
        findings=(Finding("rank-lost", "its end never arrived", "rank 1"),),
    )
    path = tmp_path / "run.json"

    for known in (record, None):
        append_result(str(path), result_row("1", "/heat.insitu", 9, known, reason="killed"))
    waiting = result_row("1", "/heat.insitu", 0, None, reason="stopped", is_waiting=True)

    told, absent = map(json.loads, path.read_text().splitlines())
    assert set(told) == fields_of("run --result")
    assert (told["state"], told["exit_code"], told["seconds"]) == ("partial", 9, 2.5)
    assert told["findings"][0]["code"] == "rank-lost"
    assert absent == {
        "run": "1",
        "campaign": "/heat.insitu",
        "exit_code": 9,
        "reason": "killed",
        "state": "absent",
    }
    assert (waiting["state"], waiting["reason"]) == ("waiting", "stopped")
