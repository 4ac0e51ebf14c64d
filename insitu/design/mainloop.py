"""The main loop: whether its iterations cost the same, and how many of them are enough.

[DET §3.2] accepts a loop when the coefficient of variation of its iterations is small. That refuses
a loop which works more every fifth step, though it is perfectly linear in the number of steps, and
accepts one that slowly grows by 30 %. So the trend decides, and the variation only says how many
iterations a run should have.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

MIN_ITERATIONS = 5  # [DET §3.3]
PRECISION = 0.05  # of a mean over iterations or runs, with 95 % probability
Z95 = 1.96  # quantile of the normal distribution that has 2.5 % above it
DRIFT_LIMIT = 0.05  # from the first to the last iteration, as a share of the median
SIGNIFICANCE = 0.01  # of Mann and Kendall's test
WARM_UP_SHARE = 0.1  # of the iterations, left out: caches and clocks warm up
SLOPES_LIMIT = 400  # iterations whose pairs are compared; more are averaged in blocks first


@dataclass(frozen=True, slots=True)
class LoopVerdict:
    """What the times of a loop's iterations say.

    is_linear: all iterations cost the same, apart from noise and what comes back regularly, so the
    run's time is proportional to their number. drift: growth from the first to the last iteration
    as a share of the median. variation: their coefficient of variation. iterations: how many a run
    should have so that its mean is known to 5 %. reason: a sentence for people. noise: relative, of
    the mean of the iterations that were looked at.
    """

    is_linear: bool
    drift: float
    variation: float
    iterations: int
    reason: str
    noise: float = 0.0


def judge_loop(times: Sequence[float]) -> LoopVerdict:
    """Whether a main loop is linear in the number of its iterations.

    Drift by the slope of Theil and Sen, its significance by the rank test of Mann and Kendall; the
    first tenth of the iterations, at least one, is warm-up and left out.

    Args:
        times: of each iteration in order, in seconds, or amounts of work; not negative.
    """
    values = np.asarray(times, dtype=float)
    values = values[math.ceil(WARM_UP_SHARE * len(values)) :]
    if len(values) < MIN_ITERATIONS:
        text = f"{len(times)} iterations are too few to tell; at least {MIN_ITERATIONS + 1} are"
        return LoopVerdict(False, math.nan, math.nan, MIN_ITERATIONS, text)
    mean, median = float(values.mean()), float(np.median(values))
    variation = float(values.std(ddof=1) / mean) if mean > 0 else 0.0
    noise = variation / math.sqrt(len(values))
    iterations = iterations_for(variation)
    drift, probability = _trend(values)
    if median > 0:
        drift /= median
    if abs(drift) > DRIFT_LIMIT and probability < SIGNIFICANCE:
        word = "grow" if drift > 0 else "shrink"
        text = f"iterations {word} by {abs(drift):.0%} over the loop: not linear"
        return LoopVerdict(False, drift, variation, iterations, text, noise)
    text = f"no drift; coefficient of variation {variation:.2f}"
    return LoopVerdict(True, drift, variation, iterations, text, noise)


def judge_runs(samples: Sequence[Sequence[float]]) -> LoopVerdict | None:
    """Whether the main loop is linear, by the iterations of several runs; None where none tells.

    It is not where most runs drift the same way: one may do so because the machine did. Variation
    and noise are those of the median run.

    Args:
        samples: of each run, times of iterations in order, see `judge_loop`.
    """
    verdicts = [one for one in map(judge_loop, samples) if not math.isnan(one.variation)]
    if not verdicts:
        return None
    drift = float(np.median([one.drift for one in verdicts]))
    drifting = [one for one in verdicts if not one.is_linear and one.drift * drift > 0]
    variation = float(np.median([one.variation for one in verdicts]))
    noise = float(np.median([one.noise for one in verdicts]))
    is_linear = 2 * len(drifting) <= len(verdicts)
    word = "grow" if drift > 0 else "shrink"
    text = (
        f"no drift in {len(verdicts)} runs; coefficient of variation {variation:.2f}"
        if is_linear
        else f"iterations {word} by {abs(drift):.0%} over the loop, in {len(drifting)} of"
        f" {len(verdicts)} runs: not linear"
    )
    return LoopVerdict(is_linear, drift, variation, iterations_for(variation), text, noise)


def iterations_for(variation: float) -> int:
    """How many iterations give the mean to 5 %: (1.96 CV / 0.05)^2, at least five [DET §3.3]."""
    return max(MIN_ITERATIONS, math.ceil((Z95 * variation / PRECISION) ** 2))


def _trend(values: np.ndarray) -> tuple[float, float]:
    """Growth over the whole loop by the median slope, and the probability of it without a trend."""
    if len(values) > SLOPES_LIMIT:
        values = np.array([block.mean() for block in np.array_split(values, SLOPES_LIMIT)])
    at = np.arange(len(values))
    from scipy.stats import kendalltau  # 50 MB, which views of a campaign need not hold

    result = kendalltau(at, values)
    probability = float(result.pvalue) if math.isfinite(result.pvalue) else 1.0
    slopes = [(values[j] - values[i]) / (j - i) for i, j in combinations(range(len(values)), 2)]
    return float(np.median(slopes)) * (len(values) - 1), probability
