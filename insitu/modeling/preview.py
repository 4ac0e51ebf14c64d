"""Models updated by one new point without a refit, which live views show until the refit is done.

A model keeps its terms. Its coefficients take a step of recursive least squares with relative
errors, which gives what weighted least squares over all points would give: each new point is a
matrix of rank one in the normal equations. A preview of 80,000 models takes a tenth of a second.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from insitu.entities import Finding, RunKey
from insitu.modeling.base import ALL, Model, ModelSet, Segment
from insitu.modeling.measurement import FloatArray, RunTable
from insitu.modeling.pmnf import Function, Term, powers
from insitu.modeling.spread import Spread

PREVIEW = "preview"
MIN_SIZE = 1e-3  # errors are relative to at least this share of the largest value
TINY = 1e-300  # in place of zero in a divisor
MIN_DETERMINANT = 1e-10  # of scaled normal equations; below, the coefficients are not determined


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """Models of one parameter, prepared for new points.

    models: s of them. exponents: (s, k, 3), alpha, beta and gamma of each term of the last segment.
    coefficients: (s, 1 + k), the constant first, zero where a model has fewer terms. inverse: (s,
    1 + k, 1 + k), of the normal equations, zero for what is not updated. largest: (s,), the largest
    value so far. changed: (s,), which models a new point has changed. newest: value of the
    parameter at the newest point.
    """

    models: Sequence[Model]
    exponents: FloatArray
    coefficients: FloatArray
    inverse: FloatArray
    largest: FloatArray
    changed: NDArray[np.bool_]
    newest: float = float("nan")

    def with_point(self, x: float, values: FloatArray) -> "Preview":
        """Return all models with one more point each.

        A model keeps its coefficients if its value is NaN or infinite, if one of them would become
        negative that was not, and if its points do not determine them.

        Args:
            x: the new value of the parameter. values: (s,), one per model.
        """
        is_known = np.isfinite(values)
        y = np.where(is_known, values, 0.0)
        largest = np.maximum(self.largest, np.abs(y))
        size = np.maximum(np.abs(y), MIN_SIZE * largest)

        # The step of recursive least squares.
        row = self._columns_at(x)
        direction = np.einsum("sij,sj->si", self.inverse, row)
        gain = direction / (size**2 + np.einsum("si,si->s", row, direction))[:, None]
        error = y - np.einsum("si,si->s", row, self.coefficients)
        coefficients = self.coefficients + gain * error[:, None]

        becomes_negative = ((coefficients < 0) & (self.coefficients >= 0)).any(axis=1)
        is_determined = (direction != 0).any(axis=1) & np.isfinite(coefficients).all(axis=1)
        is_updated = is_known & is_determined & ~becomes_negative
        step = gain[:, :, None] * direction[:, None, :]
        return replace(
            self,
            coefficients=np.where(is_updated[:, None], coefficients, self.coefficients),
            inverse=self.inverse - np.where(is_updated[:, None, None], step, 0.0),
            largest=np.where(is_known, largest, self.largest),
            changed=self.changed | is_updated,
            newest=x,
        )

    def predict(self, x: float) -> FloatArray:
        """Return the value of each model at a value of the parameter beyond the last change: (s,).

        Args:
            x: the value of the parameter.
        """
        return np.asarray(np.einsum("si,si->s", self._columns_at(x), self.coefficients))

    def model(self, i: int) -> Model:
        """Return model `i` as updated, with the finding `preview`, or as it was."""
        model = self.models[i]
        if not self.changed[i]:
            return model

        last = model.segments[-1]
        constant, *rest = self.coefficients[i].tolist()
        pairs = zip(rest, last.function.terms, strict=False)  # coefficients are padded with zeros
        terms = tuple([Term(coefficient, term.factors) for coefficient, term in pairs])
        function = Function(model.parameters, constant, terms)
        text = "coefficients include the newest point; the terms are those of the last refit"
        return replace(
            model,
            segments=(*model.segments[:-1], Segment(last.lower, last.upper, function)),
            spreads=self._scaled_spreads(model, function),
            findings=(*model.findings, Finding(PREVIEW, text)),
        )

    def _scaled_spreads(self, model: Model, function: Function) -> tuple[Spread, ...]:
        """The spreads of a model, that of the last segment as much higher as the new function.

        The other functions that compete are not updated: they move with the one that is.
        """
        before, after = model.function([[self.newest]])[0], function([[self.newest]])[0]
        is_comparable = before > 0 and after > 0
        if not model.spreads or not is_comparable:
            return model.spreads
        return (*model.spreads[:-1], model.spreads[-1].multiply(after / before))

    def _columns_at(self, x: float) -> FloatArray:
        """The value of the constant and of each term: (s, 1 + k)."""
        ones = np.ones((len(self.exponents), 1))
        return np.concatenate([ones, powers(np.array(x), self.exponents)], axis=1)


def prepare(models: Sequence[Model]) -> Preview:
    """Prepare models for new points; models of several parameters will not be updated."""
    n_terms = max((len(model.function.terms) for model in models), default=0)
    exponents = np.zeros((len(models), n_terms, 3))
    coefficients = np.zeros((len(models), 1 + n_terms))
    is_fitted = np.zeros((len(models), 1 + n_terms), dtype=bool)

    rows_of: dict[int, list[int]] = defaultdict(list)  # by number of points in the last segment
    for i, model in enumerate(models):
        function = model.function
        if len(model.parameters) != 1 or not np.isfinite(function.constant):
            continue
        coefficients[i, 0] = function.constant
        is_fitted[i, 0] = function.constant != 0 or not function.terms
        for k, term in enumerate(function.terms):
            coefficients[i, 1 + k] = term.coefficient
            exponents[i, k] = [float(value) for value in term.factors[0][1:]]
            is_fitted[i, 1 + k] = True
        n_points = int((model.coordinates[:, 0] >= model.segments[-1].lower).sum())
        rows_of[n_points].append(i)

    inverse = np.zeros((len(models), 1 + n_terms, 1 + n_terms))
    largest = np.zeros(len(models))
    for n_points, rows in rows_of.items():
        x = np.array([models[i].coordinates[-n_points:, 0] for i in rows])
        y = np.array([models[i].values[-n_points:] for i in rows])
        largest[rows] = [np.abs(models[i].values).max(initial=0.0) for i in rows]
        inverse[rows] = _inverse_normal_equations(
            exponents[rows], x, y, is_fitted=is_fitted[rows], largest=largest[rows]
        )

    return Preview(
        models=tuple(models),
        exponents=exponents,
        coefficients=coefficients,
        inverse=inverse,
        largest=largest,
        changed=np.zeros(len(models), dtype=bool),
    )


def preview_models(models: ModelSet, run: RunKey, table: RunTable) -> ModelSet:
    """Return the models of a campaign as a new run changes them, before they are fitted again.

    Models of series that all ranks share follow the mean over the ranks of the run. They carry the
    finding `preview`, and so does the whole. Models of other behaviour classes and of several
    parameters stay as they are.
    """
    coordinate = run.coordinate(models.parameters)
    if len(coordinate) != 1 or not np.isfinite(coordinate[0]):
        return models

    row_of = {path: row for row, path in enumerate(table.callpaths)}
    means = {name: _mean_over_ranks(values) for name, values in table.values.items()}
    values = np.full(len(models.models), np.nan)
    for i, series in enumerate(models.models):
        key = series.key
        if key.behaviour == ALL and key.metric in means and key.callpath in row_of:
            values[i] = means[key.metric][row_of[key.callpath]]

    preview = prepare([series.model for series in models.models])
    preview = preview.with_point(coordinate[0], values)
    if not preview.changed.any():
        return models

    updated = []
    for i, series in enumerate(models.models):
        updated.append(replace(series, model=preview.model(i)))
    text = f"coefficients of the models include run {run}; the terms are those of the last refit"
    return replace(models, models=updated, findings=(*models.findings, Finding(PREVIEW, text)))


def _mean_over_ranks(values: FloatArray) -> FloatArray:
    """The mean over the ranks that have a value: (n_paths, n_ranks) to (n_paths,); NaN if none."""
    is_known = np.isfinite(values)
    total = np.where(is_known, values, 0.0).sum(axis=1)
    count = is_known.sum(axis=1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _inverse_normal_equations(
    exponents: FloatArray,
    x: FloatArray,
    y: FloatArray,
    *,
    is_fitted: NDArray[np.bool_],
    largest: FloatArray,
) -> FloatArray:
    """The inverse for the columns that were fitted, zero for the others: (s, 1 + k, 1 + k).

    Zero for all columns of a model whose points do not determine its coefficients.

    Args:
        exponents: (s, k, 3). x, y: (s, n). is_fitted: (s, 1 + k). largest: (s,).
    """
    # Columns with relative errors, scaled to length 1.
    size = np.maximum(np.abs(y), MIN_SIZE * np.maximum(largest, TINY)[:, None])
    terms = powers(x[:, None, :], exponents[:, :, None, :])
    columns = np.concatenate([np.ones((len(x), 1, x.shape[1])), terms], axis=1)
    columns = np.where(is_fitted[:, :, None], columns / size[:, None, :], 0.0)
    length = np.sqrt((columns**2).sum(axis=2))
    is_usable = np.isfinite(length).all(axis=1) & ((length > 0) | ~is_fitted).all(axis=1)
    is_usable &= largest > 0
    length = np.where(is_fitted & is_usable[:, None], length, 1.0)
    columns = np.where(is_usable[:, None, None], columns / length[:, :, None], 0.0)

    # Ones on the diagonal for what was not fitted keep the matrices regular.
    normal = columns @ columns.swapaxes(1, 2)
    diagonal = np.arange(is_fitted.shape[1])
    normal[:, diagonal, diagonal] += ~(is_fitted & is_usable[:, None])
    is_usable &= np.linalg.det(normal) > MIN_DETERMINANT
    normal[~is_usable] = np.eye(len(diagonal))

    unscale = (is_fitted & is_usable[:, None]) / length
    return np.asarray(np.linalg.inv(normal) * unscale[:, :, None] * unscale[:, None, :])
