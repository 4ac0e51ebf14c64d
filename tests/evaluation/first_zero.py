"""A single rank does not communicate: laws of campaigns that begin with one rank.

python tests/evaluation/first_zero.py [--count 6] [--seed 31 32]

Series of 4 to 6 points x = 1, 2, 4 … of 14 laws, once as exact counts and three times as times with
5 % noise. The first value is 0. Per law: symmetric error in percent (median) of the prediction at
four times the largest scale, and how often 95 % intervals hold the law, beside the same for series
without the first point.
"""

import argparse

import numpy as np

import insitu

LAWS = {
    "constant": lambda p: 1 + 0 * p,
    "p^-1/2": lambda p: p**-0.5,
    "1/p": lambda p: 1 / p,
    "log": np.log2,
    "log^2": lambda p: np.log2(p) ** 2,
    "p log": lambda p: p * np.log2(p),
    "sqrt": np.sqrt,
    "p": lambda p: p,
    "p - 1": lambda p: p - 1,
    "3 + log": lambda p: 3 + np.log2(p),
    "10 + p": lambda p: 10 + p,
    "line of domains": lambda p: 2 - 2 / p,
    "square of domains": lambda p: 4 - 4 / p**0.5,
    "square, strong": lambda p: 4 / p**0.5 - 4 / p,
}
NOISE, REPETITIONS, BEYOND = 0.05, 3, 4.0


def make(rng, law, x, *, is_count):
    """Values (n, repetitions) whose first is 0, and the law at the predicted scale."""
    size = 10 ** rng.uniform(2, 4)
    values, truth = size * law(x)[:, None], size * float(law(np.array(BEYOND * x[-1])))
    if is_count:
        values, truth = np.round(16 * values), 16 * truth
    else:
        values = values * (1 + NOISE * rng.standard_normal((len(x), REPETITIONS)))
    values[0] = 0
    return values, truth


def judge(x, values, truth):
    """The symmetric error in percent, and whether the interval holds the truth."""
    model = insitu.fit(x, values[None])[0]
    at = [BEYOND * x[-1]]
    predicted, (low, high) = float(model.predict(at)[0]), model.interval(at)[0]
    slack = 1e-4 * truth  # counts are rounded
    error = 200 * abs(predicted - truth) / (abs(predicted) + truth)
    return error, bool(low - slack <= truth <= high + slack)


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=6, help="series of each law, kind and length")
    parser.add_argument("--seed", type=int, nargs="+", default=[31, 32])
    options = parser.parse_args()

    print("| points | kind | law | error | held | without the first: error | held |")
    for n_points in (4, 5, 6):
        x = 2.0 ** np.arange(n_points)
        for kind in ("counts", "times"):
            every = []
            for name, law in LAWS.items():
                rows = []
                for seed in options.seed:
                    rng = np.random.default_rng([seed, n_points, len(name)])
                    for _ in range(options.count):
                        values, truth = make(rng, law, x, is_count=kind == "counts")
                        rows.append((*judge(x, values, truth), *judge(x[1:], values[1:], truth)))
                print_row(n_points, kind, name, rows, np.median)
                every += rows
            print_row(n_points, kind, "mean of all", every, np.mean)


def print_row(n_points, kind, name, rows, average):
    """One line of the table."""
    error, held, error_without, held_without = np.array(rows, dtype=float).T
    print(
        f"| {n_points} | {kind} | {name} | {average(error):.1f} | {100 * held.mean():.0f} % |"
        f" {average(error_without):.1f} | {100 * held_without.mean():.0f} % |"
    )


if __name__ == "__main__":
    main()
