"""Simulated programs and their diagnoses, which the tests of several modules share."""

from collections.abc import Callable, Mapping

import numpy as np

from insitu.analysis.diagnosis.diagnose import (
    Diagnosis,
    diagnose_experiment,
)
from insitu.analysis.diagnosis.lines import diagnosis_lines
from insitu.analysis.diagnosis.statements import Statement
from insitu.entities import (
    METRICS,
    CallPath,
    Configuration,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel
from tests.analysis.soundness import find_faults

SCALES = (2, 3, 4, 6, 8, 12)


TARGET = {"p": 65_536.0}


Vector = Callable[[int], object]


Plan = Mapping[str, Mapping[str, Vector]]


HEALTHY: Plan = {
    "app": {"visits": lambda p: 1, "time": lambda p: 10.0, "time_exclusive": lambda p: 0.1},
    "app->main": {"visits": lambda p: 1, "time": lambda p: 9.0, "time_exclusive": lambda p: 0.5},
    "app->main->push": {"visits": lambda p: 100, "time_exclusive": lambda p: 8.0},
    "app->main->reduce->MPI_Allreduce": {
        "visits": lambda p: 100,
        "bytes_sent": lambda p: 800,
        "bytes_received": lambda p: 800,
        "comm_ranks": lambda p: 100 * p,
    },
}


def spread_evenly(count: int, p: int) -> np.ndarray:
    """How many of some things, such as samples, each of p ranks has: (p,)."""
    return np.full(p, count // p) + (np.arange(p) < count % p)


def diagnose(
    plan: Plan,
    scales: tuple[int, ...] = SCALES,
    *,
    crowded: bool = False,
    has_models: bool = False,
    target: Mapping[str, float] = TARGET,
    base: Plan = HEALTHY,
    sampling_s: float = 0.0,
    unsampled: int = 0,
    is_precise: bool = False,
    sites: Mapping[str, tuple[str, int]] | None = None,
    scaling: str = "",
) -> Diagnosis:
    """The diagnosis of runs whose values are functions of p: a number, or one per rank.

    Whatever a test claims, its statements must be sound. sites: default: a line of each function.
    """
    runs = [(RunKey.of({"p": p}), table_at({**base, **plan}, p)) for p in scales]
    keys = {key: 2 for key, _ in runs} if crowded else {}
    records = [
        RunRecord(str(key), key, RunState.COMPLETE, configuration=Configuration.of({}))
        for key, _ in runs
    ]
    sampled = {key: sampling_s for key, _ in runs if sampling_s and key.size != unsampled}
    precise = frozenset(key for key, _ in runs if is_precise)
    experiment = Experiment(
        ("p",), tuple(runs), keys, sampling_s=sampled, precisely_sampled=precise
    )
    models = remodel(experiment) if has_models else ModelSet()
    named = sites if sites is not None else sites_of({**base, **plan})
    located = {CallPath.parse(path): site for path, site in named.items()}
    diagnosis = diagnose_experiment(
        experiment,
        records,
        models,
        program="app",
        target=target,
        scaling=scaling,
        sites=located,
    )
    assert find_faults(diagnosis, located) == []
    return diagnosis


def sites_of(plan: Plan) -> Mapping[str, tuple[str, int]]:
    """Lines of the functions of a program, which every statement about one of them has."""
    calls = (path.rpartition("->") for path in plan)
    return {
        f"{caller}->{name}": ("/app/program.py", 1)
        for caller, _, name in calls
        if caller and not name.startswith(("MPI_", "("))
    }


def table_at(plan: Plan, p: int) -> RunTable:
    names = sorted({name for values in plan.values() for name in values})
    values = {name: np.full((len(plan), p), np.nan) for name in names}
    for row, quantities in enumerate(plan.values()):
        for name, vector in quantities.items():
            values[name][row] = np.broadcast_to(np.asarray(vector(p), dtype=float), p)
    metrics = tuple(metric for metric in METRICS if metric.name in names)
    return RunTable(tuple(CallPath.parse(path) for path in plan), metrics, values)


def on_rank_0(value: float, p: int) -> np.ndarray:
    vector = np.zeros(p)
    vector[0] = value
    return vector


def only_limit(diagnosis: Diagnosis) -> Statement:
    assert len(diagnosis.limits) == 1, diagnosis_lines(diagnosis)
    return diagnosis.limits[0]


def strong_plan(serial_s: float) -> Plan:
    """1,000 s of work that ranks share, and a funnel that costs rank 0 `serial_s` per rank."""

    def total(p: int) -> float:
        return 1000.0 / p + 0.1

    return {
        "app": {"visits": lambda p: 1, "time": total, "time_exclusive": lambda p: 0.0},
        "app->main": {"visits": lambda p: 1, "time": total, "time_exclusive": lambda p: 0.0},
        "app->main->push": {"visits": lambda p: 1, "time_exclusive": lambda p: 1000.0 / p},
        "app->main->collect->MPI_Recv": {
            "messages_received": lambda p: on_rank_0(1e6 * serial_s / 1.5 * (p - 1), p),
        },
    }


def calls_of_files() -> Mapping[str, Vector]:
    """A file that rank 0 opens, at the same price on any number of ranks."""
    return {
        "visits": lambda p: on_rank_0(1, p),
        "files_opened": lambda p: on_rank_0(1, p),
        "time_exclusive": lambda p: on_rank_0(0.01, p),
    }


MPI_MEMORY = {"memory_mpi": lambda p: 14e6 + 0.3e6 * p}


LISTS: Plan = {
    "app": {
        **HEALTHY["app"],
        **MPI_MEMORY,
        "heap_growth": lambda p: 10e6 + 16_000 * p,
        "memory_rss_peak": lambda p: 54e6 + 0.3e6 * p + 200_000 * p + 30_000 * (p % 3),
    },
    "app->main": {**HEALTHY["app->main"], "heap_growth": lambda p: 16_000 * p},
    "app->main->register": {
        "visits": lambda p: 1,
        "time_exclusive": lambda p: 0.1,
        "heap_growth": lambda p: 16_000 * p * (1.0, 1.06, 1.11)[p % 3],  # reserved for more
    },
}


def chain(p: int) -> tuple[list[int], list[int]]:
    """Messages received and sent by each rank that passes 20 messages on to the next."""
    return [0] + [20] * (p - 1), [20] * (p - 1) + [0]


def sweep_plan(send: str) -> Plan:
    """Twenty messages to both neighbours in a row of ranks, of which the inner ranks have two."""

    def counts(p: int) -> np.ndarray:
        return np.array([20] + [40] * (p - 2) + [20])

    return {
        "app->main->sweep": {"visits": lambda p: 40, "time_exclusive": lambda p: 0.01},
        "app->main->sweep->MPI_Recv": {"messages_received": counts, "bytes_received": counts},
        f"app->main->sweep->{send}": {"messages_sent": counts, "bytes_sent": counts},
    }


def visiting(visits: Vector) -> Plan:
    """A function of which each visit takes 2 ms."""
    return {
        "app->main->cell": {
            "visits": visits,
            "time_exclusive": lambda p: 0.002 * np.asarray(visits(p), dtype=float),
        }
    }


def grid_of(p: int) -> tuple[int, int]:
    rows = max(rows for rows in range(1, p + 1) if p % rows == 0 and rows * rows <= p)
    return p // rows, rows
