"""What a refit gains from helpers: `python tests/benchmarks/refit.py --series 20000`.

Serial and spread over processes of this machine in turns, in CPU seconds of the one that asks and
of its helpers; with them what k helpers would make of it, were they not in each other's way. Under
mpiexec (`mpiexec -n 3 python tests/benchmarks/refit.py --executor mpi`) wall time decides.
"""

import argparse
import os
import resource
import time
from pathlib import Path

import numpy as np

import insitu
from insitu.launch.executors import WorkerFinished, open_executor

SEED = 1
NAMES = ("p", "n")


def series(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Eight scales, three repetitions, 2 % noise; a seventh of the series jumps."""
    random = np.random.default_rng(SEED)
    x = 2.0 ** np.arange(2, 10)
    values = 1 + 10 ** random.uniform(-2, 3, (count, 1)) * x ** random.choice(
        [0, 0.5, 1, 1.5, 2], (count, 1)
    )
    values[::7, 4:] *= 3
    return x, values[:, :, None] * random.normal(1, 0.02, (count, 8, 3))


def several(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two parameters at 5 x 5 points, 2 % noise: sums and products."""
    random = np.random.default_rng(SEED)
    at = np.array([[p, n] for p in 2.0 ** np.arange(1, 6) for n in 10 * 2.0 ** np.arange(5)])
    product = random.choice([0, 1], (count, 1))
    values = 1 + 10 ** random.uniform(-1, 1, (count, 1)) * at[:, 0] ** 0.5
    values += 0.1 * at[:, 1] * at[:, 0] ** product
    return at, values * random.normal(1, 0.02, values.shape)


def told(models: list[insitu.Model]) -> list[tuple[str, str]]:
    """What must be the same."""
    return [
        (repr(model.segments), repr(model.interval(np.full((1, len(model.parameters)), 4096))))
        for model in models
    ]


def helpers_s() -> float:
    """CPU seconds of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure in turns, print medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=20_000)
    parser.add_argument("--parameters", type=int, default=1, choices=[1, 2])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--executor", choices=["processes", "mpi"], default="processes")
    given = parser.parse_args()
    x, values = (series if given.parameters == 1 else several)(given.series)
    insitu.fit(x, values[:300], parameters=NAMES[: given.parameters])
    rows = []
    try:
        if given.executor == "mpi":
            with open_executor("mpi") as team:
                insitu.fit(x, values[:3000], parameters=NAMES[: given.parameters], executor=team)
                rows = [turn(x, values, team) for _ in range(given.turns)]
        else:
            rows = [turn(x, values, None) for _ in range(given.turns)]
    except WorkerFinished:
        return
    alone, wall, asking, helping, spread = np.median(rows, axis=0)
    print(f"{given.series} series, load {os.getloadavg()[0]:.0f}, {Path(__file__).name}")
    print(f"alone           {alone:6.2f} s of CPU, {wall:6.2f} s in all")
    print(f"who asks        {asking:6.2f} s of CPU, {spread:6.2f} s in all, {wall / spread:.2f} x")
    if helping:
        print(f"helpers         {helping:6.2f} s of CPU")
        for k in (2, 4, 16, 64):
            print(f"{k:3} helpers: at best {alone / (asking + helping / k):5.1f} x, from CPU times")


def turn(x: np.ndarray, values: np.ndarray, team: object) -> tuple[float, ...]:
    """CPU and wall seconds alone; CPU of who asks, of helpers, and wall seconds with them."""
    alone, alone_s, alone_wall = fitted(x, values, None)
    if team is not None:
        spread, asking, spread_wall = fitted(x, values, team)
    else:
        before = helpers_s()
        with open_executor("processes") as pool:
            fitted(x, values[:3000], pool)  # helpers have imported what they need
        start_s, before = helpers_s() - before, helpers_s()
        with open_executor("processes") as pool:
            fitted(x, values[:3000], pool)
            spread, asking, spread_wall = fitted(x, values, pool)
        before += start_s
    assert told(spread) == told(alone), "not the same models"
    helping = helpers_s() - before if team is None else 0.0
    return alone_s, alone_wall, asking, helping, spread_wall


def fitted(x: np.ndarray, values: np.ndarray, team: object) -> tuple[list[insitu.Model], ...]:
    """The models, CPU and wall seconds of this process."""
    cpu, wall = time.process_time(), time.perf_counter()
    names = NAMES[: x.reshape(len(x), -1).shape[1]]
    models = insitu.fit(x, values, parameters=names, executor=team)
    return models, time.process_time() - cpu, time.perf_counter() - wall


if __name__ == "__main__":
    main()
