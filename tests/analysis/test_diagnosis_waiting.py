"""Waiting in a diagnosis: who causes it, as far as the agents of the runs know."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from insitu.analysis.diagnosis.diagnose import Diagnosis, diagnose_experiment
from insitu.analysis.diagnosis.rows import statement_row
from insitu.analysis.diagnosis.statements import Statement
from insitu.analysis.diagnosis.waiting import _ranks_with_most
from insitu.entities import (
    METRICS,
    CallPath,
    Configuration,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.base import Clusters, ModelSet
from insitu.modeling.measurement import Experiment, RunTable

P = 4
CALL = "app->main->residual->MPI_Allreduce"
PATHS = (
    *("app", "app->main", "app->main->residual", CALL),
    *("app->main->assemble", "app->main->assemble->cell", "app->main->filter"),
)
Costs = Mapping[str, Mapping[int, float]]  # seconds by call path and rank


def diagnose(
    costs: Costs,
    *,
    waited: float = 6.0,
    clusters: Sequence[Clusters] = (),
    crowded: bool = False,
    cpu_s: float | None = None,
) -> Diagnosis:
    """The diagnosis of a run in which ranks waited 6 of 40 rank seconds."""
    key = RunKey.of({"p": P})
    values = {name: np.zeros((len(PATHS), P)) for name in ("visits", "time", "time_waiting")}
    values["visits"][:] = 100
    values["time"][0] = 10.0
    values["time_waiting"][PATHS.index(CALL)] = 6.0 / P
    if cpu_s is not None:
        values["cpu_time"] = np.zeros((len(PATHS), P))
        values["cpu_time"][0] = cpu_s
    metrics = tuple(metric for metric in METRICS if metric.name in values)
    table = RunTable(tuple(map(CallPath.parse, PATHS)), metrics, values)

    causes = [
        {
            "callpath": path,
            "seconds": sum(ranks.values()),
            "ranks": [[rank, seconds] for rank, seconds in ranks.items()],
        }
        for path, ranks in costs.items()
    ]
    cost = json.dumps({"delays": [{"callpath": CALL, "waited": waited, "causes": causes}]})
    configuration = Configuration.of({"cost": f"node-1 {cost}"})
    record = RunRecord("1", key, RunState.COMPLETE, configuration=configuration)
    experiment = Experiment(("p",), ((key, table),), {key: 2} if crowded else {})
    models = ModelSet(clusters=clusters)
    return diagnose_experiment(experiment, [record], models, program="app")


def waiting(diagnosis: Diagnosis) -> Statement:
    (statement,) = [entry for entry in diagnosis.statements if entry.kind == "waiting"]
    return statement


def test_causes_are_named_with_their_shares_and_ranks():
    statement = waiting(
        diagnose({"app->main->assemble->cell": {0: 1.8, 3: 1.8}, "app->main->filter": {2: 2.4}})
    )

    assert statement.text == (
        "ranks wait for others in MPI_Allreduce for 15 % of the time at p = 4; 60 % of it is caused"
        " by assemble->cell on ranks 0 and 3, 40 % by filter on rank 2"
    )
    assert (statement.name, statement.ranks) == ("residual", "all")
    assert statement_row(1, statement)["causes"] == [
        {
            "callpath": "app->main->assemble->cell",
            "share": pytest.approx(0.6),
            "ranks": [0, 3],
        },
        {"callpath": "app->main->filter", "share": pytest.approx(0.4), "ranks": [2]},
    ]


@pytest.mark.parametrize(
    ("seconds", "ranks"),
    [
        ({0: 9, 1: 1}, (0,)),  # nine tenths are enough
        ({0: 8.9, 1: 1.1}, (0, 1)),
        ({3: 5, 1: 4, 0: 1, 2: 0}, (1, 3)),
        ({2: 0}, ()),
    ],
)
def test_the_fewest_ranks_are_named_that_have_nine_tenths_of_a_cost(seconds, ranks):
    assert _ranks_with_most(seconds) == ranks


def test_a_class_of_ranks_is_called_by_its_name():
    corners = Clusters(
        CallPath.parse("app->main->assemble"),
        "visits",
        RunKey.of({"p": P}),
        np.array([1, 0, 0, 1]),
        ("inner", "corner"),
    )

    statement = waiting(diagnose({"app->main->assemble": {0: 3.0, 3: 3.0}}, clusters=[corners]))

    assert statement.text.endswith("100 % of it is caused by assemble on corner ranks")


def test_ranks_that_take_turns_are_not_listed():
    statement = waiting(diagnose({"app->main->assemble": dict.fromkeys(range(P), 1.5)}))

    assert statement.text.endswith("100 % of it is caused by assemble on all ranks in turn")


def test_a_function_is_named_if_no_callee_explains_what_it_causes():
    callees = {f"app->main->assemble->part{i}": {1: 0.5} for i in range(12)}

    statement = waiting(diagnose(callees))

    assert statement.text.endswith("100 % of it is caused by assemble on rank 1")


@pytest.mark.parametrize(
    ("costs", "waited"),
    [
        ({}, 6.0),
        ({"app->main->assemble": {0: 2.4}}, 6.0),  # 40 % is no explanation
        ({"app->main->assemble": {0: 1.2}}, 1.2),  # of a few of the calls
    ],
)
def test_unknown_causes_are_not_guessed(costs, waited):
    statement = waiting(diagnose(costs, waited=waited))

    assert statement.text.endswith("of the time at p = 4")
    assert statement.causes == ()


def test_runs_with_more_ranks_than_cores_are_not_judged():
    diagnosis = diagnose({"app->main->assemble": {0: 6.0}}, crowded=True)

    assert [entry for entry in diagnosis.statements if entry.kind == "waiting"] == []


@pytest.mark.parametrize(("cpu_s", "is_judged"), [(10.0, True), (8.5, True), (3.0, False)])
def test_waiting_is_not_judged_where_ranks_had_no_core_for_other_reasons(cpu_s, is_judged):
    """They take 10 s each, of which they wait 1.5 s, on a core or not."""
    diagnosis = diagnose({}, cpu_s=cpu_s)

    judged = [entry for entry in diagnosis.statements if entry.kind == "waiting"]
    unjudged = [entry for entry in diagnosis.not_judged if entry.kind == "waiting"]
    assert (len(judged), len(unjudged)) == ((1, 0) if is_judged else (0, 1))
    if not is_judged:
        assert unjudged[0].text.startswith("waiting: for 55 % of the time at p = 4 ranks neither")


@pytest.mark.parametrize("is_inlined", [False, True])
@pytest.mark.parametrize("is_master", [True, False])
def test_a_master_among_ever_more_workers_is_no_loss(is_master, is_inlined):
    """On two ranks, half of them is a master: it waits, and the other one has all of the work.

    As in healthy_queue.cpp, the workers' calls may have the same call path.
    """
    paths = ("app", "app->work->cell", "app->give->MPI_Recv", "app->init->MPI_Init")
    if is_inlined:
        paths = ("app", "app->main", "app->main->MPI_Recv", "app->init->MPI_Init")
    runs = []
    for p in (2, 4, 8, 12):
        workers = np.arange(p) > 0 if is_master else np.arange(p) == 1
        values = {name: np.zeros((4, p)) for name in ("visits", "time", "time_waiting")}
        values["time_exclusive"] = np.zeros((4, p))
        calls = 100.0 * ~workers
        if is_inlined:
            calls += 100.0 * workers / (p - 1) if is_master else 100.0
        visits = [np.nan] * p if is_inlined else 100.0 * workers  # those of samples are unknown
        values["visits"] = np.array([[1.0] * p, visits, calls, [1.0] * p])
        values["time"][0] = 10.0
        values["time_exclusive"][1] = values["time"][1] = 9.0 * workers
        values["time_exclusive"][2] = values["time_waiting"][2] = 9.0 * ~workers
        metrics = tuple(metric for metric in METRICS if metric.name in values)
        table = RunTable(tuple(map(CallPath.parse, paths)), metrics, values)
        runs.append((RunKey.of({"p": p}), table))
    records = [
        RunRecord(str(key), key, RunState.COMPLETE, configuration=Configuration.of({}))
        for key, _ in runs
    ]
    crowded = {key: 2 for key, _ in runs if key.size > 2}
    sampled = {key: 0.01 for key, _ in runs} if is_inlined else {}
    experiment = Experiment(("p",), tuple(runs), crowded, sampling_s=sampled)

    diagnosis = diagnose_experiment(experiment, records, ModelSet(), program="app")

    kinds = {entry.kind for entry in diagnosis.statements if entry.kind in ("waiting", "imbalance")}
    named = {"waiting"} if is_inlined else {"waiting", "imbalance"}  # of one function, or of two
    assert kinds == (set() if is_master else named)
