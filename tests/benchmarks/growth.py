"""What one more run costs, by the number of runs: `python tests/benchmarks/growth.py --runs 5 50`.

A campaign of --paths call paths and four metrics is made, in which the counts of half of the call
paths separate the ranks. Printed are CPU seconds and memory of a refit from scratch, and of what an
aggregator does when one more run is complete: open the campaign, fit, and store the models. Each
is measured in a process of its own. With --no-root the tables lack the root call path, so that no
time counts as a small share of it.
"""

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable

import numpy as np

from insitu.campaign.store import open_store
from insitu.entities import (
    BYTES_SENT,
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
from insitu.server.refitter import Refitter
from insitu.workflows.refit import refit_store

SIZES = (64, 128, 256, 512, 1024)
NOISE = 0.02
SEED = 7


def make_run(
    index: int, *, n_paths: int, sizes: tuple[int, ...], root: bool
) -> tuple[RunRecord, RunTable]:
    """A run: the values depend on its index alone."""
    p, repetition = sizes[index % len(sizes)], index // len(sizes)
    laws = np.random.default_rng(SEED)
    exponents = laws.choice([0.0, 0.5, 1.0], n_paths)
    scales = 10 ** laws.uniform(-1, 1, n_paths)
    noise = np.random.default_rng([SEED, index])

    neighbours = np.full(p, 2.0)
    neighbours[[0, -1]] = 1.0
    visits = np.ones((n_paths, p)) * 10.0
    visits[::2] *= neighbours
    exclusive = (scales * p**exponents)[:, None] * noise.normal(1, NOISE, (n_paths, p))
    exclusive[::2] *= neighbours
    if root:
        exclusive[0] = exclusive[1]
    inclusive = exclusive.copy()
    if root:
        inclusive[0] = exclusive.sum(axis=0)

    top = "main->" if root else ""
    texts = [f"{top}module{i // 50}->f{i}" for i in range(n_paths)]
    if root:
        texts[0] = "main"
    key = RunKey.of({"p": p}, repetition)
    record = RunRecord(
        id=f"r{index:05d}",
        key=key,
        state=RunState.COMPLETE,
        started_at=1.8e9 + index,
        ended_at=1.8e9 + index + 3,
        configuration=Configuration.of({"command": "synthetic"}),
        exit_status=(0,) * p,
    )
    table = RunTable(
        tuple(map(CallPath.parse, texts)),
        (TIME, TIME_EXCLUSIVE, VISITS, BYTES_SENT),
        {
            TIME.name: inclusive,
            TIME_EXCLUSIVE.name: exclusive,
            VISITS.name: visits,
            BYTES_SENT.name: visits * 800.0,
        },
    )
    return record, table


def refit_from_scratch(campaign: str) -> None:
    """Read everything, fit everything."""
    with open_store(campaign) as store:
        refit_store(store)


def add_last_run(campaign: str) -> None:
    """What the aggregator does with a run that its models lack."""
    with open_store(campaign) as store:
        refitter = Refitter(store, campaign)
        refitter.finish(refitter.begin()())


def measure(work: Callable[[str], None], campaign: str, limit_mib: int = 0) -> tuple[float, float]:
    """CPU seconds and MiB of a function in a process of its own.

    Args:
        work: the function.
        campaign: its argument.
        limit_mib: of the address space of that process; 0 for no limit.

    Raises:
        RuntimeError: the process has failed, for example because of the limit.
    """
    queue: multiprocessing.Queue[tuple[float, float]] = multiprocessing.Queue()

    def child() -> None:
        if limit_mib:
            resource.setrlimit(resource.RLIMIT_AS, (limit_mib << 20, limit_mib << 20))
        before = time.process_time()
        work(campaign)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        queue.put((time.process_time() - before, memory))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{work.__name__} has failed")
    return queue.get()


def main() -> None:
    """Print a line of JSON per number of runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, nargs="+", default=[5, 50])
    parser.add_argument("--paths", type=int, default=1500)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--no-root", action="store_true")
    parser.add_argument("--limit-mib", type=int, default=0, help="of the address space of a refit")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    options = parser.parse_args()

    for count in options.runs:
        campaign = os.path.join(options.folder, f"growth-{os.getpid()}.insitu")
        how = {"n_paths": options.paths, "sizes": tuple(options.sizes), "root": not options.no_root}
        with open_store(campaign, create=True) as store:
            for index in range(count - 1):
                store.add_run(*make_run(index, **how))
        measure(refit_from_scratch, campaign, options.limit_mib)
        with open_store(campaign) as store:
            store.add_run(*make_run(count - 1, **how))
            values = sum(store.table_bytes(run.id) for run in store.runs())
        added_s, added_mib = measure(add_last_run, campaign, options.limit_mib)
        scratch_s, scratch_mib = measure(refit_from_scratch, campaign, options.limit_mib)
        print(
            json.dumps(
                {
                    "runs": count,
                    "values_mib": values >> 20,
                    "one_more_cpu_s": round(added_s, 2),
                    "one_more_mib": round(added_mib),
                    "scratch_cpu_s": round(scratch_s, 2),
                    "scratch_mib": round(scratch_mib),
                    "database_bytes": os.path.getsize(os.path.join(campaign, "campaign.db")),
                }
            ),
            flush=True,
        )
        shutil.rmtree(campaign)


if __name__ == "__main__":
    main()
