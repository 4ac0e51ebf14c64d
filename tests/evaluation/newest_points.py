"""What newest points that leave a law turn out to be at the next scale, in measured programs.

    python tests/evaluation/newest_points.py FILE.jsonl ... [--share 0.1]

Files as for `real.py`, of one parameter. Each series is fitted to its first five points, its first
six and so on. Where the newest of these leaves the law of the others with at least this probability
(`--share`), the next point tells whether it was disturbed (the law goes on), began a step (values
stay larger by the same factor) or a new law (the exponent has changed). The shares of the three are
the maximum of their likelihood, found by expectation maximisation [Dempster, Laird and Rubin 1977]
where all families count alike. The errors are medians of the absolute logarithm of the next value
over what each of the three predicts.
"""

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
from real import series

import insitu

MIN_POINTS = 5  # from which newest points are examined
DEVIATION = 0.1  # of a law one scale ahead, beside what its spread knows
LEAST_DENSITY = 1e-8
PRIOR_FAMILIES = 0.01  # of each of the three, so that none has a share of zero
ROUNDS = 200


def find_kinds(spread, start):
    """Return which functions of a spread go on behind this point in each of the three ways: (3, k).

    Args:
        start: the last point before the newest.
    """
    is_behind = np.isclose(spread.all_tails()[:, 0], start)
    is_step = is_behind & (spread.all_tails()[:, 2] > 0)
    is_law = is_behind & (spread.all_tails()[:, 4] > 0)
    return np.array([is_behind & ~is_step & ~is_law, is_step, is_law])


def judge_next(spread, kinds, point, value):
    """Return the density of a value under each kind, and its error: (3,) each.

    Args:
        kinds: (3, k). point: (1, 1), where the value was measured.
    """
    centre, scale = (values[:, 0] for values in spread.predictive(point))
    is_possible = centre > 0
    size = np.where(is_possible, centre, 1.0)
    deviation = np.hypot(scale / size, DEVIATION)
    ratio = np.log(value / size)
    density = np.exp(-0.5 * (ratio / deviation) ** 2) / deviation

    weights = spread.weights * is_possible * kinds
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    return weights @ density + LEAST_DENSITY, np.abs(weights @ ratio)


def collect(paths, least_share):
    """Return the family, densities and errors of each newest point that leaves the law."""
    rows = []
    for path in paths:
        for _, params, points, values, _ in series([path]):
            for n in range(MIN_POINTS, len(points)):
                following = np.nanmedian(values[:, n], axis=1)
                models = insitu.fit(points[:n], values[:, :n], parameters=params)
                for model, value in zip(models, following, strict=True):
                    spread = model.spread_at(points[n - 1])
                    kinds = find_kinds(spread, points[n - 2, 0])
                    is_off = spread.weights @ kinds.any(axis=0) >= least_share
                    if is_off and kinds.any(axis=1).all():
                        judged = judge_next(spread, kinds, points[n : n + 1], value)
                        rows.append((Path(path).stem, *judged))
    return rows


def estimate_shares(families, densities):
    """Return the shares of the three kinds (3,), from densities (n, 3) of points of families."""
    counts = Counter(families)
    weights = np.array([1 / counts[family] for family in families])
    shares = np.full(3, 1 / 3)
    for _ in range(ROUNDS):
        posterior = densities * shares
        posterior /= posterior.sum(axis=1, keepdims=True)
        shares = weights @ posterior + PRIOR_FAMILIES
        shares /= shares.sum()
    return shares


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--share", type=float, nargs="+", default=[0.1, 0.5])
    options = parser.parse_args()

    print("| probability | points | families | disturbed / step / new law | error of each |")
    for share in options.share:
        rows = collect(options.files, share)
        if not rows:
            print(f"| {share:.0%} | 0 | 0 | – | – |")
            continue
        families, densities, errors = zip(*rows, strict=True)
        shares = estimate_shares(families, np.array(densities))
        of_kinds = " / ".join(f"{100 * kind:.0f} %" for kind in shares)
        medians = " / ".join(f"{error:.2f}" for error in np.median(errors, axis=0))
        print(f"| {share:.0%} | {len(rows)} | {len(set(families))} | {of_kinds} | {medians} |")


if __name__ == "__main__":
    main()
