"""How often a run in progress is marked by chance, and how soon when it is slower.

    python tests/evaluation/forecast.py [--campaigns 100] [--paths 30] [--seed 1]

Each campaign has runs at p = 2 to 64, one or three of each, whose call paths follow random laws
with one term (exponents of the field, constants too); what differs from run to run and what differs
from visit to visit both have the given size for a whole run. The forecast of a run at 128 ranks is
then looked at forty times while it goes on. Besides visits and time each call path has exclusive
time, bytes sent and messages, which are exact, and with the same noise what it allocates and the
peak of its heap. Told are the part of runs with any mark, in which no call path is slower; for one
call path made slower, the dearest, how many are marked at the end of the run and after which part
of it, and how many keep a finding when it is over; and the same for the call path with the largest
heap, which takes 1.5 or 3 times of it, and for one that sends 5 % more.
"""

import argparse

import numpy as np

from insitu import fit
from insitu.analysis.deviation import find_deviations
from insitu.analysis.forecast import LivePath, compare_with_forecast, make_forecast
from insitu.entities import (
    ALLOCATIONS,
    BYTES_ALLOCATED,
    BYTES_SENT,
    HEAP_PEAK,
    MESSAGES_SENT,
    TIME,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    RunKey,
)
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.measurement import RunTable, SeriesKey

P = np.array([2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
RUN = RunKey.of({"p": 128})
STEPS, VISITS_OF_RUN, MESSAGE_BYTES = 40, 400, 800
EXPONENTS = (0.0, 0.0, 1 / 3, 0.5, 2 / 3, 1.0, 1.5, -1.0, -0.5)
TIMES = (TIME, TIME_EXCLUSIVE)
NOISY = (*TIMES, ALLOCATIONS, BYTES_ALLOCATED, HEAP_PEAK)
EXACT = {VISITS: VISITS_OF_RUN, MESSAGES_SENT: VISITS_OF_RUN, BYTES_SENT: MESSAGE_BYTES}
CHANGES = {  # what is changed of the call path that has most of it, by which factor
    "time x 1.5": dict.fromkeys(TIMES, 1.5),
    "time x 3": dict.fromkeys(TIMES, 3.0),
    "heap x 1.5": {HEAP_PEAK: 1.5},
    "heap x 3": {HEAP_PEAK: 3.0},
    "bytes x 1.05": {BYTES_SENT: 1.05},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=100)
    parser.add_argument("--paths", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{options.campaigns} campaigns of {options.paths} call paths, seed {options.seed}")
    print("by chance: runs with a mark, with a finding; else: marked, after which part; findings")
    for noise in (0.02, 0.05, 0.10):
        for runs in (1, 3):
            rng = np.random.default_rng([options.seed, runs, int(1000 * noise)])
            found = [campaign(rng, options.paths, noise, runs) for _ in range(options.campaigns)]
            chance = np.mean([draw.pop("") for draw in found], axis=0)
            print(f"noise {noise:.0%}, {runs} runs: by chance {chance[0]:.1%}, {chance[1]:.1%}")
            for name in CHANGES:
                parts = [draw[name][0] for draw in found if draw[name][0] is not None]
                kept = np.mean([draw[name][1] for draw in found])
                after = f"after {np.median(parts):.0%}" if parts else ""
                print(f"    {name:<15} {len(parts) / len(found):4.0%} {after:<10} {kept:4.0%}")


def campaign(rng, paths, noise, runs):
    """By change: when the first call path was marked, and whether there was a finding; without any
    change whether anything was marked by chance."""
    sigma = noise * np.sqrt(2)
    points, models, whole = P[:, None], [], {}
    for metric in NOISY:
        exponents = rng.choice(EXPONENTS, paths)
        factors, constants = 10 ** rng.uniform(-3, 1, (2, paths))
        at = np.append(P, 128.0)
        truth = constants[:, None] + factors[:, None] * at[None, :] ** exponents[:, None]
        seen = truth[:, :-1, None] * np.exp(rng.normal(0, sigma, (paths, len(P), runs)))
        models += [series(i, metric, model) for i, model in enumerate(fit(points, seen))]
        whole[metric] = truth[:, -1] * np.exp(rng.normal(0, noise, paths))
    for metric, value in EXACT.items():
        counts = fit(points, np.full((paths, len(P)), float(value)))
        models += [series(i, metric, model) for i, model in enumerate(counts)]
        whole[metric] = np.full(paths, float(value))
    foreseen = make_forecast(ModelSet(("p",), models), RUN)
    walks = rng.normal(0, noise / np.sqrt(STEPS), (paths, STEPS)).cumsum(axis=1)
    undisturbed = marks(foreseen, whole, walks)
    found = {"": (undisturbed.any(), bool(sealed(foreseen, whole)))}
    for name, factors in CHANGES.items():
        changed = {metric: values.copy() for metric, values in whole.items()}
        place = int(np.argmax(whole[next(iter(factors))]))
        for metric, factor in factors.items():
            changed[metric][place] *= factor
        first = marks(foreseen, changed, walks, only=tuple(factors))[place]
        when = (np.argmax(first) + 1) / STEPS if first[-1] else None
        found[name] = (when, f"main->f{place} " in sealed(foreseen, changed))
    return found


def marks(foreseen, whole, walks, only=(*NOISY, *EXACT)):
    """(n_paths, n_steps), whether a call path is marked; peaks are had from the beginning, half of
    what is allocated is, too, and the rest of everything comes with the visits."""
    found = np.zeros(walks.shape, dtype=bool)
    for step in range(STEPS):
        part = (step + 1) / STEPS
        so_far = {metric: values * part for metric, values in whole.items()}
        for metric in TIMES:
            so_far[metric] = whole[metric] * np.maximum(part + walks[:, step], 0)
        for metric in (ALLOCATIONS, BYTES_ALLOCATED):
            so_far[metric] = whole[metric] * (0.5 + part / 2)
        so_far[HEAP_PEAK] = whole[HEAP_PEAK]
        judged = compare_with_forecast(
            foreseen, live(so_far), size=128, has_ended=part == 1
        ).judgements
        for i in range(len(found)):
            found[i, step] = any(judged[f"main->f{i}", one.name].verdict for one in only)
    return found


def live(values):
    """Call paths as they are seen."""
    others = [metric for metric in values if metric not in (VISITS, *TIMES)]
    return [
        LivePath(
            f"main->f{i}",
            *(values[metric][i] for metric in (VISITS, *TIMES)),
            128,
            {metric.name: values[metric][i] for metric in others},
        )
        for i in range(len(values[VISITS]))
    ]


def sealed(foreseen, whole):
    """What is said of the run when it is over."""
    paths = tuple(CallPath(("main", f"f{i}")) for i in range(len(whole[VISITS])))
    values = {metric.name: value[:, None] for metric, value in whole.items()}
    table = RunTable(paths, tuple(whole), values)
    return " ".join(finding.text for finding in find_deviations(foreseen, table, RUN))


def series(index, metric, model):
    return SeriesModel(
        SeriesKey(CallPath(("main", f"f{index}")), metric.name, "all"), metric, model
    )


if __name__ == "__main__":
    main()
