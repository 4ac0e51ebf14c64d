"""Accuracy and speed of the modelers on random functions, beside Extra-P on the same data.

    python tests/evaluation/growth.py [--count 200] [--seed 1] [--extrap PYTHON] [--only one ...]

Extra-P needs numpy < 2, so it lives in an environment of its own:

    python -m venv /tmp/extrap && /tmp/extrap/bin/pip install extrap==4.2.5
    python tests/evaluation/growth.py --extrap /tmp/extrap/bin/python

The simple predictions of `baselines.py` have no exponents: their first figure is 0.
Extra-P models the first --peers series of each kind only, since it takes milliseconds for each.
"""

import argparse
import pickle
import subprocess
import time
from fractions import Fraction
from pathlib import Path

import growth_data as data
import numpy as np
from baselines import BASELINES, two_lines

import insitu
from insitu.modeling.preview import prepare

NOISES = (0.0, 0.01, 0.02, 0.05, 0.10, 0.15)
PEER = Path(__file__).with_name("growth_extrap.py")


def extrap(python, modeler, points, values, target):
    task = pickle.dumps((modeler, np.asarray(points).tolist(), values.tolist(), list(target)))
    answer = subprocess.run([python, PEER], input=task, capture_output=True, check=True)
    return pickle.loads(answer.stdout)


def percent(values):
    return f"{100 * np.mean(values):5.1f}"


def one(options):
    """Leading exponents exact / predicted within 2 % at four times the largest scale [REF §4.1]."""
    names = ["evidence", "search", "refine"] + (["basic", "refining"] if options.extrap else [])
    names += BASELINES
    right = {name: {kind: [] for kind in data.KINDS} for name in names}
    seconds = {name: [] for name in names}
    held = []
    rng = np.random.default_rng([options.seed, 1])
    for x in data.SCALES:
        functions = [(k, *f) for k in data.KINDS for f in data.singles(rng, k, options.count)]
        truth = np.array([data.value(t, c, x) for _, t, c in functions])
        values = truth * (1 + rng.uniform(-options.noise, options.noise, truth.shape))
        target = 4 * x[-1]
        known = [
            (data.leading(t, c, target), data.value(t, c, [target])[0]) for _, t, c in functions
        ]
        for name in names:
            count = options.peers if name in ("basic", "refining") else options.count
            rows = [i for i in range(len(values)) if i % options.count < count]
            if name in ("basic", "refining"):
                answers = extrap(options.extrap, name, x[:, None], values[rows], [target])
                found = [(a[0][0][0][1:] if a[0] else (0, 0), a[1]) for a in answers]
                seconds[name] += [a[3] for a in answers]
            elif name in BASELINES:
                start = time.process_time()
                predicted = [BASELINES[name](x, values[row], np.array([target])) for row in rows]
                seconds[name].append((time.process_time() - start) / len(rows))
                found = [((np.nan, np.nan), prediction[0]) for prediction in predicted]
            else:
                start = time.process_time()
                models = insitu.fit(x, values[rows], modeler=name)
                seconds[name].append((time.process_time() - start) / len(rows))
                found = [(m.leading([target])[0], m.predict([target])[0]) for m in models]
                if name == "evidence":
                    further = np.array([v for _, v in known]) * (
                        1 + rng.uniform(-options.noise, options.noise, len(known))
                    )
                    bounds = np.array([m.interval([target])[0] for m in models[::10]])
                    held += list((bounds[:, 0] <= further[::10]) & (further[::10] <= bounds[:, 1]))
            for row, (exponents, predicted) in zip(rows, found, strict=True):
                lead, expected = known[row]
                exact = name not in BASELINES and all(
                    Fraction(a).limit_denominator(20) == Fraction(b).limit_denominator(20)
                    for a, b in zip(exponents, lead, strict=True)
                )
                near = abs(predicted / expected - 1) <= 0.02
                right[name][functions[row][0]].append((exact, near))
    print(f"\none parameter, ±{options.noise:.0%}: exact / predicted within 2 %")
    print("| modeler |", " | ".join(data.KINDS), "| mean | per model |")
    for name in names:
        cells = [np.mean(right[name][kind], axis=0) * 100 for kind in data.KINDS]
        mean = np.mean(cells, axis=0)
        row = " | ".join(f"{a:.0f} / {b:.0f}" for a, b in cells)
        print(
            f"| {name} | {row} | {mean[0]:.1f} / {mean[1]:.1f} "
            f"| {np.mean(seconds[name]) * 1e6:.0f} µs |"
        )
    print(f"95 % intervals of evidence held {percent(held)} % of further measurements")


