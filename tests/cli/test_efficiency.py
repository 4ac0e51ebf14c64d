"""`insitu efficiency`: the table of POP, JSON for scripts, a note if nothing is judged."""

import json
from pathlib import Path

from insitu.analysis.diagnosis.efficiency import FACTORS
from insitu.campaign.store import open_store
from insitu.entities import Configuration, RunKey, RunRecord, RunState
from tests.analysis.programs import table_at
from tests.analysis.test_efficiency import program, ramp
from tests.cli.conftest import Insitu


def make_campaign(path: Path, **configuration: str) -> str:
    with open_store(str(path), create=True) as store:
        for p in (2, 4, 8, 16):
            record = RunRecord(
                str(p),
                RunKey.of({"p": p}),
                RunState.COMPLETE,
                configuration=Configuration.of(configuration),
            )
            store.add_run(record, table_at(program(ramp, lambda p: 9.0 - ramp(p)), p))
    return str(path)


def test_the_table_has_a_column_for_each_scale_and_one_for_the_prediction(
    insitu: Insitu, tmp_path: Path
):
    campaign = make_campaign(tmp_path / "a.insitu")

    answer = insitu("efficiency", campaign, "--at", "p=64")

    assert answer.code == 0, answer.err
    heads = answer.lines[0].split("  ")
    assert [head.strip() for head in heads if head.strip()] == [
        "(whole run)",
        *("p = 2", "p = 4", "p = 8", "p = 16", "p = 64 predicted"),
    ]
    (balance,) = [line for line in answer.lines if line.startswith("    load balance")]
    assert balance.split("  ")[-1].startswith("75 % (")


def test_json_has_a_line_for_each_section_and_scale(insitu: Insitu, tmp_path: Path):
    campaign = make_campaign(tmp_path / "a.insitu")

    rows = [json.loads(line) for line in insitu("efficiency", campaign, "--json").lines]

    assert [(row["p"], row["predicted"]) for row in rows] == [
        *((p, False) for p in (2, 4, 8, 16)),
        (128, True),
    ]
    assert set(FACTORS) < set(rows[0])
    assert rows[0]["load_balance"] == {"value": 0.75, "low": 0.75, "high": 0.75}


def test_a_campaign_of_crowded_runs_has_a_note_instead(insitu: Insitu, tmp_path: Path):
    campaign = make_campaign(tmp_path / "a.insitu", cores="1")

    answer = insitu("efficiency", campaign)

    assert (answer.code, answer.out) == (0, "")
    assert "4 of 4 runs had more ranks than cores" in answer.err
