"""Measurements of real programs, the largest scale left out: who predicts it best.

    python tests/evaluation/real.py FILE.jsonl ... [--data DIR] [--without K | --half] [--by metric]

Each line of a file is one series: {"dataset", "callpath", "metric", "params": names, "points": one
coordinate per entry, "values": repetitions per point}. Series of a dataset that share metric and
points are fitted in one call, on all points but those where the first parameter is largest; these
are predicted. With --without K the points that are fitted have none of the K largest values of any
parameter, and those that are predicted have one of these of each.
The error of a series is its symmetric mean absolute percentage error there.
--half fits only the smaller half of the scales, at least three, and predicts the largest. A last
table compares evidence with the best column of each family, and of each metric or call path of it
with --by. The columns are chosen in hindsight, which no user can.
--data adds all such files of a directory; the measurements are not part of this repository.
Series that never exceed 100 clock readings of a nanosecond are left out: they show the clock.
Extra-P (--extrap PYTHON) lives in an environment of its own, see growth.py; its modes are basic,
refining and segmented, and for several parameters its only one.
"""

import argparse
import json
import pickle
import subprocess
from collections import defaultdict
from pathlib import Path

import numpy as np
from baselines import BASELINES, plane

import insitu

PEER = Path(__file__).with_name("growth_extrap.py")
FAINT = 1e-7  # seconds
MIN_KNOWN = 3  # points that are fitted
NEAR_BEST = 1.1  # times the error of the best column
SEGMENTED_FROM = 6  # points that Extra-P's segmented mode needs
MODES = {False: ("basic", "refining", "segmented"), True: ("several",)}


def series(paths):
    """Groups of series that share dataset, metric and points: (dataset, params, points, values)."""
    groups = defaultdict(list)
    for path in paths:
        for line in Path(path).read_text().splitlines():
            one = json.loads(line)
            middle = np.array([np.median(repetitions) for repetitions in one["values"]])
            if middle.max() <= (FAINT if one["unit"] == "s" else 0):
                continue
            key = (one["dataset"], one["metric"], tuple(one["params"]), json.dumps(one["points"]))
            groups[key].append((one["callpath"], one["values"]))
    for (dataset, metric, params, points), members in groups.items():
        width = max(len(values) for _, table in members for values in table)
        values = np.full((len(members), len(members[0][1]), width), np.nan)
        for i, (_, table) in enumerate(members):
            for j, repetitions in enumerate(table):
                values[i, j, : len(repetitions)] = repetitions
        names = [f"{callpath} {metric}" for callpath, _ in members]
        yield dataset, params, np.array(json.loads(points), dtype=float), values, names


def last(points, values, target):
    """The value at the largest scale measured, with the other parameters as at the target."""
    answer = []
    for place in target:
        near = np.abs(np.log(points[:, 1:] / place[1:])).sum(axis=1)
        rows = np.flatnonzero(near == near.min())
        answer.append(values[rows[np.argmax(points[rows, 0])]])
    return np.array(answer)


def peers(python, mode, points, values, targets):
    """Extra-P's predictions: (n_series, n_targets)."""
    task = ("predict", mode, points.tolist(), values.tolist(), targets.tolist())
    run = subprocess.run([python, PEER], input=pickle.dumps(task), capture_output=True, check=True)
    return np.array(pickle.loads(run.stdout), dtype=float)


def smape(predicted, measured):
    total = np.abs(predicted) + np.abs(measured)
    error = 2 * np.abs(predicted - measured) / np.where(total > 0, total, 1.0)
    return 100 * np.mean(np.where(np.isfinite(predicted), error, 2.0), axis=-1)


def split(points, without):
    """Return which points are fitted and which are predicted, by how many values are left out."""
    if without is None:
        known = points[:, 0] < points[:, 0].max()
        return known, ~known
    limits = [np.unique(column)[-without - 1] for column in points.T]
    return (points <= limits).all(axis=1), (points > limits).all(axis=1)


