"""Limits sixteen times beyond what was measured: how often what is told of them is right.

    python tests/evaluation/limits.py [--count 300] [--seed 1]

A constant and one term make a series of five points with uniform noise; the limit lies between a
quarter of the true value and four times it. The further point that is named for a doubt is measured
and the doubt judged again.
"""

import argparse

import numpy as np

import insitu
from insitu.expectations.prediction import StudentMixture, predict
from insitu.expectations.settle import find_settling_point_for_limit
from insitu.expectations.validate import SURE

SCALES, AT = np.array([4.0, 8, 16, 32, 64]), 1024.0
TERMS = [(0, 1), (0.5, 0), (1, 0), (1, 1), (1.5, 0), (2, 0)]  # exponents of p and of log p
FACTOR, DOUBTS = 4.0, 60


def series(rng, level):
    """A function and what a measurement of it yields."""
    alpha, beta = TERMS[rng.integers(len(TERMS))]
    share = rng.uniform(0.3, 1)
    last = SCALES[-1] ** alpha * np.log2(SCALES[-1]) ** beta

    def measure(x):
        value = 1 - share + share * x**alpha * np.log2(x) ** beta / last
        return value * rng.uniform(1 - level, 1 + level, np.shape(x))

    return measure


def is_told(probability):
    return max(probability, 1 - probability) >= SURE


def run(level, count, seed):
    rng = np.random.default_rng([seed, int(1000 * level)])
    measures = [series(rng, level) for _ in range(count)]
    rows = np.array([measure(SCALES) for measure in measures])
    told, right, false_alarms, inside, doubts = 0, 0, 0, 0, []
    for model, measure, row in zip(insitu.fit(SCALES, rows), measures, rows, strict=True):
        there = float(measure(AT))
        most = there * FACTOR ** rng.uniform(-1, 1)
        limit, is_above = StudentMixture.constant(most), there > most
        exceeded = predict(model, [AT]).probability_above(limit)
        low, high = model.interval([AT])[0]
        inside += low <= there <= high
        if is_told(exceeded):
            told += 1
            right += (exceeded > 0.5) == is_above
            false_alarms += exceeded > 0.5 and not is_above
        elif len(doubts) < DOUBTS:
            settling_point = find_settling_point_for_limit(model, [AT], most, sure=SURE)
            ((_, at),) = settling_point.at
            (after,) = insitu.fit(np.append(SCALES, at), np.append(row, measure(at))[None])
            now = predict(after, [AT]).probability_above(limit)
            doubts.append((settling_point.probability, (now > 0.5) == is_above, is_told(now)))
    promised, kept, settled = 100 * np.mean(doubts, axis=0)
    print(
        f"| ±{100 * level:.0f} % | {100 * told / count:.0f} | {100 * right / told:.1f} | "
        f"{100 * false_alarms / count:.1f} | {100 * inside / count:.0f} | {settled:.0f} | "
        f"{kept:.0f} | {promised:.0f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(
        "| noise | told | of these right | false alarms | within 95 % bounds "
        "| doubts told after the point named | right then | promised |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for level in (0.01, 0.02, 0.05, 0.1):
        run(level, options.count, options.seed)


if __name__ == "__main__":
    main()
