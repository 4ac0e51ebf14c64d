"""The main loop: whether its iterations all cost the same, and how many a run needs.

[DET §3.2] accepts a loop if the coefficient of variation of its iterations is small. That rejects a
loop that does more work in every fifth step, although its time is linear in the number of steps,
and accepts a loop that slowly grows by 30 %. Here the trend decides, and the variation only
determines how many iterations a run should have.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

MIN_ITERATIONS = 5  # [DET §3.3]
PRECISION = 0.05  # relative, of a mean over iterations or runs, with 95 % confidence
Z95 = 1.96  # 97.5 % quantile of the normal distribution
DRIFT_LIMIT = 0.05  # from the first to the last iteration, as a share of the median
SIGNIFICANCE = 0.01  # of the Mann-Kendall test
WARM_UP_SHARE = 0.1  # of the iterations is ignored, while caches and clocks warm up
SLOPES_LIMIT = 400  # iterations whose pairs are compared; more are averaged in blocks first


@dataclass(frozen=True, slots=True)
class LoopVerdict:
    """Whether a loop is linear in the number of its iterations.

    Attributes:
        is_linear: all iterations cost the same except for noise and periodic work, so the time of a
            run is proportional to their number.
        drift: growth from the first to the last iteration as a share of the median.
        variation: coefficient of variation of the iterations.
        iterations: number of iterations that gives the mean to 5 %.
        reason: explanation for the user.
        noise: relative, of the mean of the examined iterations.
    """

    is_linear: bool
    drift: float
    variation: float
    iterations: int
    reason: str
    noise: float = 0.0


def judge_loop(times: Sequence[float]) -> LoopVerdict:
    """Return whether a main loop is linear in the number of its iterations.

    The drift is the Theil-Sen slope, its significance follows from the Mann-Kendall rank test. The
    first tenth of the iterations, at least one, is ignored as warm-up.

    Args:
        times: of each iteration in order, in seconds or amounts of work; not negative.
    """
    values = np.asarray(times, dtype=float)
    values = values[math.ceil(WARM_UP_SHARE * len(values)) :]
    if len(values) < MIN_ITERATIONS:
        text = f"{len(times)} iterations are too few; at least {MIN_ITERATIONS + 1} are needed"
        return LoopVerdict(False, math.nan, math.nan, iterations=MIN_ITERATIONS, reason=text)

    mean, median = float(values.mean()), float(np.median(values))
    variation = float(values.std(ddof=1) / mean) if mean > 0 else 0.0
    noise = variation / math.sqrt(len(values))
    iterations = iterations_for(variation)

    drift, probability = _trend(values)
    if median > 0:
        drift /= median
    is_linear = not (abs(drift) > DRIFT_LIMIT and probability < SIGNIFICANCE)
    if is_linear:
        text = f"no drift; coefficient of variation {variation:.2f}"
    else:
        word = "grow" if drift > 0 else "shrink"
        text = f"iterations {word} by {abs(drift):.0%} over the loop: not linear"
    return LoopVerdict(is_linear, drift, variation, iterations=iterations, reason=text, noise=noise)


def judge_runs(samples: Sequence[Sequence[float]]) -> LoopVerdict | None:
    """Return whether the main loop is linear, from the iterations of several runs.

    The loop is not linear if most runs drift in the same direction; a single run may drift because
    the machine did. Variation and noise are medians over the runs. The result is None if no run has
    enough iterations.

    Args:
        samples: of each run, times of iterations in order, see `judge_loop`.
    """
    verdicts = [judge_loop(times) for times in samples]
    verdicts = [verdict for verdict in verdicts if not math.isnan(verdict.variation)]
    if not verdicts:
        return None

    drift = float(np.median([verdict.drift for verdict in verdicts]))
    variation = float(np.median([verdict.variation for verdict in verdicts]))
    noise = float(np.median([verdict.noise for verdict in verdicts]))

    n_drifting = sum(not verdict.is_linear and verdict.drift * drift > 0 for verdict in verdicts)
    is_linear = 2 * n_drifting <= len(verdicts)
    if is_linear:
        text = f"no drift in {len(verdicts)} runs; coefficient of variation {variation:.2f}"
    else:
        word = "grow" if drift > 0 else "shrink"
        text = (
            f"iterations {word} by {abs(drift):.0%} over the loop, in {n_drifting} of"
            f" {len(verdicts)} runs: not linear"
        )
    return LoopVerdict(
        is_linear,
        drift,
        variation,
        iterations=iterations_for(variation),
        reason=text,
        noise=noise,
    )


def iterations_for(variation: float) -> int:
    """Return how many iterations give the mean to 5 %.

    The number is (1.96 CV / 0.05)^2, at least five [DET §3.3].
    """
    return max(MIN_ITERATIONS, math.ceil((Z95 * variation / PRECISION) ** 2))


def _trend(values: np.ndarray) -> tuple[float, float]:
    """Return the growth over the whole loop by the median slope, and its p-value."""
    if len(values) > SLOPES_LIMIT:
        values = np.array([block.mean() for block in np.array_split(values, SLOPES_LIMIT)])
    from scipy.stats import kendalltau  # takes 50 MB, which views of a campaign do not need

    result = kendalltau(np.arange(len(values)), values)
    probability = float(result.pvalue) if math.isfinite(result.pvalue) else 1.0
    slopes = [(values[j] - values[i]) / (j - i) for i, j in combinations(range(len(values)), 2)]
    return float(np.median(slopes)) * (len(values) - 1), probability
