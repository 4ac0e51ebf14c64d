"""Models over several parameters on random functions, beside Extra-P on the same data.

    python tests/evaluation/several.py [--count 100] [--seed 1] [--extrap PYTHON]

Sums and products of one term per parameter, see growth_data.FORMS; ±2 and ±5 % noise; all points of
a grid of five values per parameter, or a line along each axis through the smallest point and one
point off them for each pair. Counted are exact sets of terms, predictions within 5 % at four times
the largest of all parameters, and further measurements there within the 95 % intervals. "Known"
tells the modeler which parameters occur together in each term, as an analysis of the program would.
"""

import argparse
import time

import growth_data as data
import numpy as np
from baselines import plane
from growth import extrap, percent

from insitu.entities import CallPath
from insitu.modeling.evidence.modeler import Evidence
from insitu.modeling.measurement import SeriesKey
from insitu.modeling.series import reduce_repetitions

PATH = CallPath(("main",))
NAMES = ("p", "n", "q")
MODELERS = ["evidence", "known", "plane in log space"]


def terms(model):
    places = {name: i for i, name in enumerate(model.parameters)}
    return {
        tuple((places[f.parameter], float(f.alpha), float(f.beta)) for f in t.factors)
        for t in model.function.terms
    }


def rounded(keys):
    return {
        tuple(sorted((i, round(float(a), 6), round(float(b), 6)) for i, a, b in key))
        for key in keys
    }


def models(how, x, y, form):
    names = NAMES[: x.shape[1]]
    told = [[names[i] for i in group] for group in data.forms(x.shape[1])[form]]
    known = {PATH: told} if how == "known" else {}
    keys = [SeriesKey(PATH, "time")] * len(y)
    return Evidence(dependencies=known).fit(reduce_repetitions(names, x, y[:, :, None], keys))


def row(options, count, sparse, how):
    """One line of the table: a design, a modeler."""
    exact, near, held, seconds = [], [], [], []
    target = [4.0 * grid[-1] for grid in data.GRID[:count]]
    for form in data.forms(count):
        for level in (0.02, 0.05):
            rng = np.random.default_rng([options.seed, count, len(form), int(level * 100)])
            number = options.peers if how == "Extra-P" else options.count
            x, y, truth, keys = data.several(
                rng, form, number, noise=level, sparse=sparse, count=count
            )
            start = time.process_time()
            if how == "Extra-P":
                answers = extrap(options.extrap, "several", x, y, target)
                found = [(set(a[0]), a[1]) for a in answers]
                seconds += [a[3] for a in answers]
            elif how == "plane in log space":
                found = [(set(), plane(x, row, np.array([target]))[0]) for row in y]
                seconds.append((time.process_time() - start) / len(y))
            else:
                made = models(how, x, y, form)
                seconds.append((time.process_time() - start) / len(y))
                found = [(terms(m), m.predict([target])[0]) for m in made]
                bounds = np.array([m.interval([target])[0] for m in made])
                further = truth * (1 + rng.uniform(-level, level, len(truth)))
                held += ((bounds[:, 0] <= further) & (further <= bounds[:, 1])).tolist()
            exact += [rounded(a) == rounded(k) for (a, _), k in zip(found, keys, strict=True)]
            near += [abs(a / b - 1) <= 0.05 for (_, a), b in zip(found, truth, strict=True)]
    design = f"{count} parameters, {'sparse' if sparse else 'full'}, {len(x)} points"
    print(
        f"| {design} | {how} | {percent(exact)} / {percent(near)} "
        f"| {percent(held) if held else '–'} | {np.mean(seconds) * 1e3:.1f} ms |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--peers", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parameters", type=int, nargs="+", choices=(2, 3), default=(2, 3))
    parser.add_argument("--extrap", help="a Python that has Extra-P")
    options = parser.parse_args()
    print("design, modeler: exact / predicted within 5 %, held by 95 % intervals, time per model")
    for count in options.parameters:
        for sparse in (False, True):
            for how in MODELERS + (["Extra-P"] if options.extrap else []):
                row(options, count, sparse, how)


if __name__ == "__main__":
    main()
