"""Series of three and four points: the next scale, beside the last value and the line.

    python tests/evaluation/few_points.py [FILE.jsonl ...] [--count 12] [--seed 7]

Models of the first three and the first four scales predict the next one: of real series (see
real.py for the files), and of the functions of P1 with 2 % noise. Symmetric errors in percent,
median / mean; the median of upper over lower bound of the 95 % intervals, and how many hold.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import growth_data as data
import numpy as np
from baselines import last_line, last_value
from real import series, smape

import insitu

NOISE = 0.02
SCALES = data.SCALES[:2]
BASELINES = {"last value": last_value, "log-log line": last_line}


def real_series(files):
    """Return (name, x, values (s, n, r)) of the series of one parameter, ascending in x."""
    for dataset, parameters, points, values, _ in series(files):
        if len(parameters) == 1:
            order = np.argsort(points[:, 0])
            yield dataset, points[order, 0], values[:, order]


def random_series(seed, count):
    rng = np.random.default_rng(seed)
    for x in SCALES:
        functions = [f for kind in data.KINDS for f in data.singles(rng, kind, count)]
        truth = np.array([data.value(t, c, x) for t, c in functions])
        noise = 1 + NOISE * rng.uniform(-1, 1, truth.shape)
        yield "functions of P1", x, (truth * noise)[:, :, None]


def judge(groups, n_points):
    """Return per name the errors of each method, the width of intervals and whether they hold."""
    found = defaultdict(lambda: defaultdict(list))
    for name, x, values in groups:
        if len(x) <= n_points:
            continue
        known, target = slice(0, n_points), x[n_points : n_points + 1]
        middle = np.nanmedian(values, axis=2)
        measured = middle[:, n_points, None]
        models = insitu.fit(x[known], values[:, known])
        low, high = np.array([model.interval(target)[0] for model in models]).T

        rows = found[name]
        predicted = np.array([model.predict(target) for model in models])
        rows["evidence"] += smape(predicted, measured).tolist()
        for method, predict in BASELINES.items():
            predicted = np.array([predict(x[known], row[known], target) for row in middle])
            rows[method] += smape(predicted, measured).tolist()
        rows["width"] += (high / np.maximum(low, 1e-300)).tolist()
        rows["held"] += ((low <= measured[:, 0]) & (measured[:, 0] <= high)).tolist()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--count", type=int, default=12, help="functions of each kind and scale")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()

    methods = ("evidence", *BASELINES)
    print(f"| points | series | {' | '.join(methods)} | width | held |")
    for n_points in (3, 4):
        groups = [*real_series(options.files), *random_series(options.seed, options.count)]
        for name, rows in judge(groups, n_points).items():
            cells = [f"{np.median(rows[m]):.1f} / {np.mean(rows[m]):.1f}" for m in methods]
            cells += [f"{np.median(rows['width']):.1f}", f"{100 * np.mean(rows['held']):.0f} %"]
            print(f"| {n_points} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
