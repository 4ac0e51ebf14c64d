"""Behaviour that changes along one of two parameters: what models of the later points are worth.

    python tests/evaluation/grid_changes.py [--count 40] [--seed 1]

Series follow one law of growth_data.FORMS before a value of a parameter, and another, 0.5 to 2
times as large in the median, from there on; "steady" ones follow one law, "bending" ones a law
outside of the hypothesis space that does not change. Either all series of a pool are such, or each
fifth, and the others are steady. Counted are series found to change; symmetric error (median /
worst tenth) and values held by 95 % intervals, at four times the largest of both parameters, of one
law and as fitted.
"""

import argparse
from itertools import product
from unittest import mock

import growth_data as data
import numpy as np

import insitu
from insitu.modeling.doubt import CHANGE_IN_GRID
from insitu.modeling.evidence import modeler

GRIDS = (
    ([4, 8, 16, 32, 64], [10, 20, 40, 80, 160]),
    ([2, 4, 8, 16, 32, 64, 128, 256], [10, 20, 40, 80, 160, 320]),
)
KINDS = ("steady", "bending", "p", "n")
NOISE = (0.01, 0.05)
ONE_IN = 5


def steady(rng, points):
    """A law of the hypothesis space at points (n, 2)."""
    form = list(data.FORMS)[rng.integers(len(data.FORMS))]
    exponents = [data.PLAIN[i] for i in rng.integers(len(data.PLAIN), size=2)]
    law = np.ones(len(points))
    for group in data.FORMS[form]:
        part = np.prod([data.term(exponents[i], points[:, i]) for i in group], axis=0)
        law = law + 10 ** rng.uniform(-1, 1) * part / np.median(part)
    return law


def bending(rng, points):
    """A smooth law outside of the hypothesis space."""
    p, n = points.T
    size, power = 10 ** rng.uniform(1, 2), rng.uniform(-0.7, 1.2)
    laws = (
        n / (1 + n / size) * np.log2(p + 1),
        n * (1 + p / size) ** power,
        np.hypot(n, size * p / 10),
        n**1.3 * p**power,
    )
    return laws[rng.integers(len(laws))]


def series(rng, points, kind, changes_at):
    if kind == "steady":
        return steady(rng, points)
    if kind == "bending":
        return bending(rng, points)
    before, behind = steady(rng, points), steady(rng, points)
    ratio = rng.choice([0.5, 0.7, 1.5, 2.0])
    behind *= ratio * np.median(before) / np.median(behind)
    column = "pn".index(kind)
    return np.where(points[:, column] < changes_at[column], before, behind)


def fit(points, values):
    return insitu.fit(points, values, parameters=("p", "n"))


def fit_one_law(points, values):
    """The same without looking for changes."""
    with mock.patch.object(
        modeler, "solve_with_changes", lambda some, dependencies, solve: solve(some)
    ):
        return fit(points, values)


def describe(models, target, truths):
    predicted = np.array([model.predict([target])[0] for model in models])
    low, high = np.array([model.interval([target])[0] for model in models]).T
    error = 200 * np.abs(predicted - truths) / (predicted + truths)
    held = 100 * np.mean((low <= truths) & (truths <= high))
    return f"{np.median(error):.1f} / {np.quantile(error, 0.9):.0f} % | {held:.0f}"


def row(options, grids, noise, kind, one_in):
    """One line of the table."""
    points = np.array(np.meshgrid(*grids, indexing="ij"), dtype=float).reshape(2, -1).T
    target = 4.0 * points.max(axis=0)
    changes_at = [grid[len(grid) // 2] for grid in grids]
    rng = np.random.default_rng([options.seed, len(points), int(100 * noise)])
    kinds = [kind if i % one_in == 0 else "steady" for i in range(options.count)]
    everywhere = np.vstack([points, target])
    laws = np.array([series(rng, everywhere, each, changes_at) for each in kinds])
    exact, truths = laws[:, :-1], laws[:, -1]
    values = exact * np.exp(noise * rng.standard_normal(exact.shape))

    models = fit(points, values)
    codes = [{finding.code for finding in model.findings} for model in models]
    found = sum(CHANGE_IN_GRID in of_model for of_model in codes)
    label = f"{kind}, {'all' if one_in == 1 else 'one in five'}"
    print(
        f"| {len(grids[0])} × {len(grids[1])} | {noise:.0%} | {label} "
        f"| {found} of {kinds.count(kind)} "
        f"| {describe(fit_one_law(points, values), target, truths)} "
        f"| {describe(models, target, truths)} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("| grid | noise | changing | found to change | one law | held | as fitted | held |")
    for case in product(GRIDS, NOISE, KINDS, (1, ONE_IN)):
        row(options, *case)


if __name__ == "__main__":
    main()
