"""P9: laws outside the hypothesis space, which the functions of `growth.py` lie inside.

    python tests/evaluation/off_space.py [--count 50] [--seed 1 2 3] [--whole] [--extrap PYTHON]

Six points x = 2 … 64, three repetitions with 2 % noise, judged at 2, 4 and 16 times the largest:
median of the relative error of the noise-free law, and how often 95 % intervals hold it. The peers
are the other modelers of insitu and the simple predictions of `baselines.py`. "Best" divides the
median error of evidence by the smallest of the peers. Each seed is modelled in a call of its own.
With --whole, values are whole thousandths, as times in a log are whole milliseconds.
"""

import argparse

import numpy as np
from baselines import BASELINES

import insitu

X = 2.0 ** np.arange(1, 7)
FACTORS = np.array([2.0, 4.0, 16.0])
AHEAD = X[-1] * FACTORS
NOISE, REPETITIONS = 0.02, 3
MODELERS = ("evidence", "search", "refine")


def continuous(rng, c):
    """Any power between 0.1 and 2.5."""
    a = rng.uniform(0.1, 2.5)
    return lambda x: c[0] + c[1] * (x / X[-1]) ** a


def ninths(rng, c):
    """A power with a denominator of 6 to 9."""
    d = int(rng.choice([6, 7, 8, 9]))
    a = rng.integers(1, 2 * d) / d
    return lambda x: c[0] + c[1] * (x / X[-1]) ** a


def saturating(rng, c):
    """Growth that ends."""
    k = 2 * 10 ** rng.uniform(0, 2)
    return lambda x: c[0] + 3 * c[1] * x / (x + k)


def three(rng, c):
    """A constant and two growing terms of similar size."""
    a, b, d = rng.choice([0.5, 1, 1.5]), rng.integers(0, 2), rng.choice([1 / 3, 2 / 3, 2])
    return lambda x: (
        c[0] + c[1] * (x / X[-1]) ** a * (np.log2(x) / 6) ** b + c[2] * (x / X[-1]) ** d
    )


def falling(rng, c):
    """Strong scaling with a surface and a tree."""
    return lambda x: 10 * c[0] / x + c[1] / x ** (2 / 3) + 0.02 * c[2] * np.log2(x)


def quantised(rng, c):
    """Work that cannot be divided evenly."""
    n = 10 ** rng.uniform(2, 3.7)
    return lambda x: c[0] * np.ceil(n / x) / n * 10 + 0.05 * c[1]


def threshold(rng, c):
    """A cache, a protocol or a node that ends inside the points."""
    t, g = 2 ** rng.uniform(1.5, 5), rng.uniform(0.1, 1)
    return lambda x: c[0] * (1 + g * np.maximum(0, np.log2(x / t)))


def alternating(rng, c):
    """Grids that are square for every other number of ranks."""
    a, f = rng.choice([0, 0.5, 1]), rng.uniform(1.1, 1.6)

    def law(x):
        return (c[0] + c[1] * (x / X[-1]) ** a) * np.where(np.round(np.log2(x)) % 2, f, 1.0)

    return law


KINDS = (continuous, ninths, saturating, three, falling, quantised, threshold, alternating)


def draw(rng, kind, count):
    """Return measurements (count, n_points, n_repetitions) and the truth (count, n_ahead)."""
    values, truth = [], []
    for _ in range(count):
        law = kind(rng, 10 ** rng.uniform(-1, 1, 3))
        noise = NOISE * rng.standard_normal((len(X), REPETITIONS))
        values.append(law(X)[:, None] * (1 + noise))
        truth.append(law(AHEAD))
    return np.array(values), np.array(truth)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--peers", type=int, default=15, help="series of each kind for Extra-P")
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    parser.add_argument("--extrap", help="a Python that has Extra-P")
    parser.add_argument("--whole", action="store_true", help="values in whole thousandths")
    options = parser.parse_args()

    names = [*MODELERS, *BASELINES, *(["Extra-P basic"] if options.extrap else [])]
    print(f"median error in percent at 2 / 4 / 16 ×, {options.count} series each, {options.seed=}")
    print("| law |", " | ".join(names), "| evidence / best | held by 95 % intervals |")

    generators = [np.random.default_rng(seed) for seed in options.seed]
    for kind in KINDS:
        errors, held = {name: [] for name in names}, []
        for rng in generators:
            values, truth = draw(rng, kind, options.count)
            if options.whole:
                values, truth = np.round(1000 * values), 1000 * truth
            predicted, truth, is_held = judge(options, values, truth)
            held += is_held.tolist()
            for name, values in predicted.items():
                errors[name] += np.abs(values / truth[: len(values)] - 1).tolist()

        medians = {name: np.median(errors[name], axis=0) for name in names}
        best = np.min([medians[name] for name in names if name != "evidence"], axis=0)
        cells = [joined(100 * medians[name]) for name in names]
        cells.append(joined(medians["evidence"] / best))
        cells.append(joined(100 * np.mean(held, axis=0), digits=0))
        print(f"| {kind.__name__} |", " | ".join(cells), "|", flush=True)


def joined(values, digits=1):
    return " / ".join(f"{value:.{digits}f}" for value in values)


def judge(options, values, truth):
    """Return the predictions of each method, the truth, and what intervals of evidence hold."""
    middle = np.median(values, axis=2)
    predicted = {}
    for name in MODELERS:
        models = insitu.fit(X, values, modeler=name)
        predicted[name] = np.array([model.predict(AHEAD) for model in models])
        if name == "evidence":
            bounds = np.array([model.interval(AHEAD) for model in models])
    for name, predict in BASELINES.items():
        predicted[name] = np.array([predict(X, row, AHEAD) for row in middle])
    if options.extrap:
        predicted["Extra-P basic"] = ask_extrap(options, middle)
    return predicted, truth, (bounds[..., 0] <= truth) & (truth <= bounds[..., 1])


def ask_extrap(options, middle):
    """Return Extra-P's predictions for the first series."""
    from real import peers

    few = middle[: options.peers]
    return peers(options.extrap, "basic", X[:, None], few, AHEAD[:, None])


if __name__ == "__main__":
    main()