def segments(options):
    """Segmented or not, told right; change point named exactly [SEG §4.1]."""
    names = ["evidence", "segmented", "two lines"]
    print(
        "\nsegments, 5 + 5 points, mean over noise 0 to 15 %: "
        "right, false alarms, exact change point"
    )
    for outside in (False, True):
        for jump in data.JUMPS:
            for name in names + (["Extra-P segmented"] if options.extrap else []):
                rows = []
                for level in NOISES:
                    rng = np.random.default_rng([options.seed, int(level * 1000), outside])
                    count = options.peers if name.startswith("Extra") else options.count
                    sets = [
                        data.segmented(rng, jump, count, noise=level, outside=outside, two=two)
                        for two in (True, False)
                    ]
                    x = sets[0][0]
                    if name.startswith("Extra"):
                        cut = [
                            [
                                bool(a[2])
                                for a in extrap(options.extrap, "segmented", x[:, None], y, [40.0])
                            ]
                            for _, y in sets
                        ]
                        exact = [False]
                    elif name == "two lines":
                        cuts = [[two_lines(x, series) for series in y] for _, y in sets]
                        cut = [[at is not None for at in of_set] for of_set in cuts]
                        exact = [at is not None and x[at] == 6 for at in cuts[0]]
                    else:
                        models = [insitu.fit(x, y, modeler=name) for _, y in sets]
                        cut = [
                            [
                                bool(m.change_points) or (name == "segmented" and bool(m.findings))
                                for m in ms
                            ]
                            for ms in models
                        ]
                        exact = [m.change_points == ((5, 6),) for m in models[0]]
                    rows.append((np.mean(cut[0]), np.mean(cut[1]), np.mean(exact)))
                found, false, exact = np.mean(rows, axis=0)
                space = "outside" if outside else "in"
                print(
                    f"| {space} the space | {jump} | {name} | {percent((found + 1 - false) / 2)} "
                    f"| {percent(false)} | {percent(exact)} |",
                    flush=True,
                )


def mixed(options):
    """The same told by evidence where series that change and that do not are fitted in one call."""
    rows = []
    for level in NOISES:
        rng = np.random.default_rng([options.seed, int(level * 1000), 7])
        parts = [data.segmented(rng, jump, options.count, noise=level)[1] for jump in data.JUMPS]
        x, steady = data.segmented(rng, "any", 3 * options.count, noise=level, two=False)
        models = insitu.fit(x, np.concatenate([*parts, steady]))
        cut = np.array([bool(model.change_points) for model in models]).reshape(6, -1)
        exact = np.array([model.change_points == ((5, 6),) for model in models]).reshape(6, -1)
        rows.append((*cut[:3].mean(axis=1), cut[3:].mean(), *exact[:3].mean(axis=1)))
    *found, false, a, b, c = np.mean(rows, axis=0)
    print("\nhalf of the series change, a third of them each way, in one call:")
    for jump, one, exact in zip(data.JUMPS, found, (a, b, c), strict=True):
        right = percent((one + 1 - false) / 2)
        print(f"| {jump} | evidence | {right} | {percent(false)} | {percent(exact)} |")


