"""Expectations judged, beside the paper's own procedure on the same data [VAL §2.3, §2.4].

    python tests/evaluation/expectations.py [--count 1000] [--seed 1]

A case is an expectation (log p, √p, p, p log p) with five noisy points of a function c₀ + c₁ t. In
half of the cases t is as expected, in a quarter another term within the deviation limits, in a
quarter one outside, a constant among them; its share at the largest point is 30 to 100 %. The
paper's procedure takes the term of its search space with the best adjusted R². Simple baselines are
the slope of the last three points, and a verdict that is always the same. The last row is what
nobody can do better: the most probable rank for who knows how the cases are made.
"""

import argparse
import time
from fractions import Fraction

import numpy as np
from baselines import LAST_POINTS

from insitu.expectations import Match, validate
from insitu.expectations.growth import Growth
from insitu.expectations.limits import expect, ruler
from insitu.expectations.notation import parse_growth
from insitu.expectations.validate import match_of
from insitu.modeling.pmnf import Factor

EXPECTED = ("O(log(p))", "O(p^(1/2))", "O(p)", "O(p * log(p))")
TERMS = (
    *((0.0, b) for b in (0, 1, 2)),
    *((a, 0) for a in (1 / 4, 1 / 3, 1 / 2, 2 / 3, 3 / 4, 1, 5 / 4, 4 / 3, 3 / 2, 2, 5 / 2, 3)),
    *((a, 1) for a in (1 / 2, 1, 3 / 2, 2)),
)
WANTED = ("n * log(p)", "n^2", "n * p", "n + p", "n^(3/2) * p", "n * log(n) + log(p)")
PRODUCTS = {
    "n * log(p)": lambda n, p: n * np.log2(p),
    "n^2": lambda n, p: n**2,
    "n * p": lambda n, p: n * p,
    "n + p": lambda n, p: n + 4 * p,
    "n^(3/2) * p": lambda n, p: n**1.5 * p,
    "n * p^2": lambda n, p: n * p**2,
    "n^(3/2) * log(p)": lambda n, p: n**1.5 * np.log2(p),
    "n * log(n) * p": lambda n, p: n * np.log2(n) * p,
    "n^2 * p": lambda n, p: n**2 * p,
    "n * log(n) + log(p)": lambda n, p: n * np.log2(n) + 20 * np.log2(p),
}
NOISES = (0.01, 0.02, 0.05, 0.10)
SCALES = (2.0 ** np.arange(2, 7), 2.0 ** np.arange(4, 9))


def growth(term):
    alpha, beta = term
    factor = Factor("p", Fraction(alpha).limit_denominator(12), Fraction(beta))
    return Growth.of([(factor,)])


def cases(rng, count, level):
    """(expectation, rank, which of the scales, values, truth) of each case."""
    limits = [expect(text) for text in EXPECTED]
    ranks = [{term: match_of(growth(term), limit) for term in TERMS} for limit in limits]
    answer = []
    for _ in range(count):
        i = rng.integers(len(EXPECTED))
        wanted = (Match.TOTAL, Match.TOTAL, Match.APPROXIMATE, Match.NONE)[rng.integers(4)]
        pool = [term for term in TERMS if ranks[i][term] is wanted]
        if not pool:
            pool, wanted = [term for term in TERMS if ranks[i][term] is Match.TOTAL], Match.TOTAL
        alpha, beta = pool[rng.integers(len(pool))]
        which = rng.integers(2)
        x = SCALES[which]
        truth = function(alpha, beta, x[-1], rng.uniform(0.3, 1), 10 ** rng.uniform(-2, 3))
        noise = 1 + rng.uniform(-level, level, len(x))
        answer.append((EXPECTED[i], wanted, which, truth(x) * noise, truth))
    return answer


def function(alpha, beta, last, share, scale):
    """A constant and one term, which makes this share of the value at the last point."""

    def term(x):
        return x**alpha * np.log2(x) ** beta

    return lambda x: scale * (1 - share + share * term(x) / term(last))


