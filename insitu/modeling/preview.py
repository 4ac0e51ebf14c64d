"""Models updated by one new point without a refit: what a live view shows until the refit is done.

The terms of a model are kept and its coefficients take a step of recursive least squares with
relative errors, which is what weighted least squares over all points would give: each new point is
a matrix of rank one in the normal equations. A preview of 80,000 models takes a tenth of a second.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from insitu.entities import Finding, RunKey
from insitu.modeling.base import Model, ModelSet, Segment
from insitu.modeling.classes.match import ALL
from insitu.modeling.measurement import FloatArray, RunTable
from insitu.modeling.pmnf import Function, Term, powers

PREVIEW = "preview"
SMALLEST = 1e-3  # part of the largest value that errors are relative to at least
TINY = 1e-300  # in place of zero, where something is divided by it
SINGULAR = 1e-10  # determinant of scaled normal equations below which coefficients are not known


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """Models of one parameter, made ready for new points.

    models: s of them. exponents: (s, k, 3), alpha, beta and gamma of each term of the last segment;
    coefficients: (s, 1 + k), the constant first, zero where a model has fewer terms; inverse: (s,
    1 + k, 1 + k), of the normal equations, zero for what is not updated. largest: (s,) value seen.
    changed: (s,), which models a new point has changed.
    """

    models: Sequence[Model]
    exponents: FloatArray
    coefficients: FloatArray
    inverse: FloatArray
    largest: FloatArray
    changed: NDArray[np.bool_]

    def with_point(self, x: float, values: FloatArray) -> "Preview":
        """All models with one more point each.

        A model keeps its coefficients where its value is NaN or infinite, where one of them would
        become negative that was not, and where its points do not determine them.

        Args:
            x: the new value of the parameter. values: (s,), one per model.
        """
        known = np.isfinite(values)
        y = np.where(known, values, 0.0)
        largest = np.maximum(self.largest, np.abs(y))
        size = np.maximum(np.abs(y), SMALLEST * largest)
        row = self._rows(x)
        along = np.einsum("sij,sj->si", self.inverse, row)
        gain = along / (size**2 + np.einsum("si,si->s", row, along))[:, None]
        off = y - np.einsum("si,si->s", row, self.coefficients)
        coefficients = self.coefficients + gain * off[:, None]
        crosses = ((coefficients < 0) & (self.coefficients >= 0)).any(axis=1)
        taken = known & (along != 0).any(axis=1) & ~crosses & np.isfinite(coefficients).all(axis=1)
        step = np.where(taken[:, None, None], gain[:, :, None] * along[:, None, :], 0.0)
        return Preview(
            self.models,
            self.exponents,
            np.where(taken[:, None], coefficients, self.coefficients),
            self.inverse - step,
            np.where(known, largest, self.largest),
            self.changed | taken,
        )

    def predict(self, x: float) -> FloatArray:
        """The value of each model at one value of the parameter beyond the last change: (s,)."""
        return np.asarray(np.einsum("si,si->s", self._rows(x), self.coefficients))

    def model(self, i: int) -> Model:
        """One of the models as updated, with the finding `preview`; as it was, if it is."""
        model = self.models[i]
        if not self.changed[i]:
            return model
        last = model.segments[-1]
        constant, *rest = self.coefficients[i].tolist()
        terms = tuple(
            Term(coefficient, term.factors)
            for coefficient, term in zip(rest, last.function.terms, strict=False)
        )
        function = Function(model.parameters, constant, terms)
        text = "coefficients follow the newest point, terms wait for the refit"
        return replace(
            model,
            segments=(*model.segments[:-1], Segment(last.lower, last.upper, function)),
            findings=(*model.findings, Finding(PREVIEW, text)),
        )

    def _rows(self, x: float) -> FloatArray:
        """The value of the constant and of each term: (s, 1 + k)."""
        return np.concatenate(
            [np.ones((len(self.exponents), 1)), powers(np.array(x), self.exponents)], axis=1
        )


def prepare(models: Sequence[Model]) -> Preview:
    """Make models ready for new points; those of several parameters are left as they are."""
    width = max((len(one.function.terms) for one in models), default=0)
    exponents = np.zeros((len(models), width, 3))
    coefficients = np.zeros((len(models), 1 + width))
    active = np.zeros((len(models), 1 + width), dtype=bool)
    groups: dict[int, list[int]] = defaultdict(list)
    for i, model in enumerate(models):
        function = model.function
        if len(model.parameters) != 1 or not np.isfinite(function.constant):
            continue
        coefficients[i, 0] = function.constant
        active[i, 0] = function.constant != 0 or not function.terms
        for place, term in enumerate(function.terms):
            coefficients[i, 1 + place] = term.coefficient
            exponents[i, place] = [float(value) for value in term.factors[0][1:]]
            active[i, 1 + place] = True
        groups[int((model.coordinates[:, 0] >= model.segments[-1].lower).sum())].append(i)
    inverse = np.zeros((len(models), 1 + width, 1 + width))
    largest = np.zeros(len(models))
    for count, rows in groups.items():
        x = np.array([models[i].coordinates[-count:, 0] for i in rows])
        y = np.array([models[i].values[-count:] for i in rows])
        largest[rows] = [np.abs(models[i].values).max(initial=0.0) for i in rows]
        inverse[rows] = _inverse(exponents[rows], x, y, active[rows], largest[rows])
    changed = np.zeros(len(models), dtype=bool)
    return Preview(tuple(models), exponents, coefficients, inverse, largest, changed)


def previewed(models: ModelSet, run: RunKey, table: RunTable) -> ModelSet:
    """What the models of a campaign say once a run has arrived, before they are made anew.

    Models of series that all ranks share follow the mean over the ranks of the run and carry the
    finding `preview`, and so does the whole; those of other behaviour classes, and of several
    parameters, stay.
    """
    coordinate = run.coordinate(models.parameters)
    if len(coordinate) != 1 or not np.isfinite(coordinate[0]):
        return models
    rows = {path: row for row, path in enumerate(table.callpaths)}
    means = {name: _means(values) for name, values in table.values.items()}
    values = np.full(len(models.models), np.nan)
    for i, one in enumerate(models.models):
        key = one.key
        if key.behaviour == ALL and key.metric in means and key.callpath in rows:
            values[i] = means[key.metric][rows[key.callpath]]
    following = prepare([one.model for one in models.models]).with_point(coordinate[0], values)
    made = [replace(one, model=following.model(i)) for i, one in enumerate(models.models)]
    if not following.changed.any():
        return models
    text = f"models follow run {run} with their coefficients; their terms wait for the refit"
    return replace(models, models=made, findings=(*models.findings, Finding(PREVIEW, text)))


def _means(values: FloatArray) -> FloatArray:
    """The mean over the ranks that have a value, NaN where none has: (rows,)."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=1)
    count = known.sum(axis=1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _inverse(
    exponents: FloatArray,
    x: FloatArray,
    y: FloatArray,
    active: NDArray[np.bool_],
    largest: FloatArray,
) -> FloatArray:
    """Inverse of the normal equations of the columns that were fitted, zero for the others.

    Zero for all of them, where the points do not tell them apart.
    """
    size = np.maximum(np.abs(y), SMALLEST * np.maximum(largest, TINY)[:, None])
    terms = powers(x[:, None, :], exponents[:, :, None, :])
    rows = np.concatenate([np.ones((len(x), 1, x.shape[1])), terms], axis=1)
    rows = np.where(active[:, :, None], rows / size[:, None, :], 0.0)
    scale = np.sqrt((rows**2).sum(axis=2))
    usable = np.isfinite(scale).all(axis=1) & ((scale > 0) | ~active).all(axis=1) & (largest > 0)
    scale = np.where(active & usable[:, None], scale, 1.0)
    rows = np.where(usable[:, None, None], rows / scale[:, :, None], 0.0)
    normal = rows @ rows.swapaxes(1, 2)
    place = np.arange(active.shape[1])
    normal[:, place, place] += ~(active & usable[:, None])
    usable &= np.linalg.det(normal) > SINGULAR
    normal[~usable] = np.eye(len(place))
    taken = (active & usable[:, None]) / scale
    return np.asarray(np.linalg.inv(normal) * taken[:, :, None] * taken[:, None, :])
