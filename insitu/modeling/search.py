"""Modeler "search": every hypothesis of a search space, cross-validated.

All hypotheses of the space are fitted by least squares of relative errors; the one whose points
are best predicted by the others wins (leave-one-out, in closed form). Coefficients are not
negative, so no model predicts a negative time; falling behaviour has negative exponents. A
function that is not constant must halve the error of the constant [REF §3.3], or noise would be
taken for growth.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from insitu.entities import Finding
from insitu.modeling.base import Model, Segment
from insitu.modeling.least_squares import fit_columns, relative_weights
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.quality import quality
from insitu.modeling.residual import spread_of
from insitu.modeling.search_space import Space, default_space
from insitu.modeling.series import Series

NON_CONSTANCY = 2.0  # [REF §3.3]
CELLS = 2_000_000  # series × hypotheses × points at once: tens of megabytes
TOO_FEW = "too-few-points"


@dataclass(frozen=True, slots=True)
class Search:
    """Exhaustive search; `space` is the default one of the parameters where none is given."""

    space: Space | None = None
    name: ClassVar[str] = "search"
    min_points: ClassVar[int] = 5
    shares_noise: ClassVar[bool] = False

    def fit(self, series: Series) -> list[Model]:
        """See Modeler. Below five points only functions with two degrees of freedom left are
        tried.
        """
        space = self.space or default_space(series.parameters)
        return _Traversal(space, series).models(self.name)


class _Traversal:
    """One pass over a space: the best hypothesis of each series so far."""

    def __init__(self, space: Space, series: Series) -> None:
        self.space, self.series = space, series
        design = space.design(series.coordinates)
        usable = np.asarray(np.isfinite(design).all(axis=1))
        self.scale = np.abs(np.where(usable[:, None], design, 1.0)).max(axis=1, initial=0.0)
        usable &= self.scale > 0
        self.scale[~usable] = 1.0
        self.design = np.vstack([np.ones(design.shape[1]), design / self.scale[:, None]])
        self.usable = {i for i in range(len(usable)) if usable[i]}
        n = len(series.values)
        self.error = np.full(n, np.inf)
        self.winner: list[tuple[int, ...]] = [()] * n
        self.coefficients: list[FloatArray] = [np.zeros(1)] * n

    def models(self, name: str) -> list[Model]:
        weights = relative_weights(self.series.values)
        values = np.nan_to_num(self.series.values)
        self._try_all(values, weights)
        return [self._model(i, name) for i in range(len(values))]

    def _try_all(self, values: FloatArray, weights: FloatArray) -> None:
        measured = (weights > 0).sum(axis=1)
        signs = np.where((values < 0).any(axis=1) & (values <= 0).all(axis=1), -1.0, 1.0)
        groups: dict[int, list[tuple[int, ...]]] = {}
        for hypothesis in self.space.hypotheses:
            if self.usable.issuperset(hypothesis):
                with_constant = (-1, *hypothesis)
                groups.setdefault(len(with_constant), []).append(with_constant)
                if hypothesis:
                    groups.setdefault(len(hypothesis), []).append(hypothesis)
        for size, members in sorted(groups.items()):
            chosen = np.array(members) + 1
            enough = np.flatnonzero(measured >= (size + 2 if size > 1 else 1))
            step = max(1, CELLS // max(1, len(chosen) * size * values.shape[1]))
            for start in range(0, len(enough), step):
                rows = enough[start : start + step]
                self._try(
                    chosen, rows, (signs[rows, None] * values[rows], weights[rows]), signs[rows]
                )

    def _try(
        self,
        chosen: np.ndarray,
        rows: np.ndarray,
        data: tuple[FloatArray, FloatArray],
        signs: FloatArray,
    ) -> None:
        fits = fit_columns(self.design, chosen, *data)
        constant = chosen.shape[1] == 1 and chosen[0, 0] == 0
        score = np.where(fits.feasible, fits.left_out, np.inf)
        if chosen.shape[1] == 1:
            is_constant = chosen[:, 0] == 0
            single = (data[1] > 0).sum(axis=1) < 3
            score[:, is_constant] = fits.left_out[:, is_constant] / NON_CONSTANCY**2
            score[np.ix_(single, ~is_constant)] = np.inf
        best = score.argmin(axis=1)
        for i, row in enumerate(rows):
            if score[i, best[i]] < self.error[row] or (
                constant and not np.isfinite(self.error[row])
            ):
                self.error[row] = score[i, best[i]]
                columns = chosen[best[i]]
                self.winner[row] = tuple(int(c) - 1 for c in columns)
                self.coefficients[row] = signs[i] * fits.coefficients[i, best[i]]

    def _model(self, row: int, name: str) -> Model:
        values = self.series.values[row]
        measured = ~np.isnan(values)
        points, values = self.series.coordinates[measured], values[measured]
        chosen = self.winner[row] or (-1,)
        constant = 0.0 if len(values) else float("nan")
        terms = []
        for column, coefficient in zip(chosen, self.coefficients[row], strict=True):
            if column < 0:
                constant = float(coefficient) if len(values) else constant
            else:
                size = float(coefficient / self.scale[column])
                terms.append(Term(size, self.space.terms[column]))
        function = Function(self.space.parameters, constant, tuple(terms))
        return Model(
            parameters=self.space.parameters,
            segments=(Segment(-np.inf, np.inf, function),),
            quality=quality(values, function(points), coefficients=len(chosen)),
            modeler=name,
            coordinates=points,
            values=values,
            spreads=spread_of(function, points, values, constant=chosen[0] < 0),
            findings=report_few_points(len(values)),
        )


def report_few_points(count: int) -> tuple[Finding, ...]:
    """What a person should know about a model made from fewer points than growth can be told
    from.
    """
    if count >= Search.min_points:
        return ()
    text = (
        f"{count} points: too few to tell growth from noise; measure at least {Search.min_points}"
    )
    return (Finding(TOO_FEW, text),)
