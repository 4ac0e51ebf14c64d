"""Runs that were slow as a whole: one factor that all call paths of a run share.

A node that another job uses makes everything in a run slower, so the series are not independent
evidence. Where a coordinate was repeated, the other repetitions show it: the median over call paths
of the ratio of a run to the others is the factor of the run.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from insitu.entities import Finding, RunKey
from insitu.modeling.measurement import FloatArray

RUN_DISTURBED = "run-disturbed"
MIN_REPETITIONS = 3  # two differ, but do not show which of them is disturbed
MIN_SERIES = 5  # that a factor is the median of; fewer need the stricter conditions below
MIN_FEW_SERIES = 2  # a single call path that is slow says nothing about the run
MIN_FACTOR = 1.25  # either way; smaller ones are left to the noise of the series
MIN_SHARE = 0.8  # of the series must be off in the same direction, by at least half of the factor
MIN_TIMES_USUAL = 4.0  # logarithms of a factor, against the median over all repeated runs
# Of a run with fewer than MIN_SERIES call paths, all of which must be off. In 300 campaigns each
# with 2, 3 and 4 call paths, 3 and 5 repetitions at 5 scales, a run that is twice as slow is found
# in 96 to 100 % at up to 10 % noise; none is false there, and up to 1.3 % of the campaigns at 20 %.
# tests/modeling/test_run_effects.py repeats a part of this.
MIN_FEW_FACTOR = 1.5
MIN_FEW_TIMES_USUAL = 8.0


class DisturbedRun(NamedTuple):
    """A run whose values are a factor times those of its repetitions.

    coordinate, repetition: its position in the values. series: those that are off, of total.
    """

    coordinate: int
    repetition: int
    factor: float
    series: int
    total: int


def find_disturbed_runs(values: FloatArray) -> list[DisturbedRun]:
    """Return the runs that were slow, or fast, as a whole.

    At each coordinate fewer than half of the runs can be disturbed; otherwise none is.

    Args:
        values: (n_series, n_coordinates, n_repetitions), NaN where nothing was measured.
    """
    candidates: list[DisturbedRun] = []
    all_effects: list[FloatArray] = []  # logarithms of the factors, by coordinate
    for c in range(values.shape[1]):
        at = values[:, c]
        measured = np.flatnonzero(np.isfinite(at).any(axis=0))
        if len(measured) < MIN_REPETITIONS:
            continue
        at = at[:, measured]
        at = at[(at > 0).all(axis=1)]  # NaN is not
        n_series = len(at)
        if n_series < MIN_FEW_SERIES:
            continue
        is_few = n_series < MIN_SERIES
        least_factor = MIN_FEW_FACTOR if is_few else MIN_FACTOR
        least_share = 1.0 if is_few else MIN_SHARE

        log_ratios = np.log(at / np.median(at, axis=1, keepdims=True))
        effects = np.median(log_ratios, axis=0)
        n_off = (log_ratios * np.sign(effects) > np.abs(effects) / 2).sum(axis=0)
        is_large = (np.abs(effects) > np.log(least_factor)) & (n_off >= least_share * n_series)
        all_effects.append(effects)
        if 2 * is_large.sum() >= len(effects):
            continue
        for index in np.flatnonzero(is_large):
            factor = float(np.exp(effects[index]))
            repetition = int(measured[index])
            candidates.append(DisturbedRun(c, repetition, factor, int(n_off[index]), n_series))

    if not candidates:
        return []
    usual = float(np.median(np.abs(np.concatenate(all_effects))))
    disturbed = []
    for run in candidates:
        times_usual = MIN_TIMES_USUAL if run.total >= MIN_SERIES else MIN_FEW_TIMES_USUAL
        if abs(np.log(run.factor)) > times_usual * usual:
            disturbed.append(run)
    return disturbed


def remove_disturbed_runs(values: FloatArray, disturbed: Sequence[DisturbedRun]) -> FloatArray:
    """Return the values without those of disturbed runs, NaN instead; see `find_disturbed_runs`."""
    kept = values.copy()
    for run in disturbed:
        kept[:, run.coordinate, run.repetition] = np.nan
    return kept


def report_disturbed_run(run: DisturbedRun, key: RunKey) -> Finding:
    """Return the finding about one disturbed run."""
    factor, word = (run.factor, "slow") if run.factor > 1 else (1 / run.factor, "fast")
    text = (
        f"run {key} was {factor:.2g} times as {word} as its repetitions in {run.series} of "
        f"{run.total} call paths; its times are not used for models"
    )
    return Finding(RUN_DISTURBED, text)
