"""CPU time of models: single series, campaigns, the plain posterior, exponentials, intervals.

    python tests/benchmarks/model_cost.py [--rounds 5]

The aims are 5 ms for a single series in a call of its own, 0.5 ms per series in campaigns of 1,000
with newest points, shared effects and back-test, 80 µs for the plain posterior, and 50 ms for an
exponential series of 60 points. Times are medians over rounds, of one thread; the peer is Extra-P,
10 to 13 ms per model (`tests/evaluation/growth.py --extrap PYTHON`).
"""

import argparse
import time

import numpy as np

import insitu
from insitu.modeling.predictions import predict_all

X = 2.0 ** np.arange(1, 8)
NOISE = 0.02


def draw(rng, count, *, x=X, repetitions=3):
    """Return series of a constant and one power: (count, n_points, repetitions)."""
    constant, factor = 10 ** rng.uniform(-2, 3, (2, count, 1))
    truth = constant + factor * x ** rng.choice([0, 0.5, 1, 1.5, 2], (count, 1))
    return truth[:, :, None] * (1 + NOISE * rng.standard_normal((count, len(x), repetitions)))


def draw_exponential(rng):
    """Return one series of 60 points that grows exponentially: (60,) and (1, 60, 1)."""
    x = np.arange(300.0, 3300.0, 50.0)
    truth = 1e-3 * 2 ** (x / rng.uniform(120, 200))
    return x, (truth * (1 + NOISE * rng.standard_normal(len(x))))[None, :, None]


def seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    insitu.fit(X, draw(rng, 2))  # imports, and tables that all fits share

    def single():
        values = draw(rng, 1)
        return seconds(lambda: insitu.fit(X, values))

    def campaign():
        values = draw(rng, 1000)
        return seconds(lambda: insitu.fit(X, values)) / 1000

    def plain():
        x = X[:5]
        values = draw(rng, 5000, x=x, repetitions=1)
        return seconds(lambda: insitu.fit(x, values)) / 5000

    def exponential():
        x, values = draw_exponential(rng)
        return seconds(lambda: insitu.fit(x, values))

    def predictions(count):
        models = insitu.fit(X, draw(rng, 20))
        at = np.geomspace(X[-1], 16 * X[-1], count)
        return seconds(lambda: [model.interval(at) for model in models]) / len(models)

    def together():
        models = insitu.fit(X, draw(rng, 1000))
        at = [np.array([[16 * X[-1]]])] * len(models)
        return seconds(lambda: predict_all(models, at, 0.95)) / len(models)

    print("| what | ms per series, median | slowest |")
    for name, measure in (
        ("single series of 7 points", single),
        ("campaign of 1,000 series of 7 points", campaign),
        ("5,000 series of 5 points, one repetition", plain),
        ("exponential series of 60 points", exponential),
        ("interval of one prediction", lambda: predictions(1)),
        ("intervals of 1,000 predictions", lambda: predictions(1000)),
        ("interval of one prediction, of 1,000 models together", together),
    ):
        times = 1e3 * np.array([measure() for _ in range(options.rounds)])
        print(f"| {name} | {np.median(times):.3g} | {times.max():.3g} |", flush=True)


if __name__ == "__main__":
    main()
