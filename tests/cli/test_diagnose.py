"""`insitu diagnose`: lines for people, JSON for scripts, an exit code for CI."""

import json
from pathlib import Path

from insitu.campaign.store import open_store
from insitu.entities import CallPath, Configuration, RunKey, RunRecord, RunState
from tests.analysis.programs import HEALTHY, SCALES, on_rank_0, table_at
from tests.cli.conftest import Insitu

COLLECT = "app->main->collect"
FUNNEL = {
    COLLECT: {"visits": lambda p: 20, "time_exclusive": lambda p: 0.001},
    f"{COLLECT}->MPI_Recv": {
        "messages_received": lambda p: on_rank_0(20 * (p - 1), p),
        "bytes_received": lambda p: on_rank_0(160_000 * (p - 1), p),
    },
}


def make_campaign(path: Path) -> str:
    with open_store(str(path), create=True) as store:
        for p in SCALES:
            key = RunKey.of({"p": p})
            configuration = Configuration.of({"program": "app.py"})
            record = RunRecord(str(p), key, RunState.COMPLETE, configuration=configuration)
            table = table_at({**HEALTHY, **FUNNEL}, p)
            table.sites.update({CallPath.parse(COLLECT): ("/home/me/app.py", 31)})
            store.add_run(record, table)
    return str(path)


def test_the_first_line_is_the_verdict_and_the_next_the_worst_limit(insitu: Insitu, tmp_path: Path):
    campaign = make_campaign(tmp_path / "a.insitu")

    answer = insitu("diagnose", campaign, "--at", "p=65536")

    assert answer.code == 0, answer.err
    assert answer.lines[0].startswith("app.py runs on 65,536 ranks but spends 12.5 s")
    assert "✘ serial    collect            rank 0 receives 20 (p - 1) messages" in answer.out
    assert " exact, 6 of 6 points  app.py:31\n" in answer.out
    assert max(map(len, answer.lines)) <= 80


def test_json_has_a_summary_and_a_line_for_each_statement(insitu: Insitu, tmp_path: Path):
    campaign = make_campaign(tmp_path / "a.insitu")

    answer = insitu("diagnose", campaign, "--at", "p=65536", "--json")

    summary, *statements = [json.loads(line) for line in answer.lines]
    assert summary["kind"] == "summary"
    assert (summary["program"], summary["target"]) == ("app.py", {"p": 65_536})
    assert [statement["rank"] for statement in statements] == list(range(1, len(statements) + 1))
    first = statements[0]
    assert (first["kind"], first["callpath"], first["where"]) == ("serial", COLLECT, "app.py:31")
    assert (first["status"], first["exact"], first["ranks"]) == ("limit", True, "rank 0")
    assert 2 < first["breaks_at"] < 65_536


def test_it_fails_on_a_limit_if_that_is_requested(insitu: Insitu, tmp_path: Path):
    campaign = make_campaign(tmp_path / "a.insitu")

    assert insitu("diagnose", campaign, "--at", "p=65536", "--fail-on", "limit").code == 1
    assert insitu("diagnose", campaign, "--at", "p=12", "--fail-on", "limit").code == 0
    assert insitu("diagnose", campaign, "--at", "q=12").code == 2


def test_the_user_states_the_scaling_and_the_machine(insitu: Insitu, tmp_path: Path):
    """For one command, or in campaign.toml for all views."""
    campaign = make_campaign(tmp_path / "a.insitu")

    measured = insitu("diagnose", campaign)

    given = insitu("diagnose", campaign, "--scaling", "strong", "--machine", "memory=1e9")
    (tmp_path / "a.insitu/campaign.toml").write_text('scaling = "strong"\nmachine = "memory=1e9"')
    configured = insitu("diagnose", campaign)
    summary = json.loads(insitu("diagnose", campaign, "--json").lines[0])

    sentence = "2.15 GB per rank, weak scaling (else --scaling strong)"
    assert sentence in " ".join(measured.out.split())
    assert "1 GB per rank, strong scaling as given" in " ".join(given.out.split())
    assert given.out == configured.out
    assert (summary["scaling"], summary["is_scaling_given"]) == ("strong", True)
    (tmp_path / "a.insitu/campaign.toml").unlink()
    weak = insitu("diagnose", campaign, "--scaling", "weak")
    assert "weak scaling as given" in " ".join(weak.out.split())
    assert "else --scaling" not in weak.out + given.out


def test_a_mistake_in_the_machine_names_its_place(insitu: Insitu, tmp_path: Path):
    campaign = make_campaign(tmp_path / "a.insitu")
    (tmp_path / "a.insitu/campaign.toml").write_text('machine = "memory=x"')

    answer = insitu("diagnose", campaign)

    assert answer.code == 3  # as with every mistake in campaign.toml
    assert "campaign.toml: machine: memory=x: 'x' is not a number" in answer.err
