"""Laws of two parameters outside the hypothesis space, whose functions are those of `several.py`.

    python tests/evaluation/off_space_several.py [--count 20] [--seed 1 2] [--values 3 4 5]

A law of p of each kind and a law of n form a product, a sum, or a product with a constant. They are
measured on a grid of so many values of p and five of n, which double or are evenly spaced, three
times with 2 % noise. Each kind is modelled in a call of its own. Mean of the absolute error of the
logarithm in percent (at most 150) at twice p, twice both, and four times both, and how often 95 %
intervals hold the law there. "Rough" laws deviate by 5 % at each p, whatever n, as where ranks move
to another node.
"""

import argparse
from itertools import product

import numpy as np
from baselines import plane
from real import last

import insitu

N_VALUES_OF_N = 5
NOISE, REPETITIONS, ROUGHNESS = 0.02, 3, 0.05
FACTORS = ((2.0, 1.0), (2.0, 2.0), (4.0, 4.0))
MAX_ERROR = 1.5  # of a logarithm
METHODS = ("evidence", "search", "refine", "plane in log space", "last value")


def continuous(rng, top):
    """A constant and any power."""
    a, c = rng.uniform(0.1, 2.0), 10 ** rng.uniform(-1, 1)
    return lambda x: c + (x / top) ** a


def power(rng, top):
    """Any power alone, growing or falling."""
    a = rng.uniform(-1, 2.0)
    return lambda x: (x / top) ** a


def saturating(rng, top):
    """Growth that ends."""
    k, c = top * 10 ** rng.uniform(-1.2, 0.3), 0.3 * 10 ** rng.uniform(-1, 0.5)
    return lambda x: c + x / (x + k)


def logarithm(rng, top):
    """A logarithm that begins anywhere."""
    b, k = rng.choice([1, 2]), 10 ** rng.uniform(-0.5, 1)
    return lambda x: np.log2(1 + x / k) ** b


def three(rng, top):
    """A constant and two growing terms."""
    a, d, c = rng.choice([0.5, 1, 1.5]), rng.choice([1 / 3, 2 / 3, 2]), 10 ** rng.uniform(-1, 1, 2)
    return lambda x: c[0] + c[1] * (x / top) ** a + (x / top) ** d


def threshold(rng, top):
    """A cache, a protocol or a node that ends inside the points."""
    t, g = top / 2 ** rng.uniform(0.3, 3.0), rng.uniform(0.1, 1)
    return lambda x: 1 + g * np.maximum(0, np.log2(x / t))


def slowing(rng, top):
    """A power that becomes smaller inside the points."""
    t, a = top / 2 ** rng.uniform(0.3, 3.0), rng.uniform(0.3, 1.2)
    b = a * rng.uniform(0, 0.5)
    return lambda x: np.where(x < t, (x / t) ** a, (x / t) ** b)


def falling(rng, top):
    """Strong scaling with a surface and a tree."""
    c = 10 ** rng.uniform(-1, 1, 3)
    return lambda x: c[0] * top / x / 3 + c[1] * (top / x) ** (2 / 3) / 15 + c[2] * np.log2(x) / 50


KINDS = (continuous, power, saturating, logarithm, three, threshold, slowing, falling)
KINDS_OF_N = (continuous, power, three)


def draw(rng, kind, count, *, n_values, is_rough):
    """Return points (n, 2), values (count, n, r), targets (3, 2) and the truth there (count, 3)."""
    p = 2.0 ** np.arange(5, 5 + n_values)
    is_even = bool(rng.integers(2))
    steps = np.arange(N_VALUES_OF_N)
    n = 1000 * (5.0 + steps) if is_even else 1000 * 2.0**steps
    points, top = np.array(list(product(p, n))), np.array([p[-1], n[-1]])
    targets = top * FACTORS

    values, truth = [], []
    for _ in range(count):
        of_p, of_n = kind(rng, top[0]), KINDS_OF_N[rng.integers(len(KINDS_OF_N))](rng, top[1])
        structure, w, scale = (
            rng.integers(3),
            10 ** rng.uniform(-0.7, 0.7),
            10 ** rng.uniform(-2, 2),
        )

        def law(x, of_p=of_p, of_n=of_n, structure=structure, w=w, scale=scale):
            g, h = of_p(x[:, 0]) / of_p(top[:1]), of_n(x[:, 1]) / of_n(top[1:])
            return scale * (g * h, g + w * h, h * (w + g))[structure]

        deviations = np.exp(ROUGHNESS * is_rough * rng.standard_normal(n_values))
        measured = law(points) * deviations[np.searchsorted(p, points[:, 0])]
        noise = NOISE * rng.standard_normal((len(points), REPETITIONS))
        values.append(measured[:, None] * (1 + noise))
        truth.append(law(targets))
    return points, np.array(values), targets, np.array(truth)


def judge(points, values, targets, truth):
    """Return the errors of each method, (count, 3) each, and what intervals of evidence hold."""
    middle = np.median(values, axis=2)
    predicted = {}
    for name in METHODS[:3]:
        models = insitu.fit(points, values, parameters=("p", "n"), modeler=name)
        predicted[name] = np.array([model.predict(targets) for model in models])
        if name == "evidence":
            bounds = np.array([model.interval(targets) for model in models])
    predicted["plane in log space"] = np.array([plane(points, row, targets) for row in middle])
    predicted["last value"] = np.array([last(points, row, targets) for row in middle])

    errors = {}
    for name, row in predicted.items():
        ratio = np.where(row > 0, row, 1e-300) / truth
        errors[name] = np.minimum(np.abs(np.log(ratio)), MAX_ERROR)
    return errors, (bounds[..., 0] <= truth) & (truth <= bounds[..., 1])


def main():
    """Print a table for each number of values."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="series of each kind and seed")
    parser.add_argument("--seed", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--values", type=int, nargs="+", default=[3, 4, 5], help="values of p")
    options = parser.parse_args()

    for n_values in options.values:
        for is_rough in (False, True):
            print(f"\n{n_values} values of p, {'rough' if is_rough else 'smooth'}")
            print("| law |", " | ".join(METHODS), "| held by 95 % intervals |")
            print("|", " | ".join(["---"] * (len(METHODS) + 2)), "|")
            print_table(options, n_values=n_values, is_rough=is_rough)


def print_table(options, *, n_values, is_rough):
    """Print a row for each kind, and the mean."""
    every = []
    for i, kind in enumerate(KINDS):
        of_kind = []
        for seed in options.seed:
            rng = np.random.default_rng([seed, n_values, i, is_rough])
            drawn = draw(rng, kind, options.count, n_values=n_values, is_rough=is_rough)
            of_kind.append(judge(*drawn))
        print_row(kind.__name__, of_kind)
        every += of_kind
    print_row("mean", every)


def print_row(name, results):
    """One line of the table."""
    cells = [
        joined(100 * np.concatenate([errors[method] for errors, _ in results]).mean(axis=0), 1)
        for method in METHODS
    ]
    held = joined(100 * np.concatenate([held for _, held in results]).mean(axis=0), 0)
    print(f"| {name} |", " | ".join(cells), f"| {held} |", flush=True)


def joined(values, digits):
    """Numbers with slashes between them."""
    return " / ".join(f"{value:.{digits}f}" for value in values)


if __name__ == "__main__":
    main()