def settled(made, verdicts, rng, level, most=60):
    """Of cases that cannot be told: how many can with the point that was named, and rightly."""
    doubtful = [(c, v) for c, v in zip(made, verdicts, strict=True) if v.settling_point][:most]
    ended, right = [], []
    for (text, wanted, which, values, truth), verdict in doubtful:
        ((_, at),) = verdict.settling_point.at
        further = truth(at) * (1 + rng.uniform(-level, level))
        (after,) = validate(np.append(SCALES[which], at), np.append(values, further), text)
        ended.append(after.is_settled)
        right.append(after.is_settled and after.is_violated == (wanted is Match.NONE))
    claimed = np.mean([v.settling_point.probability for _, v in doubtful])
    print(
        f"of {len(doubtful)} that cannot be told {100 * np.mean(ended):.0f} % can with the one "
        f"point that was named, {100 * sum(right) / max(sum(ended), 1):.0f} % of these rightly "
        f"({100 * claimed:.0f} % promised)",
        flush=True,
    )


def by_adjusted_r2(x, values, text):
    """The paper's procedure: the best of the ruler, constant and coefficient free."""
    expected = expect(text)
    best, found = 0.0, Growth.of([()])
    spread = ((values - values.mean()) ** 2).sum()
    for tick in ruler(expected.growth.products[0][0]):
        if not any(tick[1:]):
            continue
        design = np.stack([np.ones(len(x)), tick(x)], 1)
        fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
        rss = ((values - fitted) ** 2).sum()
        adjusted = 1 - (rss / (len(x) - 2)) / (spread / (len(x) - 1))
        if adjusted > best:
            best, found = adjusted, Growth.of([(tick,)])
    return match_of(found, expected)


def by_last_line(x, values, text):
    """The term whose slope on logarithmic axes is nearest to that of the last three points."""

    def slope(y):
        return np.polyfit(np.log(x[-LAST_POINTS:]), np.log(y[-LAST_POINTS:]), 1)[0]

    slopes = [slope(x**alpha * np.log2(x) ** beta) for alpha, beta in TERMS]
    nearest = int(np.argmin(np.abs(np.array(slopes) - slope(values))))
    return match_of(growth(TERMS[nearest]), expect(text))


def at_best(x, values, text, level):
    """The most probable rank, the prior of the cases and the bounds of their noise being known."""
    pools = {rank: [] for rank in Match}
    for term in TERMS:
        pools[match_of(growth(term), expect(text))].append(term)
    shares = np.linspace(0.3, 1, 701)[:, None]
    probable = {}
    for rank, pool in pools.items():
        widths = []  # of the scales that explain all values, in logarithms, over all shares
        for alpha, beta in pool:
            term = x**alpha * np.log2(x) ** beta
            scale = np.log(values / (1 - shares + shares * term / term[-1]))
            room = (scale - np.log1p(-level)).min(1) - (scale - np.log1p(level)).max(1)
            widths.append(np.maximum(room, 0).sum())
        drawn = 2 + sum(not pool for pool in pools.values()) if rank is Match.TOTAL else 1
        probable[rank] = drawn * np.mean(widths or [0.0])
    return max(probable, key=probable.get)


def judged(made, alone):
    """Verdicts of insitu; series of one scale share what is learnt about noise, or do not."""
    verdicts = [None] * len(made)
    groups = (
        [[i] for i in range(len(made))]
        if alone
        else [[i for i, case in enumerate(made) if case[2] == which] for which in range(2)]
    )
    for members in groups:
        x = SCALES[made[members[0]][2]]
        found = validate(x, [made[i][3] for i in members], [made[i][0] for i in members])
        for i, verdict in zip(members, found, strict=True):
            verdicts[i] = verdict
    return verdicts


def row(name, found, truth, seconds):
    right = np.mean([a is b for a, b in zip(found, truth, strict=True)])
    met = [a for a, b in zip(found, truth, strict=True) if b is not Match.NONE]
    false = np.mean([rank is Match.NONE for rank in met])
    print(f"| {name} | {100 * right:.1f} | {100 * false:.1f} | | | {1e3 * seconds:.1f} ms |")


