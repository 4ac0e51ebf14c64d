"""Laws on many close scales, one series per call: sizes of a problem rather than numbers of ranks.

    python tests/evaluation/close_scales.py [--count 12] [--seed 1 2 3]

Eight to 29 points, evenly spaced from 15 to 45 % of the largest to the largest, once measured
with noise of 0.5, 2 or 5 %; judged at 1.3 and 2 times the largest. Per law: how often 95 %
intervals hold it; their median width, as the factor between the bounds; and the median error of
the prediction, also as a factor. The laws are steep, as of lattice algorithms, and those of
`off_space.py`.
"""

import argparse

import numpy as np
import off_space

import insitu

FACTORS = np.array([1.3, 2.0])
LARGEST = (64, 200, 1000)
NOISE = (0.005, 0.02, 0.05)
SMALLEST = 1e-12  # predicted value, relative to a truth near 1
STEPS = 8  # of a staircase, up to the largest scale


def poly(rng):
    """A constant and two powers, one of them steep."""
    c = 10 ** rng.uniform(-3, 0), 10 ** rng.uniform(-2, 0)
    a, b = rng.uniform(3.5, 7), rng.uniform(1, 3)
    return lambda u: c[0] + u**a + c[1] * u**b


def exponential(rng):
    """A constant and an exponential with a power."""
    c, a, b = 10 ** rng.uniform(-4, -1), rng.uniform(4, 20), rng.uniform(0, 3)
    return lambda u: c + 2 ** (a * (u - 1)) * u**b


def steeper(rng):
    """A power whose exponent grows with x."""
    a, b, smallest = rng.uniform(2, 4), rng.uniform(0.5, 3), rng.uniform(0.15, 0.45)
    return lambda u: u ** (a + b * np.clip(1 - np.log(u) / np.log(smallest), 0, 3))


def bend(rng):
    """A power that changes inside the points."""
    at, a = rng.uniform(0.5, 0.85), rng.uniform(3, 5)
    b = a + rng.choice([-1, 1]) * rng.uniform(0.5, 1.5)
    return lambda u: np.where(u < at, u**a, at**a * (u / at) ** b)


def stairs(rng):
    """Doublings at a few sizes, such as dimensions that are rounded."""
    a, n = rng.uniform(6, 14), rng.integers(6, 14)
    return lambda u: 2.0 ** (a * (np.floor(u * n) / STEPS - 1))


STEEP = (poly, exponential, steeper, bend, stairs)
OTHERS = tuple(kind for kind in off_space.KINDS if kind is not off_space.alternating)


def draw(rng, kind):
    """Return points (n,), values (n,), points ahead and the truth there."""
    n, first = int(rng.integers(8, 30)), rng.uniform(0.15, 0.45)
    x = np.unique(np.round(np.linspace(first, 1, n) * rng.choice(LARGEST)))
    ahead = x[-1] * FACTORS
    if kind in STEEP:
        law, scale = kind(rng), 1 / x[-1]
    else:
        law, scale = kind(rng, 10 ** rng.uniform(-1, 1, 3)), off_space.X[-1] / x[-1]
    values = law(x * scale) * (1 + rng.choice(NOISE) * rng.standard_normal(len(x)))
    return x, np.abs(values), ahead, law(ahead * scale)


def judge(rng, kind):
    """Return whether the intervals of one series hold, their width and the error: (3, 2)."""
    x, values, ahead, truth = draw(rng, kind)
    model = insitu.fit(x, values[None])[0]
    low, high = model.interval(ahead).T
    width = high / np.maximum(low, SMALLEST)
    error = np.exp(np.abs(np.log(np.maximum(model.predict(ahead), SMALLEST) / truth)))
    return np.array([(low <= truth) & (truth <= high), width, error])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=12, help="series of each law and seed")
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    options = parser.parse_args()

    print(f"{options.count} series of each law, {options.seed=}; at 1.3 / 2 × the largest")
    print("| law | held, % | width, factor | error, factor |")
    shares = []
    for index, kind in enumerate(STEEP + OTHERS):
        generators = [np.random.default_rng([seed, index]) for seed in options.seed]
        rows = np.array([judge(rng, kind) for rng in generators for _ in range(options.count)])
        shares.append(100 * rows[:, 0].mean(axis=0))
        width, error = np.median(rows[:, 1:], axis=0)
        cells = (f"{shares[-1][0]:.0f} / {shares[-1][1]:.0f}", f"{width[0]:.2f} / {width[1]:.2f}")
        print("|", " | ".join((kind.__name__, *cells, f"{error[0]:.3f} / {error[1]:.3f}")), "|")
    print("mean of the laws held:", np.mean(shares, axis=0).round(1))


if __name__ == "__main__":
    main()
