"""How often a run in progress is marked by chance, and how soon when it is slower.

    python tests/benchmarks/forecast.py [--campaigns 100] [--paths 30] [--seed 1]

Each campaign has runs at p = 2 to 64, one or three of each, whose call paths follow random laws
with one term (exponents of the field, constants too); what differs from run to run and what differs
from visit to visit both have the given size for a whole run. The forecast of a run at 128 ranks is
then looked at forty times while it goes on. Told are the part of runs with any mark, in which no
call path is slower, and for one call path made slower, how many are marked at the end of the run
and after which part of it.
"""

import argparse

import numpy as np

from insitu import fit
from insitu.entities import TIME, VISITS, CallPath, RunKey
from insitu.measurement import SeriesKey
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.monitor.forecast import LivePath, course, forecast

P = np.array([2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
RUN = RunKey.of({"p": 128})
STEPS, VISITS_OF_RUN = 40, 400
EXPONENTS = (0.0, 0.0, 1 / 3, 0.5, 2 / 3, 1.0, 1.5, -1.0, -0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=100)
    parser.add_argument("--paths", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{options.campaigns} campaigns of {options.paths} call paths, seed {options.seed}")
    print("noise  runs  marked by chance   slower by 1.5: marked, after   by 3: marked, after")
    for noise in (0.02, 0.05, 0.10):
        for runs in (1, 3):
            rng = np.random.default_rng([options.seed, runs, int(1000 * noise)])
            found = [campaign(rng, options.paths, noise, runs) for _ in range(options.campaigns)]
            falsely = np.mean([one[0] for one in found])
            words = []
            for place in (1, 2):
                parts = [one[place] for one in found if one[place] is not None]
                after = f"{np.median(parts):.0%}" if parts else "–"
                words.append(f"{len(parts) / len(found):4.0%}, {after}")
            print(f"{noise:4.0%} {runs:5}  {falsely:16.1%}   {words[0]:>27}   {words[1]:>20}")


def campaign(rng, paths, noise, runs):
    """Whether anything was marked by chance, and when a slower call path was, by two factors."""
    exponents = rng.choice(EXPONENTS, paths)
    factors, constants = 10 ** rng.uniform(-3, 1, (2, paths))

    def truth(p):
        return constants[:, None] + factors[:, None] * np.asarray(p)[None, :] ** exponents[:, None]

    shape = (paths, len(P), runs)
    sigma = noise * np.sqrt(2)
    times = truth(P)[:, :, None] * np.exp(rng.normal(0, sigma, shape))
    models = [series(i, TIME, model) for i, model in enumerate(fit(P[:, None], times))]
    counts = fit(P[:, None], np.full((paths, len(P)), float(VISITS_OF_RUN)))
    models += [series(i, VISITS, model) for i, model in enumerate(counts)]
    foreseen = forecast(ModelSet(("p",), models), RUN)
    whole = truth([128.0])[:, 0] * np.exp(rng.normal(0, noise, paths))
    walk = rng.normal(0, noise / np.sqrt(STEPS), (paths, STEPS)).cumsum(axis=1)
    parts = np.arange(1, STEPS + 1) / STEPS
    seconds = whole[:, None] * np.maximum(parts + walk, 0)
    is_marked = marks(foreseen, seconds, parts).any()
    when = []
    for slower in (1.5, 3.0):
        changed = seconds.copy()
        changed[0] *= slower
        first = marks(foreseen, changed, parts)[0]
        when.append(parts[np.argmax(first)] if first[-1] else None)
    return bool(is_marked), *when


def marks(foreseen, seconds, parts):
    """(n_paths, n_steps), whether a call path is marked."""
    found = np.zeros(seconds.shape, dtype=bool)
    for step, part in enumerate(parts):
        paths = [
            LivePath(f"main->f{i}", VISITS_OF_RUN * part, value)
            for i, value in enumerate(seconds[:, step])
        ]
        judged = course(foreseen, paths, size=128, has_ended=part == 1).judged
        for i in range(len(paths)):
            found[i, step] = bool(judged[f"main->f{i}", TIME.name].verdict)
    return found


def series(index, metric, model):
    return SeriesModel(
        SeriesKey(CallPath(("main", f"f{index}")), metric.name, "all"), metric, model
    )


if __name__ == "__main__":
    main()
