"""P6: intervals, false growth and claimed probabilities under the noise of real machines.

    python tests/evaluation/noise.py [--campaigns 10] [--series 20] [--seed 1 2 3] [--kinds ...]

A campaign is so many call paths at x = 2 … 64 with three repetitions, fitted in one call. Per kind
of noise and level: how often 95 % intervals hold a further measurement at 2, 4 and 16 times the
largest scale, beside those of a log-log line (Student's t); how many constants are called growing;
how much growth is not; how many series are segmented; and of models that claim a probability above
0.8 the mean claim beside the share with the right leading term, and their number.
"""

import argparse

import numpy as np
from scipy import stats

import insitu

X = np.array([2.0, 4, 8, 16, 32, 64])
REPETITIONS = 3
FACTORS = np.array([2.0, 4, 16])
LAWS = [(0, 0), (1 / 2, 0), (1, 0), (0, 1), (1 / 3, 0), (1, 1), (2 / 3, 0), (3 / 2, 0), (0, 2)]
LAWS.append((-1, 0))
KINDS = (
    "normal",
    "lognormal",
    "one_sided",
    "outliers",
    "growing",
    "shared_run",
    "shared_point",
    "ar1",
    "crowded",
)
LEVELS = (0.02, 0.05, 0.10, 0.20)
CLAIMED = 0.8  # probability from which a claim is compared with the truth
SMALLEST_FACTOR = 0.02  # a measurement is at least this share of the law


def truth(law, share, x):
    """Return values (n, len(x)); the term has `share` of the value where it is largest."""
    a, b = np.array(LAWS)[law].T
    at = np.where(a < 0, X[0], X[-1])
    reference = at**a * np.log2(at) ** b
    term = x[None] ** a[:, None] * np.log2(x)[None] ** b[:, None] / reference[:, None]
    growing = (1 - share)[:, None] + share[:, None] * term
    return np.where((law == 0)[:, None], 1.0, growing)


def exponent_of_law(law):
    """Return the larger exponent, of x or of its logarithm, of laws (n,)."""
    return np.array(LAWS)[law].max(axis=1)


def disturbances(rng, kind, level, shape, x):
    """Return the factors (n_series, n_points, n_repetitions) of one kind of noise."""
    n, n_points, repetitions = shape
    z = rng.standard_normal(shape)

    if kind == "normal":
        factor = 1 + level * z
    elif kind == "lognormal":
        factor = np.exp(level * z)
    elif kind == "one_sided":
        factor = 1 + level * rng.exponential(1.0, shape)
    elif kind == "outliers":
        is_outlier = rng.random(shape) < 0.05
        factor = (1 + level * z) * np.where(is_outlier, rng.uniform(1.3, 3.0, shape), 1.0)
    elif kind == "growing":
        factor = np.exp(level * np.sqrt(np.minimum(x / X[-1], 1.0))[None, :, None] * z)
    elif kind == "shared_run":  # of a run, in all series
        factor = np.exp(level * rng.standard_normal((1, n_points, repetitions)) + 0.2 * level * z)
    elif kind == "shared_point":  # of a coordinate, in all series and repetitions
        factor = np.exp(level * rng.standard_normal((1, n_points, 1)) + 0.2 * level * z)
    elif kind == "ar1":  # repetitions in sequence correlate with 0.8
        walk = z.reshape(n, n_points * repetitions).copy()
        for i in range(1, walk.shape[1]):
            walk[:, i] = 0.8 * walk[:, i - 1] + 0.6 * walk[:, i]
        factor = np.exp(level * walk.reshape(shape))
    else:  # crowded: four times as much beyond a node
        beyond = np.where(x > 16, 4.0, 1.0)[None, :, None]
        factor = 1 + level * rng.gamma(0.5, 1.0, shape) * beyond

    return np.maximum(factor, SMALLEST_FACTOR)


