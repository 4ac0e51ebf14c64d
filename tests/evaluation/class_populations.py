"""Behaviour classes of ranks that are on no wall of a domain: leaders, halves, stages, random sets.

    python tests/evaluation/class_populations.py [--campaigns 6] [--seed 1] [--counts]
        [--paths 1] [--alike] [--repetitions 4] [--only every-8th first-half ...]

Campaigns are those of `classes.py`: p = 4..256, classes 5 to 50 % apart, noise of 1 to 5 %, four
repetitions. With `--paths`, so many call paths have the same classes; with `--alike`, the ranks of
a class differ by nothing but noise. Per population: adjusted Rand
index of the classes of times (mean over runs), share of campaigns whose classes are right in every
run, and both with counts that separate the ranks. The last line has campaigns without classes, and
how many of them were divided.
"""

import argparse
import time

import numpy as np
from classes import PATH, REPETITIONS, campaign, judge, rand_index, without_counts

from insitu.entities import TIME, VISITS, CallPath
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

GAPS, NOISES = (0.05, 0.1, 0.2, 0.5), (0.01, 0.02, 0.05)


def residues(modulus, *chosen):
    """Ranks whose number has one of these remainders."""
    return lambda p: np.isin(np.arange(p) % modulus, chosen).astype(int)


def interval(low, high):
    """Ranks between two fractions of p."""
    return lambda p: ((np.arange(p) >= low * p) & (np.arange(p) < high * p)).astype(int)


def stages(count):
    """A pipeline: equal ranges, each with more work than the one before."""
    return lambda p: np.arange(p) * count // p


def random_set(share):
    """The same ranks of a node list each time: a share of them in no order."""
    order = np.random.default_rng(7).random(4096)
    return lambda p: (order[:p] < share).astype(int)


def scattered_set(share):
    """Other ranks in each run: a share of them in no order."""
    return lambda p: (np.random.default_rng([7, p]).random(p) < share).astype(int)


POPULATIONS = {
    "every-8th": residues(8, 0),
    "every-6th": residues(6, 5),
    "every-11th": residues(11, 3),
    "3-of-8": residues(8, 1, 4, 6),
    "mod-3": lambda p: np.arange(p) % 3,
    "first-half": interval(0, 1 / 2),
    "last-quarter": interval(3 / 4, 1),
    "first-fifth": interval(0, 1 / 5),
    "middle-third": interval(1 / 3, 2 / 3),
    "mpmd-3-to-5": interval(0, 3 / 8),
    "stages-3": stages(3),
    "stages-4": stages(4),
    "stages-5": stages(5),
    "master": lambda p: (np.arange(p) == 0).astype(int),
    "workers": lambda p: (np.arange(p) > 0).astype(int),
    "first-2": lambda p: (np.arange(p) < 2).astype(int),
    "mod-13-held-out": residues(13, 5),
    "quarters-held-out": lambda p: np.arange(p) * 4 // p % 2,
    "0.37-to-0.81-held-out": interval(0.37, 0.81),
    "random-quarter": random_set(1 / 4),
    "random-half": random_set(1 / 2),
    "scattered-quarter": scattered_set(1 / 4),
    "scattered-half": scattered_set(1 / 2),
}


def program(rng, population, cell, paths, **options):
    """Several call paths whose classes are the same ranks: experiment, classes, the law of one."""
    tables, classes, truth = [], {}, None
    for _ in range(paths):
        experiment, classes, truth = campaign(rng, population, *cell, **options)
        tables.append(without_counts(experiment))
    names = [PATH, *(CallPath((f"program {number}",)) for number in range(1, paths))]

    runs = []
    for number, (key, _) in enumerate(tables[0].runs):
        times = [experiment.runs[number][1].values["time"][0] for experiment in tables]
        runs.append((key, RunTable(tuple(names), (TIME,), {"time": np.array(times)})))
    return Experiment(tables[0].parameters, tuple(runs)), classes, truth


def with_exact_counts(experiment, classes):
    """The same with a count that is equal within a class in all repetitions."""
    runs = []
    for key, table in experiment.runs:
        counts = 100.0 * key.size + 7.0 * classes[key.size]
        values = {"time": table.values["time"], "visits": counts[None]}
        runs.append((key, RunTable(table.callpaths, (TIME, VISITS), values)))
    return Experiment(experiment.parameters, tuple(runs))


def count_divided(campaigns, seed, **options):
    """How many campaigns without classes are divided."""
    divided = 0
    for number in range(campaigns):
        rng = np.random.default_rng([seed, 999, number])
        noise = NOISES[number % len(NOISES)]
        experiment, _, _ = campaign(rng, lambda p: np.zeros(p, dtype=int), 0.0, noise, **options)
        found = remodel(without_counts(experiment))
        divided += any(len(entry.names) > 1 for entry in found.clusters)
    return divided


def main():
    """Print a table: a row per population."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--campaigns", type=int, default=6, help="per population")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--counts", action="store_true", help="with counts, too")
    parser.add_argument("--paths", type=int, default=1, help="call paths that share the classes")
    parser.add_argument("--alike", action="store_true", help="ranks of a class are alike")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--only", nargs="+", choices=POPULATIONS, default=list(POPULATIONS))
    options = parser.parse_args()

    kind = {"imbalance": 0.0 if options.alike else 0.5, "repetitions": options.repetitions}
    start = time.perf_counter()
    cells = [(gap, noise) for gap in GAPS for noise in NOISES]
    print(f"{'population':24}{'Rand index':>11}{'all right':>11}{'counts':>9}", flush=True)
    means = []
    for name in options.only:
        scores, counted = [], []
        for number in range(options.campaigns):
            index = list(POPULATIONS).index(name)
            rng = np.random.default_rng([options.seed, index, number])
            gap, noise = cells[(5 * number + index) % len(cells)]
            cell = (gap, noise)
            experiment, classes, truth = program(
                rng, POPULATIONS[name], cell, options.paths, **kind
            )
            scores.append(judge(remodel(experiment), classes, truth)[:2])
            if options.counts:
                rng = np.random.default_rng([options.seed, index, number])
                experiment, classes, _ = campaign(rng, POPULATIONS[name], gap, noise)
                found = remodel(with_exact_counts(experiment, classes))
                for entry in found.clusters:
                    if entry.metric == "time":
                        counted.append(rand_index(entry.labels, classes[entry.run.size]))
        index, right = np.mean(scores, axis=0)
        means.append(index)
        by_counts = f"{np.mean(counted):9.3f}" if counted else ""
        print(f"{name:24}{index:11.3f}{right:11.0%}{by_counts}", flush=True)
    print(f"{'mean':24}{np.mean(means):11.3f}")
    divided = count_divided(options.campaigns, options.seed, **kind)
    print(f"{divided} of {options.campaigns} campaigns without classes divided")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
