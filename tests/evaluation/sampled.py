"""Functions that are known by samples, in campaigns of series without noise.

python tests/evaluation/sampled.py [--campaigns 6] [--seed 41 42]

Four laws on 2 to 64 ranks, seen by 3 to 100 samples of a rank on eight ranks, as means over all
ranks (the more ranks, the more samples) and for one rank. 200 series with noise of 0.2 % are fitted
with the 48 sampled ones of a campaign. Per number of samples and way: symmetric error in percent
(median) of the prediction at four and 16 times the largest scale, how often 95 % intervals hold the
law, and their width relative to it (median).
"""

import argparse

import numpy as np

from insitu.modeling import modelers

LAWS = {
    "constant": lambda p: 1 + 0 * p,
    "p": lambda p: p / 8,
    "log": lambda p: np.log2(p) / 3,
    "sqrt": lambda p: np.sqrt(p / 8),
}
SCALES = np.array([2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
SAMPLES, SAME, QUIET = (3, 10, 30, 100), 3, 200
INTERVAL_S, NOISE, FAR = 0.01, 0.002, (4, 16)


def draw(rng, seconds, ranks):
    """Sampled times (n,) and their relative variances, as insitu.modeling.sampling has them."""
    drawn = rng.poisson(seconds * ranks / INTERVAL_S)
    values = drawn * INTERVAL_S / ranks
    size = np.where(drawn > 0, values, 1e-3 * values.max(initial=INTERVAL_S / 1e3))
    return values, np.maximum(drawn, 1) * (INTERVAL_S / ranks / size) ** 2


def judge(rng, is_mean):
    """The results of a campaign: samples, distance, error, whether held, width."""
    drawn, truths = [], []
    ranks = SCALES if is_mean else np.ones(len(SCALES))
    for law in LAWS.values():
        for samples in np.repeat(SAMPLES, SAME).tolist():
            drawn.append(draw(rng, law(SCALES) * samples * INTERVAL_S, ranks))
            truths.append((samples, law))
    for law in np.resize(np.array(list(LAWS.values())), QUIET):
        quiet = law(SCALES) * np.exp(NOISE * rng.standard_normal(len(SCALES)))
        drawn.append((10 ** rng.uniform(-2, 1) * quiet, np.zeros(len(SCALES))))
    values, known = np.array(drawn).swapaxes(0, 1)[..., None]

    models = modelers.fit(SCALES[:, None], values, known_variances=known)
    for model, (samples, law) in zip(models, truths, strict=False):
        for far in FAR:
            at = far * SCALES[-1]
            truth = float(law(at)) * samples * INTERVAL_S
            predicted, (low, high) = float(model.predict([[at]])[0]), model.interval([[at]])[0]
            error = 200 * abs(predicted - truth) / (abs(predicted) + truth)
            yield samples, far, error, low <= truth <= high, (high - low) / truth


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=6)
    parser.add_argument("--seed", type=int, nargs="+", default=[41, 42])
    options = parser.parse_args()

    print("values          samples | 4 x: error  held  width | 16 x: error  held  width")
    for is_mean in (True, False):
        results = []
        for seed in options.seed:
            rng = np.random.default_rng(seed)
            for _ in range(options.campaigns):
                results.extend(judge(rng, is_mean))
        table = np.array(results)
        for samples in SAMPLES:
            cells = []
            for far in FAR:
                chosen = table[(table[:, 0] == samples) & (table[:, 1] == far)]
                error, width = np.median(chosen[:, 2]), np.median(chosen[:, 4])
                cells.append(f"{error:6.1f} {100 * chosen[:, 3].mean():5.0f} {width:6.2f}")
            way = "mean over ranks" if is_mean else "one rank"
            print(f"{way:16} {samples:6} | {cells[0]:>23} | {cells[1]:>24}")


if __name__ == "__main__":
    main()
