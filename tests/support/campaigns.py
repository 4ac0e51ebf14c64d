"""Small campaigns with known growth, made through the store itself."""

import shutil
import tempfile
from dataclasses import replace
from functools import cache

import numpy as np

from insitu.campaign.load import load_experiment
from insitu.campaign.store import SqliteStore, open_store
from insitu.entities import (
    BYTES_SENT,
    PROCESSOR_WAIT,
    TIME,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    Configuration,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.measurement import RunTable
from insitu.modeling.pipeline import remodel
from tests.support import shared_folder

SCALES = (1, 2, 4, 8, 16)
MAIN, SOLVE, HALO, REDUCE = (
    CallPath.parse(text)
    for text in (
        "main",
        "main->solve",
        "main->solve->exchange->MPI_Sendrecv",
        "main->solve->residual->MPI_Allreduce",
    )
)


def heat_run(
    p: int,
    repetition: int = 0,
    *,
    cores: int | None = None,
    queued: float | None = None,
    **more: float,
) -> tuple[RunRecord, RunTable]:
    """One run: solve falls like 8/p, halo is 0.25 per neighbour, reduce grows like log2(p).

    The first and the last rank have one neighbour, the others two; noise 1 %, seeded. Rank 0 waited
    for a processor for the share `queued` of its time.
    """
    rng = np.random.default_rng([p, repetition])
    neighbours = np.full(p, 2.0)
    neighbours[[0, -1]] = 1.0
    exclusive = np.array(
        [
            np.full(p, 0.1),
            np.full(p, 8.0 / p),
            0.25 * neighbours,
            np.full(p, 0.05 * np.log2(2 * p)),
        ]
    ) * rng.normal(1.0, 0.01, (4, p))
    inclusive = exclusive.copy()
    inclusive[1] += exclusive[2] + exclusive[3]
    inclusive[0] += inclusive[1]
    visits = np.array([np.ones(p), np.ones(p), 100 * neighbours, np.full(p, 100.0)])
    sent = np.array([np.full(p, np.nan), np.full(p, np.nan), 800 * neighbours, np.full(p, 8.0)])
    key = RunKey.of({"p": p, **more}, repetition)
    configuration = {"command": "examples/heat.py", "host": "n1"}
    if cores is not None:
        configuration["cores"] = str(cores)
    record = RunRecord(
        id=f"{p:04d}-{repetition}-{'-'.join(map(str, more.values()))}",
        key=key,
        state=RunState.COMPLETE,
        started_at=1.8e9 + p,
        ended_at=1.8e9 + p + 3,
        configuration=Configuration.of(configuration),
        exit_status=(0,) * p,
    )
    table = RunTable(
        callpaths=(MAIN, SOLVE, HALO, REDUCE),
        metrics=(VISITS, TIME, TIME_EXCLUSIVE, BYTES_SENT),
        values={
            "visits": visits,
            "time": inclusive,
            "time_exclusive": exclusive,
            "bytes_sent": sent,
        },
    )
    if queued is not None:
        waits = np.full((4, p), np.nan)
        waits[0] = 0.0
        waits[0, 0] = queued * inclusive[0, 0]
        table = replace(
            table,
            metrics=(*table.metrics, PROCESSOR_WAIT),
            values={**table.values, PROCESSOR_WAIT.name: waits},
        )
    return record, table


def heat_campaign(
    path: str,
    repetitions: int = 2,
    scales: tuple[int, ...] = SCALES,
    *,
    cores: int | None = None,
) -> SqliteStore:
    """A campaign on disk with runs, on so many cores, and no models yet."""
    store = open_store(path, create=True)
    for p in scales:
        for repetition in range(repetitions):
            store.add_run(*heat_run(p, repetition, cores=cores))
    return store


def modelled_campaign(
    path: str, repetitions: int = 2, scales: tuple[int, ...] = SCALES
) -> SqliteStore:
    """As `heat_campaign`, with its models: a copy of one that each process of tests makes once."""
    shutil.copytree(_modelled(repetitions, scales), path)
    return open_store(path)


@cache
def _modelled(repetitions: int, scales: tuple[int, ...]) -> str:
    folder = tempfile.mkdtemp(prefix="insitu-heat-", dir=shared_folder.path)
    path = f"{folder}/heat.insitu"
    with heat_campaign(path, repetitions, scales) as store:
        store.put_models(remodel(load_experiment(store)))
    return path
