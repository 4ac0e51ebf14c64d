"""`insitu watch` where standard output is a file: a line for each change."""

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.errors import CampaignError
from insitu.modeling.pipeline import remodel
from insitu.workflows.boards import BoardClient
from insitu.workflows.watch import CampaignSnapshot
from tests.support.campaigns import heat_campaign, heat_run

PLAN = '[levels]\np = [1, 2, 4]\n[run]\ncommand = "app.py"\n'


def changing(*steps: Callable[[str], None]) -> Callable[[str], Iterator[CampaignSnapshot]]:
    """What a campaign looks like after each step, and Ctrl-C after the last one."""

    def follow(campaign: str) -> Iterator[CampaignSnapshot]:
        with BoardClient(campaign) as client:
            for step in steps:
                step(campaign)
                yield CampaignSnapshot(client.newest(0.0), client.agenda())
        raise KeyboardInterrupt

    return follow


def nothing(campaign: str) -> None:
    """Change nothing."""


def measure(campaign: str) -> None:
    with open_store(campaign, create=True) as store:
        for p in (1, 2):
            store.add_run(*heat_run(p))


def fit(campaign: str) -> None:
    with open_store(campaign) as store:
        store.add_run(*heat_run(4))
        store.put_models(remodel(load_experiment(store)))


def test_each_run_and_model_is_a_line_and_what_stays_is_none(insitu, tmp_path, monkeypatch):
    (tmp_path / "app.insitu").mkdir(mode=0o700)
    (tmp_path / "app.insitu" / "campaign.toml").write_text(PLAN)
    follow = changing(nothing, nothing, measure, nothing, fit)
    monkeypatch.setattr("insitu.cli.watch.follow_campaign", follow)

    answer = insitu("watch", "app.insitu")

    assert answer.code == 130
    assert answer.lines[:2] == [
        "no run yet: insitu campaign run app.insitu makes the 3 runs that campaign.toml plans",
        "campaign: 0 of 3 made",
    ]
    runs = [line for line in answer.lines if line.startswith(("run ", "campaign: "))]
    assert [line.partition(": complete")[0] for line in runs[1:]] == [
        *("campaign: 2 of 3 made, about 4 s to go", "run p=1#0", "run p=2#0"),
        *("campaign: 3 of 3 made", "run p=4#0"),
    ]
    assert sum(line.startswith("model main->solve time all: ") for line in answer.lines) == 1


def test_each_board_is_a_line_of_json(insitu, heat, monkeypatch):
    def follow(campaign):
        with BoardClient(campaign) as client:
            yield client.newest(0.0)
        raise KeyboardInterrupt

    monkeypatch.setattr("insitu.cli.watch.follow_boards", follow)

    answer = insitu("watch", heat, "--json")

    (row,) = map(json.loads, answer.lines)
    assert answer.code == 130
    assert len(row["runs"]) == 10


def test_the_state_is_one_object_of_json(insitu, heat):
    (row,) = map(json.loads, insitu("watch", heat, "--once", "--json").lines)

    assert {run["name"] for run in row["runs"]} >= {"p=4#0", "p=64#1"}


def test_before_the_first_run_the_state_says_what_to_do(insitu, tmp_path):
    heat_campaign(str(tmp_path / "app.insitu"), 0).close()
    (tmp_path / "app.insitu" / "campaign.toml").write_text(PLAN)

    answer = insitu("watch", "app.insitu", "--once")

    assert "no run yet: insitu campaign run" in answer.lines[0]
    assert "campaign: 0 of 3 made" in answer.out


@pytest.mark.parametrize("trouble", [None, CampaignError("app.insitu: gone")])
def test_a_terminal_ends_with_what_went_wrong(insitu, heat, monkeypatch, trouble):
    class Terminal:
        def __init__(self, client, campaign, *, opens_diagnosis):
            assert (campaign, opens_diagnosis) == (heat, True)
            self.trouble = trouble

        def run(self):
            """As if the user pressed q."""

    stdout = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("insitu.cli.watch.sys", SimpleNamespace(stdout=stdout))
    monkeypatch.setattr("insitu.views.terminal.app.Watch", Terminal)
    monkeypatch.setenv("TERM", "xterm")

    answer = insitu("watch", heat)

    assert answer.code == (0 if trouble is None else 3)
    assert answer.err == ("" if trouble is None else "insitu: app.insitu: gone\n")


def test_an_option_of_the_page_needs_the_page(insitu, heat):
    answer = insitu("watch", heat, "--port", "8000")

    assert answer.code == 2
    assert "--port applies to the page; add --web" in answer.err