def judge_campaign(rng, kind, level, n):
    """Return what the models of one campaign got right, by name of the measure."""
    law, share = rng.integers(0, len(LAWS), n), rng.uniform(0.1, 0.9, n)
    ahead = FACTORS * X[-1]
    shape = (n, len(X), REPETITIONS)
    values = truth(law, share, X)[:, :, None] * disturbances(rng, kind, level, shape, X)
    at_largest = np.full(len(ahead), X[-1])
    further = disturbances(rng, kind, level, (n, len(ahead), 1), at_largest)[:, :, 0]
    further = further * truth(law, share, ahead)

    models = insitu.fit(X, values)
    bounds = np.array([model.interval(ahead) for model in models])
    exponents = [model.leading([ahead[-1]])[0] for model in models]
    is_right = np.array(
        [
            (float(a), float(b)) == tuple(float(v) for v in LAWS[i])
            for (a, b), i in zip(exponents, law, strict=True)
        ]
    )
    claims = np.array([model.probability for model in models], dtype=float)
    is_claim = claims > CLAIMED
    is_cut = np.array([bool(model.change_points) for model in models])
    grows = np.array([max(float(a), float(b)) > 0 for a, b in exponents])

    line_bounds = line_intervals(values, ahead)
    return {
        "held": ((bounds[..., 0] <= further) & (further <= bounds[..., 1])),
        "line": ((line_bounds[..., 0] <= further) & (further <= line_bounds[..., 1])),
        "false growth": grows[law == 0],
        "missed growth": ~grows[exponent_of_law(law) > 0],
        "segmented": is_cut,
        "claimed": claims[is_claim],
        "right": is_right[is_claim],
    }


def line_intervals(values, ahead):
    """Return the 95 % intervals (n, n_ahead, 2) of least squares lines on logarithmic axes."""
    y = np.log(np.median(values, axis=2))
    design = np.column_stack([np.ones(len(X)), np.log(X)])
    at = np.column_stack([np.ones(len(ahead)), np.log(ahead)])
    inverse = np.linalg.inv(design.T @ design)
    weights = y @ design @ inverse
    degrees = len(X) - 2
    variance = ((y - weights @ design.T) ** 2).sum(axis=1) / degrees
    spread = np.sqrt(variance[:, None] * (1 + np.einsum("ai,ij,aj->a", at, inverse, at)))
    reach = stats.t.ppf(0.975, degrees) * spread
    centre = weights @ at.T
    return np.exp(np.stack([centre - reach, centre + reach], axis=2))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=10)
    parser.add_argument("--series", type=int, default=20)
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()

    print(f"{options.campaigns} campaigns of {options.series} series, {options.seed=}, in percent")
    print(
        "| noise | held at 2 / 4 / 16 × | log-log line "
        "| constants that grow | growth missed | cut | claimed / right |"
    )
    for kind in options.kinds:
        for level in LEVELS:
            judged = []
            for seed in options.seed:
                # Each cell has numbers of its own, whatever else is run.
                rng = np.random.default_rng([seed, KINDS.index(kind), LEVELS.index(level)])
                for _ in range(options.campaigns):
                    judged.append(judge_campaign(rng, kind, level, options.series))
            pooled = {
                name: np.concatenate([outcome[name] for outcome in judged]) for name in judged[0]
            }
            held, line = (
                " / ".join(f"{100 * share:.0f}" for share in pooled[name].mean(axis=0))
                for name in ("held", "line")
            )
            names = ("missed growth", "segmented", "claimed", "right")
            missed, cut, claimed, right = (
                f"{100 * pooled[name].mean():.0f}" if len(pooled[name]) else "–" for name in names
            )
            growth = f"{pooled['false growth'].sum()} of {len(pooled['false growth'])}"
            right = f"{right} ({len(pooled['right'])})"
            cells = (f"{kind} {level:.0%}", held, line, growth, missed, cut, f"{claimed} / {right}")
            print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
