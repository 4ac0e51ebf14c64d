"""Start-up takes most of a short run, and comes last everywhere."""

import json
from pathlib import Path

import pytest

from insitu.workflows.import_ import import_measurements
from insitu.workflows.report import summarise_campaign
from tests.cli.conftest import Insitu

SECONDS = {
    "app": 0.1,
    "app->(import)": 9.0,
    "app->(import)->MPI_Init": 3.0,
    "app->main->solve": 2.0,
    "app->main->norm": 1.0,
}


@pytest.fixture
def campaign(tmp_path: Path) -> str:
    source = tmp_path / "app.jsonl"
    with source.open("w", encoding="utf-8") as file:
        for p in (1, 2, 4, 8, 16):
            for path, seconds in SECONDS.items():
                row = {"callpath": path, "metric": "time_exclusive", "unit": "s"}
                values = [seconds * (1 + p / 8)] * p
                file.write(json.dumps(row | {"params": {"p": p}, "ranks": values}) + "\n")
    import_measurements(str(tmp_path / "app.insitu"), str(source))
    return str(tmp_path / "app.insitu")


@pytest.mark.parametrize("words", [("models",), ("predict", "--at", "p=64"), ("classes",)])
def test_tables_list_it_last_and_name_its_share_where_they_leave_it_out(
    words: tuple[str, ...], campaign: str, insitu: Insitu
) -> None:
    command, *options = words

    rows = insitu(command, campaign, "--json").out.splitlines()
    answer = insitu(command, campaign, *options, "--top", "3")

    paths = list(dict.fromkeys(json.loads(row)["callpath"] for row in rows))
    assert [path for path in paths if path.startswith("app")] == [
        *("app->main->solve", "app->main->norm", "app"),
        *("app->(import)", "app->(import)->MPI_Init"),
    ]
    assert "(import)" not in answer.out
    if command != "classes":
        assert "2 more call paths, start-up with 79 % among them; --top 0 shows all" in answer.out


def test_the_report_ranks_it_last(campaign: str) -> None:
    summary = summarise_campaign(campaign)

    assert [str(share.callpath) for share in summary.shares if share.then.value > 0] == [
        *("app->main->solve", "app->main->norm"),
        *("app->(import)", "app->(import)->MPI_Init"),
    ]
    assert str(summary.growing[0].series.key.callpath) == "app->main->solve"


def test_why_a_sum_is_unclear_is_a_note_below_the_table(campaign: str, insitu: Insitu) -> None:
    answer = insitu("predict", campaign, "--at", "p=1024")

    assert "(sum of functions) is unclear: app has no reliable model there" in answer.err
    assert "reliable" not in answer.out
    assert max(map(len, answer.lines)) <= 80