def last(options):
    """Exponents of the last segment exact, with and without noise; --count series of each kind."""
    print("\nexponents of the last segment, 5 + 5 points, in percent exact")
    print("| functions | noise | evidence | segmented |")
    for jump in data.JUMPS:
        rng = np.random.default_rng([options.seed, data.JUMPS.index(jump)])
        x, truth, exponents = data.last_segments(rng, jump, options.count)
        disturbed = truth * (1 + 0.01 * rng.uniform(-1, 1, truth.shape))
        for noise, values in (("none", truth), ("1 %", disturbed)):
            cells = []
            for name in ("evidence", "segmented"):
                models = insitu.fit(x, values, modeler=name)
                right = [
                    bool(model.change_points)
                    and tuple(map(float, model.leading([4 * x[-1]])[0])) == tuple(map(float, known))
                    for model, known in zip(models, exponents, strict=True)
                ]
                cells.append(percent(right))
            print(f"| {jump} | {noise} | {' | '.join(cells)} |", flush=True)


def short(options):
    """Six points, independent functions, 5 % noise; `segmented` needs more of them."""
    print("\nsix points, 5 % noise: right, false alarms, exact change point")
    for split in ((3, 3), (2, 4), (4, 2)):
        rng = np.random.default_rng([options.seed, *split])
        found = []
        for two in (True, False):
            x, y = data.segmented(rng, "any", options.count, noise=0.05, points=split, two=two)
            found.append([model.change_points for model in insitu.fit(x, y)])
        cut, false = ([bool(flag) for flag in part] for part in found)
        gap = ((split[0], split[0] + 1),)
        right = percent((np.mean(cut) + 1 - np.mean(false)) / 2)
        exact = percent([cut_at == gap for cut_at in found[0]])
        print(f"| {split[0]} + {split[1]} | evidence | {right} | {percent(false)} | {exact} |")


def speed(options):
    """Time per model of 10,000 series, no matter what is right."""
    print("\nspeed of evidence, 10,000 series")
    rng = np.random.default_rng(options.seed)
    for n in (5, 7, 10):
        x = 2.0 ** np.arange(1, n + 1)
        exponents = rng.choice([0, 0.5, 1, 1.5, 2], (10_000, 1))
        truth = (
            10 ** rng.uniform(-2, 3, (10_000, 1))
            + 10 ** rng.uniform(-2, 3, (10_000, 1)) * x**exponents
        )
        values = truth * (1 + rng.uniform(-0.02, 0.02, truth.shape))
        insitu.fit(x, values[:10])
        start = time.process_time()
        insitu.fit(x, values)
        print(f"| {n} points | {(time.process_time() - start) / len(values) * 1e6:.0f} µs |")


def refit(options):
    """Models of 80,000 series with a sixth point: made from scratch, and previewed."""
    rng = np.random.default_rng(options.seed)
    x = 2.0 ** np.arange(1, 7)
    constant, slope = 10 ** rng.uniform(-2, 3, (2, 80_000, 1))
    truth = constant + slope * x ** rng.choice([0, 0.5, 1, 1.5, 2], (80_000, 1))
    values = truth * (1 + rng.uniform(-0.02, 0.02, truth.shape))
    preview = prepare(insitu.fit(x[:-1], values[:, :-1]))
    for name, work in (
        ("exact", lambda: insitu.fit(x, values)),
        ("preview", lambda: preview.with_point(x[-1], values[:, -1])),
    ):
        start = time.process_time()
        work()
        print(f"| 80,000 models, {name} | {time.process_time() - start:.3f} s |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--peers", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", type=float, default=0.02)
    parser.add_argument("--extrap", help="a Python that has Extra-P")
    parts = {
        "one": one,
        "segments": segments,
        "mixed": mixed,
        "last": last,
        "short": short,
        "speed": speed,
        "refit": refit,
    }
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    options = parser.parse_args()
    for name in options.only:
        parts[name](options)


if __name__ == "__main__":
    main()
