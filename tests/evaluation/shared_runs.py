"""Runs of several parameters that deviate as a whole: what correcting them is worth.

    python tests/evaluation/shared_runs.py [--campaigns 6] [--series 24] [--seed 1]

Every call path follows a law of growth_data.FORMS. Each run multiplies all of them by the same
factor, e^(0.05 z), and each value has 1 % of noise of its own. Symmetric error at four times the
largest of all parameters, median / mean in percent: as fitted, without correcting the runs, and of
a plane in log space.
"""

import argparse
from unittest import mock

import growth_data as data
import numpy as np
from baselines import plane

import insitu
from insitu.modeling.evidence import multi_parameter

NAMES = ("p", "n", "q")
NOISE, SHARED = 0.01, 0.05
N_POINTS = 12
DESIGNS = (  # title, number of parameters, random points or None for all, deviation of runs
    ("12 random points of two parameters", 2, N_POINTS, SHARED),
    ("12 random points of three parameters", 3, N_POINTS, SHARED),
    ("25 points of two parameters, a grid", 2, None, SHARED),
    ("nothing shared, 25 points of two parameters", 2, None, 0.0),
)


def draw(rng, count, n_points, shared, n_series):
    """Return points, values (n_series, n_points) and the truths at four times the largest."""
    forms = list(data.forms(count))
    values, truths = [], []
    for i in range(n_series):
        form = forms[i % len(forms)]
        points, exact, truth, _ = data.several(rng, form, 1, noise=0.0, sparse=False, count=count)
        values.append(exact[0])
        truths.append(truth[0])

    table = np.array(values)
    if n_points is not None:
        chosen = np.sort(rng.choice(len(points), n_points, replace=False))
        points, table = points[chosen], table[:, chosen]
    factors = np.exp(shared * rng.standard_normal(len(points)))
    noise = 1 + NOISE * rng.standard_normal(table.shape)
    return points, table * factors * noise, np.array(truths)


def errors(predicted, truths):
    return 200 * np.abs(predicted - truths) / (np.abs(predicted) + np.abs(truths))


def predict(points, values, target):
    models = insitu.fit(points, values, parameters=NAMES[: points.shape[1]])
    return np.array([model.predict([target])[0] for model in models])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=6)
    parser.add_argument("--series", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    print(f"{options.campaigns} campaigns of {options.series} call paths, {options.seed=}")
    print("| design | evidence | without correcting the runs | plane in log space |")
    for title, count, n_points, shared in DESIGNS:
        rng = np.random.default_rng([options.seed, count])
        target = [4.0 * grid[-1] for grid in data.GRID[:count]]
        found = {"evidence": [], "uncorrected": [], "plane": []}
        for _ in range(options.campaigns):
            points, values, truths = draw(rng, count, n_points, shared, options.series)
            found["evidence"].append(errors(predict(points, values, target), truths))
            with mock.patch.object(multi_parameter, "find_shared_deviation", return_value=None):
                found["uncorrected"].append(errors(predict(points, values, target), truths))
            planes = np.array([plane(points, row, np.array([target]))[0] for row in values])
            found["plane"].append(errors(planes, truths))
        cells = [f"{np.median(table):.1f} / {np.mean(table):.1f}" for table in found.values()]
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
