"""P7: what the newest points say: nothing, a disturbed run, a step that stays, or a new law.

    python tests/evaluation/tail.py [--count 2] [--seed 1]

A series is c₀ + c₁ x^a at five to nine points with 2 % noise. Its last one to three points may be a
disturbed run, larger by a factor, or of another law. Judged at the next two scales, 2 and 4 times
the largest: how often 95 % intervals hold the truth, and, where one point lies behind the change,
all of the truths that such a point cannot exclude; how often there is a finding; the median error
of the prediction, beside the last value and the line through the last three points.
"""

import argparse

import numpy as np
from baselines import last_line, last_value

import insitu

CASES = ("nothing", "disturbed", "step", "law")
NOISE = 0.02
FACTORS = {"disturbed": (1.3, 2.0, 4.0), "step": (1.3, 2.0, 4.0)}
BEHIND = {"disturbed": (1,)}
FINDINGS = ("change-unconfirmed", "growth-uncertain", "segment-short")  # that warn of the tail


def draw(rng, case, n, behind, *, factor, is_geometric, repetitions):
    """Return x, values, target points and the candidates for their truth, the true one first."""
    x = 2.0 ** np.arange(n) if is_geometric else np.arange(1.0, n + 1)
    c0, c1 = 10 ** rng.uniform(-1, 1, 2)
    a = rng.choice([0, 0.5, 1, 1.5])
    ahead = np.array([2.0, 4.0]) * x[-1]
    first = n - behind

    def base(z):
        return c0 + c1 * z**a

    def bend(z):
        return base(x[first - 1]) * (z / x[first - 1]) ** (a + 1)

    y, truths = base(x), [base(ahead)]
    if case == "disturbed":
        y[-1] *= factor
        truths.append(factor * base(ahead))  # it might be a step
    elif case == "step":
        y[first:] *= factor
        truths.insert(0, factor * base(ahead))
    elif case == "law":
        y[first:] = bend(x[first:])
        truths.insert(0, bend(ahead))

    values = y[:, None] * (1 + NOISE * rng.standard_normal((n, repetitions)))
    return x, values, ahead, truths


def judge_case(rng, case, count):
    """Return one row per series: truth held, all candidates held, finding, cut, errors."""
    rows = []
    for n in (5, 6, 7, 8, 9):
        for behind in BEHIND.get(case, (1, 2, 3)):
            for factor in FACTORS.get(case, (1.0,)):
                for repetitions in (1, 3):
                    for index in range(count):
                        drawn = draw(
                            rng,
                            case,
                            n,
                            behind,
                            factor=factor,
                            is_geometric=index % 2 == 0,
                            repetitions=repetitions,
                        )
                        rows.append((behind, *judge_series(*drawn)))
    return np.array(rows)


def judge_series(x, values, ahead, truths):
    """Return the row of one series."""
    model = insitu.fit(x, values[None])[0]
    low, high = model.interval(ahead).T
    is_held = [bool(np.all((low <= truth) & (truth <= high))) for truth in truths]
    has_finding = any(finding.code in FINDINGS for finding in model.findings)

    middle = np.median(values, axis=1)
    predictions = (
        model.predict(ahead),
        last_value(x, middle, ahead),
        last_line(x, middle, ahead),
    )
    errors = [float(np.median(np.abs(made / truths[0] - 1))) for made in predictions]
    return (is_held[0], all(is_held), has_finding, bool(model.change_points), *errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2, help="series of each combination")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)

    print(f"{options.count} series of each combination, {options.seed=}, in percent")
    print("| case, behind | truth held | all held | finding | cut | error: insitu, last, line |")
    for case in options.cases:
        rows = judge_case(rng, case, options.count)
        for behind in np.unique(rows[:, 0]):
            chosen = rows[rows[:, 0] == behind]
            shares = " | ".join(f"{100 * share:.0f}" for share in chosen[:, 1:5].mean(axis=0))
            errors = " / ".join(f"{100 * error:.1f}" for error in np.median(chosen[:, 5:], axis=0))
            print(f"| {case}, {behind:.0f} | {shares} | {errors} |", flush=True)


if __name__ == "__main__":
    main()
