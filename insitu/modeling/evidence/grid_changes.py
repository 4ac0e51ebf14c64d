"""Changes of behaviour along one of several parameters, such as a switch of algorithms.

[SEG] cuts series of one parameter. Over a grid, one law of all points is compared with two laws,
one of the points below a value of a parameter and one of the others, by the evidence of each. The
model of a series that changes is that of the part with the largest values, which predicts larger
ones; the other points are left out, and a finding names where that part begins. A law outside of
the hypothesis space that only bends may be cut, too; see docs/benchmarks/several-parameters.md.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.odd_zeros import leave_out
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.series import Series

MIN_VALUES_BEFORE, MIN_VALUES_BEHIND = 2, 3  # of each parameter; the law behind is the model
PRIOR = 0.1  # of a change, wherever it is
MIN_LOG_ODDS = np.log(0.95 / 0.05)  # of a change
# Of the F test that admits a series to the comparison of evidence, which takes much longer.
SIGNIFICANCE = 1e-3
SMALLEST_MISFIT = 1e-9  # of exact counts, relative, so that ratios stay finite


class GridChange(NamedTuple):
    """A series follows another law from a value of a parameter on.

    column: of the parameter. behind: the smallest value that follows the later law.
    """

    column: int
    behind: float

    def is_behind(self, coordinates: FloatArray) -> BoolArray:
        """Return which points (n, m) follow the later law: (n,)."""
        return np.asarray(coordinates[:, self.column] >= self.behind)


# Returns the log evidence (s, L) of one law for each series, at each level of noise.
Weigh = Callable[[Series], FloatArray]


def possible_changes(coordinates: FloatArray) -> list[GridChange]:
    """Return the changes that points (n, m) can show.

    Both parts must have enough values of every parameter that varies to fit a law.
    """
    candidates = []
    varying = np.flatnonzero(np.ptp(coordinates, axis=0) > 0)
    for column in varying.tolist():
        for behind in np.unique(coordinates[:, column])[1:].tolist():
            candidate = GridChange(column, behind)
            is_behind = candidate.is_behind(coordinates)
            later, earlier = coordinates[is_behind][:, varying], coordinates[~is_behind][:, varying]
            if _has_values(later, MIN_VALUES_BEHIND) and _has_values(earlier, MIN_VALUES_BEFORE):
                candidates.append(candidate)
    return candidates


def _has_values(coordinates: FloatArray, count: int) -> bool:
    return all(len(np.unique(column)) >= count for column in coordinates.T)


def find_suspects(
    residuals: FloatArray, coordinates: FloatArray, candidates: Sequence[GridChange]
) -> BoolArray:
    """Return which series have residuals that two power laws describe better than one: (s,).

    Args:
        residuals: (s, n), logarithm of value over function; finite. coordinates: (n, m), positive.
    """
    varying = np.flatnonzero(np.ptp(coordinates, axis=0) > 0)
    one = np.column_stack([np.ones(len(coordinates)), np.log(coordinates[:, varying])])
    floor = len(coordinates) * SMALLEST_MISFIT**2
    of_one = _squares_left(residuals, one)
    is_suspect = np.zeros(len(residuals), dtype=bool)
    n_more, freedom = one.shape[1], len(coordinates) - 2 * one.shape[1]
    if freedom < 1:
        return is_suspect
    from scipy.special import fdtrc  # takes 0.2 s to import, and one parameter does not need it

    for candidate in candidates:
        is_behind = candidate.is_behind(coordinates)[:, None]
        of_two = _squares_left(residuals, np.hstack([one * is_behind, one * ~is_behind]))
        gain = np.maximum(of_one - of_two, 0.0) / n_more
        ratio = gain / (np.maximum(of_two, floor) / freedom)
        is_suspect |= fdtrc(n_more, freedom, ratio) < SIGNIFICANCE
    return is_suspect


def _squares_left(values: FloatArray, columns: FloatArray) -> FloatArray:
    """The sum of squares of values (s, n) that columns (n, k) leave unexplained: (s,)."""
    basis = np.linalg.qr(columns)[0]
    left = values - (values @ basis) @ basis.T
    return np.asarray((left**2).sum(axis=1))


def find_changes(
    series: Series,
    candidates: Sequence[GridChange],
    weigh: Weigh,
    log_prior: FloatArray,
) -> list[GridChange | None]:
    """Return the change of each series, None where one law is as probable.

    Args:
        candidates: the possible changes. weigh: the evidence of one law for some series. log_prior:
            (s, L), of the noise of each series.
    """
    of_one = np.logaddexp.reduce(weigh(series) + log_prior, axis=1)
    of_candidates = np.empty((len(series.values), len(candidates)))
    for i, candidate in enumerate(candidates):
        is_behind = candidate.is_behind(series.coordinates)
        parts = (np.flatnonzero(~is_behind), np.flatnonzero(is_behind))
        of_two = sum(weigh(series.at_points(points)) for points in parts)
        of_candidates[:, i] = np.logaddexp.reduce(of_two + log_prior, axis=1)

    of_candidates += np.log(PRIOR / len(candidates))
    log_odds = np.logaddexp.reduce(of_candidates, axis=1) - of_one - np.log(1 - PRIOR)
    is_changed = log_odds > MIN_LOG_ODDS
    best = of_candidates.argmax(axis=1)
    return [
        candidates[k] if changed else None
        for k, changed in zip(best.tolist(), is_changed.tolist(), strict=True)
    ]


def group_by_change(changes: Sequence[GridChange | None]) -> dict[GridChange, IntArray]:
    """Return the rows of the series that change, by their change."""
    rows: dict[GridChange, list[int]] = {}
    for row, change in enumerate(changes):
        if change is not None:
            rows.setdefault(change, []).append(row)
    return {change: np.array(members) for change, members in rows.items()}


def leave_out_before(series: Series, changes: Sequence[Sequence[GridChange]]) -> Series:
    """Return the series without the points before the changes (s,) of each."""
    is_before = np.zeros(series.values.shape, dtype=bool)
    for row, of_series in enumerate(changes):
        for change in of_series:
            is_before[row] |= ~change.is_behind(series.coordinates)
    return leave_out(series, is_before) if is_before.any() else series
