"""Counts of designs that vary parameters together."""

import numpy as np

from insitu.analysis.diagnosis.diagnose import Diagnosis, diagnose_experiment
from insitu.entities import METRICS, CallPath, Configuration, RunKey, RunRecord, RunState
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, RunTable

PATHS = ("main", "main->fill", "main->share", "main->share->MPI_Allgather")
DIAGONAL = ((1, 20), (2, 40), (4, 60), (8, 80))
CHECK_POINT = (4, 20)


def measure(p: int, n: int, *, per_size: float) -> RunTable:
    """A run in which `fill` is called n times, and all ranks gather 8 kB from each."""
    nan = np.nan
    values = {
        "visits": [1.0, n, 5.0, 5.0],
        "time": [1.0, 0.5, 0.1, 0.1],
        "time_exclusive": [0.4, 0.5, 0.0, 0.1],
        "bytes_received": [nan, nan, nan, 5 * (8e3 + per_size * n) * p],
        "comm_ranks": [nan, nan, nan, p],
        "heap_growth": [8e3 * n + 8e3 * p, 8e3 * n, 8e3 * p, 0.0],
    }
    metrics = tuple(metric for metric in METRICS if metric.name in values)
    arrays = {
        name: np.repeat(np.array(column, dtype=float)[:, None], p, axis=1)
        for name, column in values.items()
    }
    return RunTable(tuple(map(CallPath.parse, PATHS)), metrics, arrays)


def diagnose(points: tuple[tuple[int, int], ...], *, per_size: float = 0.0) -> Diagnosis:
    runs = [(RunKey.of({"p": p, "n": n}), measure(p, n, per_size=per_size)) for p, n in points]
    records = [
        RunRecord(str(key), key, RunState.COMPLETE, configuration=Configuration.of({}))
        for key, _ in runs
    ]
    experiment = Experiment(("p", "n"), tuple(runs))
    return diagnose_experiment(experiment, records, ModelSet(), program="app", target={"p": 4096.0})


def test_what_is_the_same_at_a_check_point_has_a_law_over_p():
    found = diagnose((*DIAGONAL, CHECK_POINT))

    (gathered,) = found.statements
    assert (gathered.callpath, gathered.status, gathered.law) == (
        "main->share",
        "limit",
        "40 kB * p",
    )
    assert (gathered.exact, gathered.points) == (True, "4 of 4 points")
    assert found.p == (1.0, 2.0, 4.0, 8.0)
    assert "app runs on 4,096 ranks but spends" in found.verdict
    (unjudged,) = (entry for entry in found.not_judged if entry.kind == "law")
    assert unjudged.text.startswith("growth with p of memory, times and what depends on n: 2 of 3")
    assert unjudged.run == "p = 8, n = 20"


def test_what_differs_at_a_check_point_has_none():
    found = diagnose((*DIAGONAL, CHECK_POINT), per_size=8.0)

    assert not [entry for entry in found.statements if entry.exact]
    assert "laws need 3" in found.verdict


def test_a_parameter_that_no_check_point_moves_apart_may_be_what_a_count_depends_on():
    """Each number of ranks has one value of n, but for two runs whose n is the same."""
    points = ((1, 20), (2, 20), (4, 60), (8, 80))
    runs = [(RunKey.of({"p": p, "n": n, "m": n}), measure(p, n, per_size=0.0)) for p, n in points]
    runs.append((RunKey.of({"p": 4, "n": 20, "m": 60}), measure(4, 20, per_size=0.0)))
    records = [
        RunRecord(str(key), key, RunState.COMPLETE, configuration=Configuration.of({}))
        for key, _ in runs
    ]
    found = diagnose_experiment(
        Experiment(("p", "n", "m"), tuple(runs)), records, ModelSet(), program="app"
    )

    assert not [entry for entry in found.statements if entry.exact]
