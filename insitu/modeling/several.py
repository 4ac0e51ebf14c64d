"""Models over several parameters from the evidence of combinations."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from insitu.entities import CallPath
from insitu.measurement import FloatArray, Points
from insitu.modeling import noise
from insitu.modeling.answer import AHEAD, CLOSE, KEPT, Answer, Posterior, weigh
from insitu.modeling.multi import Table, Weighed
from insitu.modeling.noise import BoolArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.series import Series
from insitu.modeling.spread import Spread

Dependencies = Mapping[CallPath, Sequence[Sequence[str]]]  # parameters that may be multiplied


def several(points: Points, series: Series, dependencies: Dependencies) -> list[Answer]:
    """One answer per series over two to four parameters.

    Args:
        dependencies: for a call path, the sets of parameters that may occur in one term, as in
            {path: [["p"], ["n"]]} for no interaction; call paths not named may have any.
    """
    names = points.parameters
    nothing = Answer(Function(names, np.nan), None, np.nan, 1)
    if not (series.counts > 0).any():
        return [nothing] * len(series.values)
    table = Table(series, names)
    counted = noise.counted(series.values)
    answers: list[tuple[int, Answer]] = []
    for whole in (False, True):
        members = np.flatnonzero((counted == whole) & (series.counts > 0).any(axis=1))
        levels = noise.COUNTED if whole else noise.LEVELS
        weighed = [
            table.weigh(int(row), levels, _allowed(points, int(row), dependencies))
            for row in members
        ]
        scatter = noise.likelihood_of_repetitions(
            series.deviations[members], series.counts[members], levels
        )
        likelihood = [np.logaddexp.reduce(one.log_evidence, axis=0) for one in weighed]
        law = noise.prior(levels)
        if weighed:
            law = noise.law(np.array(likelihood) + scatter, law, weight=noise.PRIOR_WEIGHT)
        answers += [
            (int(row), _answer(table, int(row), one, np.exp(extra) * law, levels))
            for row, one, extra in zip(members, weighed, scatter, strict=True)
        ]
    known = dict(answers)
    return [known.get(row, nothing) for row in range(len(series.values))]


def _allowed(points: Points, row: int, dependencies: Dependencies) -> list[BoolArray]:
    groups = dependencies.get(points.keys[row].callpath) if points.keys else None
    if groups is None:
        return [np.ones(len(points.parameters), dtype=bool)]
    return [np.array([name in group for name in points.parameters]) for group in groups]


def _answer(
    table: Table, row: int, weighed: Weighed, law: FloatArray, levels: FloatArray
) -> Answer:
    posterior = weigh(weighed.log_evidence[None], law[None], levels)
    weights, sigma = posterior.hypotheses[0], float(posterior.sigma[0])
    target = AHEAD * table.series.coordinates.max(axis=0)
    functions = [_function(table, row, weighed, i) for i in range(len(weights))]
    predicted = np.array([function(target[None])[0] for function in functions])
    deviation = np.array([_deviation(table, row, weighed, i, target) for i in range(len(weights))])
    deviation = np.maximum(deviation * sigma, 1e-9 * np.abs(predicted) + 1e-300)
    order = np.argsort(-weights, kind="stable")
    best, chosen, agreement = -1.0, int(order[0]), 0.0
    for i in order[:KEPT].tolist():
        agree = float(
            sum(w for w, t in zip(weights, weighed.terms, strict=True) if t == weighed.terms[i])
        )
        distance = (predicted[i] - predicted) / deviation
        width = CLOSE * abs(predicted[i]) / deviation
        near = float(weights @ (special.ndtr(distance + width) - special.ndtr(distance - width)))
        if agree + near > best:
            best, chosen, agreement = agree + near, i, agree
    spread = _spread(table, row, weighed, order[: 2 * KEPT].tolist(), posterior)
    return Answer(functions[chosen], spread, agreement, len(weighed.estimates[chosen]))


def _scales(table: Table, row: int, weighed: Weighed, i: int) -> FloatArray:
    """What turns coefficients of scaled columns into those of the data, constant first."""
    sizes = [1.0] * weighed.constants[i]
    sizes += [
        float(np.prod([1 / table.sizes[parameter][term] for parameter, term in factors]))
        for factors in weighed.terms[i]
    ]
    return np.asarray(np.array(sizes) * table.scale[row])


def _function(table: Table, row: int, weighed: Weighed, i: int) -> Function:
    values = (weighed.estimates[i] * _scales(table, row, weighed, i)).tolist()
    constant = values.pop(0) if weighed.constants[i] else 0.0
    terms = []
    for coefficient, factors in zip(values, weighed.terms[i], strict=True):
        shape = tuple(table.lattices[p].shapes[term][0] for p, term in factors)
        if coefficient != 0:
            terms.append(Term(coefficient, shape))
    return Function(table.parameters, constant, tuple(terms))


def _deviation(table: Table, row: int, weighed: Weighed, i: int, at: FloatArray) -> float:
    """Standard deviation of a prediction at noise 1."""
    values = [1.0] * weighed.constants[i]
    for factors in weighed.terms[i]:
        shape = tuple(table.lattices[p].shapes[term][0] for p, term in factors)
        values.append(float(Function(table.parameters, 0.0, (Term(1.0, shape),))(at[None])[0]))
    direction = np.array(values) * _scales(table, row, weighed, i)
    return float(np.sqrt(max(float(direction @ weighed.inverses[i] @ direction), 0.0)))


def _spread(
    table: Table,
    row: int,
    weighed: Weighed,
    order: Sequence[int],
    posterior: Posterior,
) -> Spread:
    sigma, degrees = float(posterior.sigma[0]), float(posterior.degrees[0])
    most = max(len(weighed.terms[i]) for i in order)
    count, parameters = len(order), len(table.parameters)
    exponents = np.zeros((count, most, parameters, 3))
    coefficients = np.zeros((count, 1 + most))
    covariances = np.zeros((count, 1 + most, 1 + most))
    for k, i in enumerate(order):
        scales = _scales(table, row, weighed, i)
        first = 0 if weighed.constants[i] else 1
        places = np.arange(first, first + len(scales))
        coefficients[k, places] = weighed.estimates[i] * scales
        covariance = weighed.inverses[i] * np.outer(scales, scales) * sigma**2
        covariances[k, places[:, None], places] = covariance
        for j, factors in enumerate(weighed.terms[i]):
            for parameter, term in factors:
                exponents[k, j, parameter] = table.lattices[parameter].exponents[term]
    kept = posterior.hypotheses[0, order]
    return Spread(exponents, coefficients, covariances, kept / kept.sum(), sigma, degrees)
