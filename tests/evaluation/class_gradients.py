"""Campaigns whose ranks differ without groups: how many are divided into behaviour classes.

    python tests/evaluation/class_gradients.py [--campaigns 12] [--seed 1] [--paths 1]

Times of one call path, or of several whose ranks differ alike, on 4 to 256, or 4 to 24 ranks, once
or four times. Ranks differ by 10 to 100 % along a line, a parabola, a sine or a plane, in no order,
or not at all; noise is 0.5 to 5 %, and one value in a hundred is up to three times as large.
"""

import argparse
import math

import numpy as np

from insitu.entities import TIME, CallPath, RunKey
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

PATH = CallPath.parse("main->flux")
SIZES = ((4, 8, 16, 32, 64, 128, 256), (4, 6, 8, 12, 16, 24))
GAPS = (0.1, 0.2, 0.5, 1.0)
NOISES = (0.005, 0.01, 0.02, 0.05)
SLOW = 0.01  # share of slow values


def width(p):
    """Columns of the most square grid of p ranks."""
    return p // max(n for n in range(1, math.isqrt(p) + 1) if p % n == 0)


def fraction(p):
    """Rank / p: (p,)."""
    return np.arange(p) / p


def diagonal(p):
    """Row and column of each rank in a grid, their mean as a fraction: (p,)."""
    columns = width(p)
    rank = np.arange(p)
    return (rank % columns / columns + rank // columns / (p // columns)) / 2


KINDS = {
    "grow with the rank": lambda p, gap, rng: 1 + gap * fraction(p),
    "fall with the rank": lambda p, gap, rng: 1 + gap * (1 - fraction(p)),
    "grow with the rank and with p": lambda p, gap, rng: 1 + gap * np.arange(p) / 64,
    "grow exponentially": lambda p, gap, rng: np.exp(2 * gap * fraction(p)),
    "parabola": lambda p, gap, rng: 1 + 4 * gap * fraction(p) * (1 - fraction(p)),
    "sine": lambda p, gap, rng: 1 + gap / 2 * np.sin(1.5 * np.pi * fraction(p)),
    "plane over a grid": lambda p, gap, rng: 1 + gap * diagonal(p),
    "columns of a grid": lambda p, gap, rng: 1 + gap * (np.arange(p) % width(p)) / width(p),
    "line, in no order": lambda p, gap, rng: 1 + gap * rng.permutation(p) / p,
    "evenly spread": lambda p, gap, rng: 1 + gap * rng.random(p),
    "normally spread": lambda p, gap, rng: np.exp(gap / 4 * rng.standard_normal(p)),
    "exponentially spread": lambda p, gap, rng: 1 + gap / 3 * rng.exponential(size=p),
    "equal": lambda p, gap, rng: np.ones(p),
}


def campaign(rng, kind, sizes, repetitions, n_paths):
    """A campaign of call paths whose ranks differ alike, with noise of their own."""
    gap, noise = rng.choice(GAPS), rng.choice(NOISES)
    paths = (PATH, *(CallPath.parse(f"main->flux{number}") for number in range(1, n_paths)))
    runs = []
    for p in sizes:
        clean = 10 * p**0.3 * KINDS[kind](p, gap, rng)
        for repetition in range(repetitions):
            times = []
            for _ in paths:
                slow = np.where(rng.random(p) < SLOW, rng.uniform(1.3, 3, p), 1.0)
                times.append(clean * (1 + noise * rng.standard_normal(p)) * slow)
            table = RunTable(paths, (TIME,), {"time": np.array(times)})
            runs.append((RunKey.of({"p": p}, repetition), table))
    return Experiment(("p",), tuple(runs))


def main():
    """Print a table: a row per kind, with the campaigns that are divided."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--campaigns", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--paths", type=int, default=1, help="call paths whose ranks differ alike")
    options = parser.parse_args()

    print(f"| ranks | divided of {options.campaigns}, once measured | four times |")
    print("| --- | --- | --- |")
    for i, kind in enumerate(KINDS):
        divided = []
        for repetitions in (1, 4):
            models = []
            for k in range(options.campaigns):
                rng = np.random.default_rng([options.seed, i, repetitions, k])
                sizes = SIZES[k % len(SIZES)]
                experiment = campaign(rng, kind, sizes, repetitions, options.paths)
                models.append(remodel(experiment))
            has_classes = [any(len(entry.names) > 1 for entry in m.clusters) for m in models]
            divided.append(sum(has_classes))
        print(f"| {kind} | {divided[0]} | {divided[1]} |", flush=True)


if __name__ == "__main__":
    main()
