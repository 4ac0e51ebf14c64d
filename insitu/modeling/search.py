"""Modeler "search": every hypothesis of a search space, cross-validated.

All hypotheses of the space are fitted by least squares of relative errors. The one whose points are
best predicted by the other points wins (leave-one-out, in closed form). Coefficients are not
negative, so no model predicts a negative time; falling behaviour has negative exponents. A function
that is not constant must halve the error of the constant [REF §3.3]; otherwise noise would pass for
growth.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from insitu.entities import Finding, number
from insitu.modeling.base import ChangePoint, Model, Segment
from insitu.modeling.least_squares import fit_columns, relative_weights
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.quality import quality
from insitu.modeling.residual import spread_of
from insitu.modeling.search_space import SearchSpace, default_space
from insitu.modeling.series import Series

NON_CONSTANCY = 2.0  # factor by which growth must reduce the error of the constant [REF §3.3]
MAX_CELLS = 2_000_000  # series × hypotheses × columns × points at once: tens of megabytes
TOO_FEW_POINTS = "too-few-points"
SEGMENT_SHORT = "segment-short"


@dataclass(frozen=True, slots=True)
class Search:
    """Exhaustive search of a space; by default of the default space of the parameters."""

    space: SearchSpace | None = None
    name: ClassVar[str] = "search"
    min_points: ClassVar[int] = 5
    shares_noise: ClassVar[bool] = False

    def fit(self, series: Series) -> list[Model]:
        """Return one model per series; see Modeler.

        Below five points, only functions that leave two degrees of freedom are tried.
        """
        space = self.space or default_space(series.parameters)
        return _Traversal(space, series).models(self.name)


class _Traversal:
    """One pass over a space: the best hypothesis of each series so far.

    A hypothesis is a tuple of term indices; -1 is the constant.
    """

    def __init__(self, space: SearchSpace, series: Series) -> None:
        self.space, self.series = space, series

        # Terms scaled to a largest value of 1; the constant is column 0, term i column i + 1.
        terms = space.evaluate_terms(series.coordinates)
        is_usable = np.asarray(np.isfinite(terms).all(axis=1))
        self.scale = np.abs(np.where(is_usable[:, None], terms, 1.0)).max(axis=1, initial=0.0)
        is_usable &= self.scale > 0
        self.scale[~is_usable] = 1.0
        self.design = np.vstack([np.ones(terms.shape[1]), terms / self.scale[:, None]])
        self.usable = set(np.flatnonzero(is_usable).tolist())

        n_series = len(series.values)
        self.error = np.full(n_series, np.inf)
        self.winner: list[tuple[int, ...]] = [()] * n_series
        self.coefficients: list[FloatArray] = [np.zeros(1)] * n_series

    def models(self, name: str) -> list[Model]:
        """Try all hypotheses and return the best model of each series."""
        values, weights = np.nan_to_num(self.series.values), relative_weights(self.series.values)
        counts = (weights > 0).sum(axis=1)
        is_negative = (values < 0).any(axis=1) & (values <= 0).all(axis=1)
        signs = np.where(is_negative, -1.0, 1.0)

        for size, hypotheses in self._hypotheses_by_size():
            chosen = np.array(hypotheses) + 1
            # Two degrees of freedom must be left; the constant alone needs one point.
            rows = np.flatnonzero(counts >= (size + 2 if size > 1 else 1))
            step = max(1, MAX_CELLS // max(1, len(chosen) * size * values.shape[1]))
            for start in range(0, len(rows), step):
                chunk = rows[start : start + step]
                signed = signs[chunk, None] * values[chunk]
                self._try(chosen, chunk, signed, weights[chunk], signs=signs[chunk])

        return [self._model(row, name) for row in range(len(values))]

    def _hypotheses_by_size(self) -> list[tuple[int, list[tuple[int, ...]]]]:
        """The usable hypotheses by number of columns, with the constant and without."""
        groups: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for hypothesis in self.space.hypotheses:
            if self.usable.issuperset(hypothesis):
                groups[len(hypothesis) + 1].append((-1, *hypothesis))
                if hypothesis:
                    groups[len(hypothesis)].append(hypothesis)
        return sorted(groups.items())

    def _try(
        self,
        chosen: IntArray,
        rows: IntArray,
        values: FloatArray,
        weights: FloatArray,
        *,
        signs: FloatArray,
    ) -> None:
        """Keep the best of some hypotheses (h, c) for some series where it beats the winner."""
        fits = fit_columns(self.design, chosen, values, weights)
        score = np.where(fits.is_feasible, fits.left_out, np.inf)
        starts_with_constant = chosen.shape[1] == 1 and chosen[0, 0] == 0
        if chosen.shape[1] == 1:
            is_constant = chosen[:, 0] == 0
            score[:, is_constant] = fits.left_out[:, is_constant] / NON_CONSTANCY**2
            has_few_points = (weights > 0).sum(axis=1) < 3
            score[np.ix_(has_few_points, ~is_constant)] = np.inf

        best = score.argmin(axis=1)
        for i, row in enumerate(rows):
            is_better = score[i, best[i]] < self.error[row]
            # Even if the error of the constant is infinite, it is the model to start with.
            if is_better or (starts_with_constant and not np.isfinite(self.error[row])):
                self.error[row] = score[i, best[i]]
                self.winner[row] = tuple(int(column) - 1 for column in chosen[best[i]])
                self.coefficients[row] = signs[i] * fits.coefficients[i, best[i]]

    def _model(self, row: int, name: str) -> Model:
        values = self.series.values[row]
        is_measured = ~np.isnan(values)
        points, values = self.series.coordinates[is_measured], values[is_measured]

        winner = self.winner[row] or (-1,)
        constant = 0.0 if len(values) else float("nan")
        terms = []
        for term, coefficient in zip(winner, self.coefficients[row], strict=True):
            if term >= 0:
                value = float(coefficient / self.scale[term])
                terms.append(Term(value, self.space.terms[term]))
            elif len(values):
                constant = float(coefficient)

        function = Function(self.space.parameters, constant, tuple(terms))
        return Model(
            parameters=self.space.parameters,
            segments=(Segment(-np.inf, np.inf, function),),
            quality=quality(values, function(points), coefficients=len(winner)),
            modeler=name,
            coordinates=points,
            values=values,
            spreads=spread_of(function, points, values, constant=winner[0] < 0),
            findings=report_few_points(len(values)),
        )


def report_few_points(count: int) -> tuple[Finding, ...]:
    """Return a finding if a model was made from too few points to establish growth."""
    if count >= Search.min_points:
        return ()
    text = (
        f"{count} points are too few to tell growth from noise; measure at least "
        f"{Search.min_points}"
    )
    return (Finding(TOO_FEW_POINTS, text),)


def report_short_segments(
    x: FloatArray, change_points: Sequence[ChangePoint], parameter: str
) -> tuple[Finding, ...]:
    """Return a finding if a segment has too few points for a model of its own [SEG §3, Table 2].

    Args:
        x: (n,), ascending. change_points: of the model, ascending. parameter: its name.
    """
    starts = [-np.inf, *[change.high for change in change_points]]
    ends = [*[change.low for change in change_points], np.inf]
    texts = []
    for start, end in zip(starts, ends, strict=True):
        inside = x[(x >= start) & (x <= end)]
        if not change_points or len(inside) >= Search.min_points:
            continue
        if np.isinf(end):
            where = f"behind {parameter}={number(ends[-2])}"
            advice = "measure larger scales"
        elif np.isinf(start):
            where = f"up to {parameter}={number(end)}"
            advice = "measure smaller scales or between"
        else:
            where = f"from {parameter}={number(start)} to {number(end)}"
            advice = "measure between"
        texts.append(
            f"not enough points {where}: {len(inside)}, of {Search.min_points} needed; {advice}"
        )
    return (Finding(SEGMENT_SHORT, ". ".join(texts)),) if texts else ()
