"""Behaviour classes found in populations with known classes, beside the way of the paper.

    python tests/evaluation/classes.py [--campaigns 2] [--seed 1] [--extrap PYTHON]
        [--large] [--refit PATHS]

Domains in one, two and three dimensions at p = 4..256 (3-D 8..512), classes 5 to 50 % apart, noise
of 1 to 5 %, four repetitions, one slow measurement in a hundred. Per row: adjusted Rand index of
the classes found (mean over runs), share of campaigns whose classes are right in every run, and
share of classes whose model is right within 5 % at four times the largest run. "Shuffled" has the
ranks in an order that is no one's. Extra-P averages ranks: all are one class, with one model.
--large clusters 100,000 ranks on 1,000 call paths instead.
--refit makes all models of so many call paths from scratch, each with two times and two counts,
where every rank has 2 % noise of its own: CPU time, and how many call paths are split, falsely and
rightly.
"""

import argparse
import pickle
import subprocess
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from insitu.entities import (
    BYTES_SENT,
    TIME,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    RunKey,
)
from insitu.modeling.base import ModelSet
from insitu.modeling.classes.cluster import cluster
from insitu.modeling.measurement import Experiment, RunTable, SeriesKey
from insitu.modeling.pipeline import RefitOptions, remodel

PATH = CallPath.parse("main->flux")
DOMAINS = ("ends", "plane", "oriented plane", "volume")
GAPS = (0.05, 0.1, 0.2, 0.5)
NOISES = (0.01, 0.02, 0.05)
REPETITIONS = 4
PLANES = {2**k: (2 ** (k // 2), 2 ** (k - k // 2)) for k in range(2, 11)}
VOLUMES = {2**k: tuple(2 ** ((k + d) // 3) for d in range(3)) for k in range(3, 12)}


def weights(domain, p):
    """How much boundary work each rank has; a function of p gives its own answer."""
    if callable(domain):
        return domain(p)
    if domain == "ends":
        rank = np.arange(p)
        return ((rank == 0) | (rank == p - 1)).astype(int)
    grid = VOLUMES[p] if domain == "volume" else PLANES[p]
    at = np.unravel_index(np.arange(p), grid)
    borders = [(x == 0) * 1 + (x == n - 1) for x, n in zip(at, grid, strict=True)]
    if domain == "oriented plane":
        return np.minimum(borders[0], 1) * 2 + np.minimum(borders[1], 1)
    return np.sum(borders, axis=0)


def campaign(rng, domain, gap, noise, *, imbalance=0.5, repetitions=REPETITIONS):
    """Experiment, true classes per run, and the noise-free time of a class at any p.

    imbalance: of ranks within their class, the same in all repetitions, in units of the noise.
    """
    base, drift = 10 ** rng.uniform(-1, 2), rng.choice([0.0, rng.uniform(0.1, 0.5)])
    keeps_ratio = rng.random() < 0.5
    growth = np.sqrt if rng.random() < 0.5 else np.log2

    def truth(weight, p):
        inner = base * (1 + drift * np.log2(p))
        if keeps_ratio:
            return inner * (1 + gap) ** weight
        return inner + weight * gap * base * (1 + 4 * drift) * growth(p) / growth(16)

    runs, classes = [], {}
    for p in (8, 16, 32, 64, 128, 256, 512) if domain == "volume" else (4, 8, 16, 32, 64, 128, 256):
        weight = classes[p] = weights(domain, p)
        clean = truth(weight, p)
        static = 1 + imbalance * noise * np.clip(rng.standard_normal(p), -3, 3)
        for repetition in range(repetitions):
            slow = np.where(rng.random(p) < 0.01, rng.uniform(1.3, 3, p), 1.0)
            times = clean * static * (1 + noise * np.clip(rng.standard_normal(p), -3, 3)) * slow
            times += 0.2 * noise * np.median(clean) * rng.exponential(size=p)
            counts = 1e9 * (1 + drift * np.log2(p)) * (1 + gap / 3) ** weight
            counts *= 1 + 0.001 * rng.standard_normal(p)
            values = {"time": times[None], "visits": counts[None]}
            runs.append(
                (RunKey.of({"p": p}, repetition), RunTable((PATH,), (TIME, VISITS), values))
            )
    return Experiment(("p",), tuple(runs)), classes, truth


def without_counts(experiment: Experiment) -> Experiment:
    """The same with times only."""
    runs = [
        (key, RunTable(table.callpaths, (TIME,), {"time": table.values["time"]}))
        for key, table in experiment.runs
    ]
    return Experiment(experiment.parameters, tuple(runs))


def shuffled(rng, experiment: Experiment, classes):
    """The same with the ranks of each run in another order."""
    orders = {p: rng.permutation(p) for p in classes}
    runs = [
        (
            key,
            RunTable(
                table.callpaths,
                table.metrics,
                {name: array[:, orders[table.size]] for name, array in table.values.items()},
            ),
        )
        for key, table in experiment.runs
    ]
    mixed = {p: labels[orders[p]] for p, labels in classes.items()}
    return Experiment(experiment.parameters, tuple(runs)), mixed


def averaged(python, campaigns) -> list[tuple[float, float, float]]:
    """Scores of Extra-P on the mean over ranks: every repetition of every run a value."""
    scores = []
    for experiment, classes, truth in campaigns:
        points, target = [[p] for p in sorted(classes)], [4.0 * max(classes)]
        means = {p: [] for p in classes}
        for key, table in experiment.runs:
            means[key.size].append(float(table.values["time"].mean()))
        task = ("predict", "basic", points, [[means[p] for (p,) in points]], [target])
        answer = subprocess.run(
            [python, Path(__file__).with_name("growth_extrap.py")],
            input=pickle.dumps(task),
            capture_output=True,
            check=True,
        )
        ((predicted,),) = pickle.loads(answer.stdout)
        weights_there = np.unique(classes[max(classes)]).tolist()
        hits = [abs(predicted / truth(w, target[0]) - 1) <= 0.05 for w in weights_there]
        single = np.zeros(max(classes), dtype=int)
        index = [rand_index(single[:p], true) for p, true in classes.items()]
        scores.append((float(np.mean(index)), 0.0, float(np.mean(hits))))
    return scores


def large() -> None:
    """Cluster as many ranks as a large machine has."""
    rng = np.random.default_rng(0)
    ranks, paths = 100_000, 1_000
    values = np.where(np.arange(ranks) % 317 == 0, 1.5, 1.0) * rng.lognormal(0, 2, (paths, 1))
    for noise in (0.0, 0.01):
        noisy = values * np.exp(noise * rng.standard_normal((1, ranks)))
        start = time.process_time()
        labels = cluster(noisy)
        took_s = time.process_time() - start
        print(f"{paths} call paths, {ranks} ranks, noise {noise}: {took_s:.2f} s of CPU")
        print(f"  {int(labels.max()) + 1} clusters at most")


def refit(paths: int, seed: int) -> None:
    """Six runs: of four ranks, as they are and with a class of one rank; and of more each time."""
    kinds = [
        ("4 ranks", [4] * 6, 1, 0.0),
        ("4 ranks, one 10 % slower", [4] * 6, 1, 0.1),
        ("4 ranks, 3 repetitions", [4] * 6, 3, 0.0),
        ("4 to 128 ranks", [4, 8, 16, 32, 64, 128], 1, 0.0),
    ]
    print(f"{'runs':26}{'series':>8}{'CPU s':>8}{'split':>8}{'of call paths':>15}")
    for name, sizes, repetitions, slower in kinds:
        experiment = alike(np.random.default_rng(seed), paths, sizes, repetitions, slower)
        start = time.process_time()
        found = remodel(experiment)
        took_s = time.process_time() - start
        split = {clusters.callpath for clusters in found.clusters if int(clusters.labels.max()) > 0}
        print(f"{name:26}{len(found.models):8}{took_s:8.2f}{len(split):8}{paths:15}")


def alike(rng, count: int, sizes, repetitions: int, slower: float) -> Experiment:
    """Ranks that do the same but for their noise, and for rank 0 where it is slower."""
    paths = tuple(CallPath.parse(f"main->f{index:05}") for index in range(count))
    base = rng.uniform(1, 10, (count, 1))
    runs = []
    for place, size in enumerate(sizes):
        p = 8 * 2**place
        even = np.ones((count, size))
        work = base * p**0.5 * (1 + slower * (np.arange(size) == 0))
        for repetition in range(repetitions):
            noise = 1 + 0.02 * rng.standard_normal((2, count, size))
            values = {
                "time": work * noise[0],
                "time_exclusive": work * noise[1] / 2,
                "visits": even * p,
                "bytes_sent": even * 1000 * p,
            }
            metrics = (TIME, TIME_EXCLUSIVE, VISITS, BYTES_SENT)
            runs.append((RunKey.of({"p": p}, repetition), RunTable(paths, metrics, values)))
    return Experiment(("p",), tuple(runs))


def rand_index(first, two):
    """Adjusted Rand index of two labellings."""
    table = np.zeros((first.max() + 1, two.max() + 1))
    np.add.at(table, (first, two), 1)
    pairs = [float((x * (x - 1) / 2).sum()) for x in (table, table.sum(1), table.sum(0))]
    expected = pairs[1] * pairs[2] / (len(first) * (len(first) - 1) / 2)
    highest = (pairs[1] + pairs[2]) / 2
    return 1.0 if highest == expected else (pairs[0] - expected) / (highest - expected)


def judge(found: ModelSet, classes, truth) -> tuple[float, float, float]:
    """Rand index, whether all runs are right, share of classes predicted within 5 %."""
    indices, pairs = [], set()
    for clusters in (clusters for clusters in found.clusters if clusters.metric == "time"):
        true = classes[clusters.run.size]
        indices.append(rand_index(clusters.labels, true))
        pairs |= {(clusters.names[a], int(b)) for a, b in zip(clusters.labels, true, strict=True)}
    right = len({a for a, _ in pairs}) == len(pairs) == len({b for _, b in pairs})
    far = 4 * max(classes)
    models = {model.key: model.model for model in found.models}
    hits = []
    for weight in np.unique(classes[max(classes)]):
        names = {a for a, b in pairs if b == weight}
        model = models.get(SeriesKey(PATH, "time", next(iter(names)))) if len(names) == 1 else None
        true = truth(int(weight), far)
        hits.append(model is not None and abs(model.predict([[far]])[0] / true - 1) <= 0.05)
    return float(np.mean(indices)), float(right), float(np.mean(hits))


def ways(experiment: Experiment, modeler: str) -> Iterator[tuple[str, ModelSet]]:
    """Each way to find classes."""
    times = without_counts(experiment)
    yield "paper, time", remodel(times, RefitOptions(classes="paper", modeler=modeler))
    yield "insitu, time", remodel(times, RefitOptions(modeler=modeler))
    yield "insitu, time and counts", remodel(experiment, RefitOptions(modeler=modeler))


def main() -> None:
    """Print a table: rows are ways and domains."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--campaigns", type=int, default=2, help="per domain, gap and noise")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modeler", default="evidence")
    parser.add_argument("--extrap", help="a Python in which Extra-P is installed")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--refit", type=int, metavar="PATHS", help="cost of a refit instead")
    options = parser.parse_args()
    if options.refit:
        refit(options.refit, options.seed)
        return
    if options.large:
        large()
        return
    scores: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    start = time.perf_counter()
    for place, (domain, gap, noise) in enumerate(product(DOMAINS, GAPS, NOISES)):
        rng = np.random.default_rng([options.seed, place])
        for _ in range(options.campaigns):
            experiment, classes, truth = campaign(rng, domain, gap, noise)
            for way, found in ways(experiment, options.modeler):
                scores.setdefault((way, domain), []).append(judge(found, classes, truth))
            other, mixed = shuffled(rng, without_counts(experiment), classes)
            found = remodel(other, RefitOptions(modeler=options.modeler))
            scores.setdefault(("insitu, time, shuffled", domain), []).append(
                judge(found, mixed, truth)
            )
            if options.extrap:
                answer = averaged(options.extrap, [(experiment, classes, truth)])
                scores.setdefault(("Extra-P, mean of ranks", domain), []).extend(answer)
    print(f"{'way':25}{'domain':17}{'Rand index':>11}{'all right':>11}{'predicted':>11}")
    for way in dict.fromkeys(way for way, _ in scores):
        rows = {domain: scores[way, domain] for domain in DOMAINS}
        rows["mean"] = [value for row in rows.values() for value in row]
        for domain, row in rows.items():
            index, right, predicted = np.mean(row, axis=0)
            print(f"{way:25}{domain:17}{index:11.3f}{right:11.0%}{predicted:11.0%}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
