"""What `insitu design --compare` and `insitu refit` make of what counts say."""

import json

import numpy as np
import pytest

from insitu.campaign.store import open_store
from insitu.entities import (
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    Configuration,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.measurement import RunTable
from tests.support.campaigns import modelled_campaign

DEPENDENCIES = {
    "parameters": ["p", "n"],
    "ranks": "p",
    "callpaths": [
        {"callpath": "main->work", "nests": [{"n": "1"}]},
        {"callpath": "MPI_Recv", "nests": [{"p": "1"}]},
        {"callpath": "share", "nests": [{"p": "1"}]},  # a function, as compilers count
    ],
}
LEVELS = ("--levels", "p=2..32:5", "--levels", "n=100..1600:5")
PATHS = tuple(map(CallPath.parse, ("main->work", "main->share", "main->share->MPI_Recv")))


def measured(folder, runs, cores, calls):
    """A campaign whose MPI calls wait, the longer the more ranks and work there are."""
    with open_store(str(folder / "c.insitu"), create=True) as store:
        for number, (p, n) in enumerate(runs):
            rows = [0.01 * n, 0.1 * p, 1e-3 * p * n]
            visits = [n / 100, calls(p, n), p]
            key = RunKey.of({"p": p, "n": n})
            configuration = Configuration.of(
                {"command": "app.py", "host": "a", "cores": str(cores)}
            )
            record = RunRecord(
                f"{number:04d}",
                key,
                RunState.COMPLETE,
                started_at=1.8e9,
                configuration=configuration,
            )
            values = {
                "visits": np.outer(visits, np.ones(int(p))),
                "time_exclusive": np.outer(rows, np.ones(int(p))),
            }
            store.add_run(record, RunTable(PATHS, (VISITS, TIME_EXCLUSIVE), values))


@pytest.fixture
def planned(insitu, tmp_path):
    (tmp_path / "deps.json").write_text(json.dumps(DEPENDENCIES))
    rows = [json.loads(line) for line in insitu("design", "deps.json", *LEVELS, "--json").lines]
    assert [row["check"] for row in rows] == [False] * 5 + [True] * 2
    return [(row["params"]["p"], row["params"]["n"]) for row in rows]


@pytest.mark.parametrize(
    ("calls", "named"),
    [(lambda p, n: p, []), (lambda p, n: p * n**0.5, ["main->share"])],
)
def test_counts_decide_on_crowded_runs(insitu, tmp_path, planned, calls, named):
    measured(tmp_path, planned, 2, calls)
    words = ("design", "deps.json", *LEVELS, "--compare", "c.insitu")
    rows = [json.loads(line) for line in insitu(*words, "--json").lines]
    findings = [(row["finding"], row.get("callpath")) for row in rows if "finding" in row]
    expected = [("ranks-crowded", None)] + [("hidden-interaction", path) for path in named]
    assert findings == expected
    text = insitu(*words).out
    assert ("check points agree with" in text) is not bool(named)
    assert ("is called" in text) is bool(named)


def test_times_decide_where_every_rank_has_a_core(insitu, tmp_path, planned):
    measured(tmp_path, planned, 64, lambda p, n: p)
    answer = insitu("design", "deps.json", *LEVELS, "--compare", "c.insitu", "-o", "more.json")
    assert "hidden-interaction: main->share->MPI_Recv takes" in answer.out
    assert "main->work" not in answer.out
    kept = json.loads((tmp_path / "more.json").read_text())["callpaths"]
    assert "main->share->MPI_Recv" in {row["callpath"] for row in kept}


def test_models_of_a_campaign_use_its_dependencies(insitu, tmp_path, planned):
    measured(tmp_path, planned[:5], 64, lambda p, n: p)
    where = tmp_path / "c.insitu" / "dependencies.json"
    where.write_text(json.dumps(DEPENDENCIES))
    assert insitu("refit", "c.insitu").code == 0
    answer = insitu("predict", "c.insitu", "--at", "p=2,n=3200", "--json")
    rows = {
        (row["callpath"], row["metric"]): row["predictions"][0]["value"]
        for row in map(json.loads, answer.lines)
    }
    assert rows["main->work", "time_exclusive"] == pytest.approx(32.0, rel=0.02)
    assert rows["main->share", "time_exclusive"] == pytest.approx(0.2, rel=0.05)

    where.write_text("{}")
    answer = insitu("refit", "c.insitu")
    assert answer.code == 2
    assert "dependencies.json: not a file of `insitu detect`" in answer.err


def test_numbers_of_ranks_come_from_what_a_campaign_shows(insitu, tmp_path):
    (tmp_path / "deps.json").write_text(json.dumps(DEPENDENCIES))
    measured(tmp_path, [(8, 100), (27, 100), (64, 100)], 64, lambda p, n: p)
    levels = ("-l", "p=8,16,27,125", "-l", "n=100,200,400")

    words = ("design", "deps.json", *levels, "--method", "full", "--ranks-from", "c.insitu")
    outcome = insitu(*words, "--json")

    rows = [json.loads(line) for line in outcome.lines]
    assert {row["params"]["p"] for row in rows} == {8, 27, 125}
    assert "p=16 is left out" in outcome.err


def test_a_design_proposes_what_the_only_campaign_shows_to_be_accepted(insitu, tmp_path):
    (tmp_path / "deps.json").write_text(json.dumps(DEPENDENCIES))
    measured(tmp_path, [(8, 100), (27, 100), (64, 100)], 64, lambda p, n: p)
    levels = ("-l", "p=8,16,27,125", "-l", "n=100,200,400", "--method", "full")

    outcome = insitu("design", "deps.json", *levels, "--json")
    without = insitu("design", "deps.json", *levels, "--ranks-from", "-", "--json")

    assert {json.loads(line)["params"]["p"] for line in outcome.lines} == {8, 27, 125}
    assert "p=16 is left out" in outcome.err
    assert {json.loads(line)["params"]["p"] for line in without.lines} == {8, 16, 27, 125}


@pytest.fixture
def iterated(tmp_path):
    """A campaign of a main loop whose iterations take `times`, and its dependencies."""

    def write(times):
        nests = [["n", "steps"]]
        told = {"parameters": ["n", "steps"], "iteration": "steps"}
        paths = [{"callpath": "main->work", "nests": nests}]
        (tmp_path / "loop.json").write_text(json.dumps(told | {"callpaths": paths}))
        cost = "n1 " + json.dumps({"iterations": {"times_s": times}})
        with open_store(str(tmp_path / "c.insitu"), create=True) as store:
            for number in (1, 2):
                configuration = Configuration.of({"command": "app.py", "cost": cost})
                key = RunKey.of({"p": 1, "n": 10.0 * number})
                record = RunRecord(str(number), key, RunState.COMPLETE, configuration=configuration)
                values = {"visits": np.ones((1, 1))}
                store.add_run(record, RunTable(PATHS[:1], (VISITS,), values))
        return ("design", "loop.json", "-l", "n=1..16:5", "-l", "steps=100", "-c", "c.insitu")

    return write


def test_a_main_loop_whose_iterations_last_alike_need_not_be_varied(insitu, iterated):
    words = iterated([1.0 + 0.01 * (step % 3) for step in range(60)])

    text = insitu(*words)
    rows = [json.loads(line) for line in insitu(*words, "--json").lines]

    assert (
        text.lines[0] == "main loop over steps: no drift in 2 runs; coefficient of variation 0.01"
    )
    assert all("finding" not in row for row in rows)


def test_a_main_loop_whose_iterations_grow_is_to_be_varied(insitu, iterated):
    words = iterated([1.0 + 0.05 * step for step in range(60)])

    text = insitu(*words)
    finding = json.loads(insitu(*words, "--json").lines[0])

    assert text.lines[0].startswith("iterations-drift: steps: iterations grow by ")
    assert text.lines[0].endswith("in 2 of 2 runs: not linear; vary it as well")
    assert (finding["finding"], finding["parameter"]) == ("iterations-drift", "steps")


def test_numbers_of_ranks_that_classes_lack_are_added_with_the_reason(insitu, tmp_path):
    (tmp_path / "deps.json").write_text(json.dumps(DEPENDENCIES))
    modelled_campaign(str(tmp_path / "c.insitu"), 1, (2, 4, 8)).close()

    words = ("design", "deps.json", "-l", "p=2,4", "-l", "n=100,200,400", "--method", "full")
    answer = insitu(*words, "--ranks-from", "c.insitu")

    assert "is added: " in answer.err
    assert "class inner" in answer.err