def judge(options):
    errors, held = defaultdict(lambda: defaultdict(list)), defaultdict(list)
    negative = defaultdict(int)
    for dataset, params, points, values, names in series(options.files):
        middle = np.nanmedian(values, axis=2)
        known, ahead = split(points, options.without)
        if options.half:
            known, ahead = split_scales(points[:, 0])
        if known.sum() < MIN_KNOWN:
            continue
        before, target = points[known], points[ahead]
        models = insitu.fit(before, values[:, known], parameters=params)
        found = {
            "evidence": np.array([model.predict(target) for model in models]),
            "last value": np.array([last(before, row, target) for row in middle[:, known]]),
            "plane in log space": np.array(
                [plane(before, row, target) for row in middle[:, known]]
            ),
        }
        if len(params) == 1:
            at, beyond = before[:, 0], target[:, 0]
            for name in ("last line", "USL", "Gaussian process"):
                rows = [BASELINES[name](at, row, beyond) for row in middle[:, known]]
                found[name] = np.array(rows)
        for modeler in ("search", "refine"):
            peers_of_ours = insitu.fit(before, values[:, known], parameters=params, modeler=modeler)
            found[modeler] = np.array([model.predict(target) for model in peers_of_ours])
        for mode in MODES[len(params) > 1] if options.extrap else ():
            if mode == "segmented" and len(before) < SEGMENTED_FROM:
                continue
            found[f"Extra-P {mode}"] = peers(options.extrap, mode, before, middle[:, known], target)
        for name, predicted in found.items():
            scores = smape(predicted, middle[:, ahead]).tolist()
            errors[dataset][name] += scores
            for i, score in enumerate(scores if options.by else ()):
                errors[f"{dataset}, {family_of(names[i], options.by)}"][name].append(score)
            negative[name] += int((predicted < 0).sum())
        bounds = np.array([model.interval(target) for model in models])
        inside = (bounds[..., 0] <= middle[:, ahead]) & (middle[:, ahead] <= bounds[..., 1])
        held[dataset] += inside.ravel().tolist()
        for i, row in enumerate(inside.tolist() if options.by else ()):
            held[f"{dataset}, {family_of(names[i], options.by)}"] += row
        for i, name in enumerate(names if options.all else ()):
            scores = {m: smape(f[i], middle[i, ahead]) for m, f in found.items()}
            shown = " ".join(f"{m} {s:.1f}" for m, s in scores.items())
            print(f"{dataset} {name}: {models[i]} | {shown} | {inside[i].tolist()}")
    fitted = "fitted to the smaller half of the scales" if options.half else "left out"
    print(f"\nlargest scale, {fitted}, symmetric error in percent: median / mean")
    for dataset, found in errors.items():
        if options.by and "," in dataset:
            continue
        print(f"{dataset}, {len(found['evidence'])} series")
        for name, values in found.items():
            print(f"| {name} | {np.median(values):.1f} / {np.mean(values):.1f} |")
        print(f"95 % intervals of evidence held {100 * np.mean(held[dataset]):.1f} %")
    print("negative predictions:", dict(negative))
    print_best_columns(errors, held)


def split_scales(x):
    """Return which points (n,) are of the smaller half of the scales, and which of the largest."""
    scales = np.unique(x)
    n_known = max((len(scales) + 1) // 2, MIN_KNOWN)
    if n_known >= len(scales):
        return np.zeros(len(x), dtype=bool), x == scales[-1]
    return x <= scales[n_known - 1], x == scales[-1]


def family_of(name, by):
    """Return the metric or the call path of a series."""
    callpath, metric = name.rsplit(" ", 1)
    return metric if by == "metric" else callpath


def print_best_columns(errors, held):
    """Print evidence beside the best column of each family, by the median of its errors."""
    print("\n| family | series | evidence | best other | which | at most 1.1 of it | held |")
    wins = 0
    for family, found in errors.items():
        medians = {name: np.median(values) for name, values in found.items()}
        own = medians.pop("evidence")
        best = min(medians, key=medians.get)
        is_near = bool(own <= NEAR_BEST * medians[best])
        wins += is_near
        cells = (family, len(found["evidence"]), f"{own:.1f}", f"{medians[best]:.1f}", best)
        kept = f"{100 * np.mean(held[family]):.0f} %"
        print("|", " | ".join(map(str, cells)), "|", "yes" if is_near else "no", "|", kept, "|")
    print(f"best column, or within a tenth of it, in {wins} of {len(errors)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--data", type=Path, help="a directory with files of such lines")
    parser.add_argument("--without", type=int, metavar="K", help="largest values of each parameter")
    parser.add_argument("--extrap", help="a Python that has Extra-P")
    parser.add_argument("--half", action="store_true", help="fit the smaller half of the scales")
    parser.add_argument(
        "--by", choices=("metric", "callpath"), help="also judge these by themselves"
    )
    parser.add_argument("--all", action="store_true", help="print every series")
    options = parser.parse_args()
    if options.data:
        options.files += sorted(options.data.glob("*.jsonl"))
    if not options.files:
        parser.error("no measurements; name files, or a directory with --data")
    judge(options)


if __name__ == "__main__":
    main()