def report(name, verdicts, truth, seconds):
    right = np.mean([v.match is b for v, b in zip(verdicts, truth, strict=True)])
    met = [v for v, b in zip(verdicts, truth, strict=True) if b is not Match.NONE]
    false = np.mean([v.is_violated for v in met])
    settled = [(v, b) for v, b in zip(verdicts, truth, strict=True) if v.is_settled]
    sure = np.mean([v.is_violated == (b is Match.NONE) for v, b in settled])
    print(
        f"| {name} | {100 * right:.1f} | {100 * false:.1f} | {100 * sure:.1f} "
        f"| {100 - 100 * len(settled) / len(verdicts):.0f} | {1e3 * seconds:.1f} ms |",
        flush=True,
    )


def several(options):
    """Two parameters, 25 points: right match of three, by the noise."""
    print("\ntwo parameters, 25 points, right match of three")
    axis = 2.0 ** np.arange(2, 7)
    n, p = (values.ravel() for values in np.meshgrid(4 * axis, axis))
    points = np.stack([p, n], 1)
    for level in NOISES[1:]:
        rng = np.random.default_rng([options.seed, int(1000 * level), 2])
        texts, truths, values = [], [], []
        for _ in range(options.several):
            text = WANTED[rng.integers(len(WANTED))]
            ranks = [match_of(parse_growth(growth), expect(text)) for growth in PRODUCTS]
            rank = (Match.TOTAL, Match.TOTAL, Match.APPROXIMATE, Match.NONE)[rng.integers(4)]
            rank = rank if rank in ranks else Match.TOTAL
            pool = [one for one, of in zip(PRODUCTS, ranks, strict=True) if of is rank]
            term = PRODUCTS[pool[rng.integers(len(pool))]](n, p)
            share = rng.uniform(0.3, 1)
            noise = 1 + rng.uniform(-level, level, len(n))
            texts.append(text)
            truths.append(rank)
            values.append((1 - share + share * term / term.max()) * noise)
        found = validate(points, values, texts, parameters=("p", "n"))
        right = np.mean([result.match is rank for result, rank in zip(found, truths, strict=True)])
        print(f"| ±{level:.0%} | {100 * right:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--alone", type=int, default=200, help="cases judged one by one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--several", type=int, default=150, help="cases of two parameters")
    options = parser.parse_args()
    for level in NOISES:
        rng = np.random.default_rng([options.seed, int(1000 * level)])
        made = cases(rng, options.count, level)
        truth = [case[1] for case in made]
        print(f"\n±{level:.0%} noise, {options.count} cases, percent")
        print(
            "| who | right rank of three | false alarms | told pass or fail, right "
            "| cannot tell | per case |"
        )
        print("| --- | --- | --- | --- | --- | --- |")
        start = time.process_time()
        verdicts = judged(made, alone=False)
        report("insitu", verdicts, truth, (time.process_time() - start) / len(made))
        start = time.process_time()
        few = made[: options.alone]
        report(
            "insitu, each case alone",
            judged(few, alone=True),
            truth[: options.alone],
            (time.process_time() - start) / len(few),
        )
        start = time.process_time()
        found = [by_adjusted_r2(SCALES[case[2]], case[3], case[0]) for case in made]
        row("[VAL]", found, truth, (time.process_time() - start) / len(made))
        start = time.process_time()
        found = [by_last_line(SCALES[case[2]], case[3], case[0]) for case in made]
        row("last line", found, truth, (time.process_time() - start) / len(made))
        row("always as expected", [Match.TOTAL] * len(made), truth, 0.0)
        start = time.process_time()
        found = [at_best(SCALES[case[2]], case[3], case[0], level) for case in made]
        row("at best", found, truth, (time.process_time() - start) / len(made))
        print()
        settled(made, verdicts, rng, level)
    several(options)


if __name__ == "__main__":
    main()
