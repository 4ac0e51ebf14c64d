"""Back-test over several parameters: what models of the smaller runs say about the largest.

Series over a grid are fitted once more without the largest value of each parameter, and predict
the run in which all parameters are largest. How far these models missed, and how far a plane in log
space did, decides what share the plane gets in a prediction, whatever its evidence, and how much
wider intervals are than noise and coefficients make them. Real programs often do not go on to grow
as a function that fits exactly, so with three or four values of a parameter, which hardly tell
functions apart, the plane has a large share from the start: compare `back_test.py`.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from insitu.modeling.evidence import noise
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.back_test import EXACT, learn_drift, weigh_laws
from insitu.modeling.evidence.combination_fits import MultiParameterBatch
from insitu.modeling.evidence.held_out import MAX_ERROR, MIN_POINTS, HeldOut
from insitu.modeling.evidence.newest import mix
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.plane import Planes, weigh_planes, with_plane
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.predictions import predict_by_functions
from insitu.modeling.spread import Spread

MIN_VALUES = 3  # of each parameter, in what is fitted
# Functions and plane before the test, by the fewest values of a parameter: as `back_test.PRIOR`.
PRIOR = (0.5, 0.5)
PRIOR_OF_FEW = {3: (0.3, 0.7), 4: (0.4, 0.6)}
# A largest run that the smaller runs miss by so much may be a step, a disturbed run or a new law.
MIN_MISSED_DEVIATIONS, MIN_MISSED = 4.0, np.log(1.2)  # of the logarithm
SHARE_OF_CHANGE = 0.2  # of a step and of a disturbed run together: so that intervals hold both
N_OF_SMALLER = 8  # functions of the smaller grid that make up each
MEDIAN_SHARE = 0.5  # of the plane, from which predictions are the median and not the best function


def fewest_values(coordinates: FloatArray) -> int:
    """Return how many values the parameter with the fewest has, of those that vary."""
    counts = [len(np.unique(column)) for column in coordinates.T]
    return min([count for count in counts if count > 1], default=0)


def find_corner(coordinates: FloatArray) -> int | None:
    """Return the index of the run in which all parameters are largest, None without it."""
    is_largest = coordinates == coordinates.max(axis=0)
    corner = np.flatnonzero(is_largest.all(axis=1))
    return int(corner[0]) if len(corner) == 1 else None


def find_smaller(coordinates: FloatArray) -> IntArray | None:
    """Return the points of the grid without the largest value of each parameter: (k,).

    None where too little is left.
    """
    varies = np.ptp(coordinates, axis=0) > 0
    is_largest = coordinates == coordinates.max(axis=0)
    smaller = np.flatnonzero(~is_largest[:, varies].any(axis=1))
    values = [len(np.unique(column)) for column in coordinates[smaller][:, varies].T]
    return smaller if min(values, default=0) >= MIN_VALUES else None


def apply_smaller_grid(
    batch: MultiParameterBatch,
    answers: list[Answer],
    levels: FloatArray,
    solve: Callable[[MultiParameterBatch, IntArray], list[Answer]],
) -> list[Answer]:
    """Return the answers of measured values with planes and wider intervals.

    Only series whose values are all positive are fitted once more: no other can be tested.

    Args:
        batch: s series of one pool. answers: of these. levels: (L,), of noise. solve: returns the
            answers of some of the series, by index (k,), from their batch on other points.
    """
    coordinates = batch.series.coordinates
    n_values, corner = max(fewest_values(coordinates), MIN_VALUES), find_corner(coordinates)
    smaller = find_smaller(coordinates)
    is_tested = smaller is not None
    if np.any(coordinates <= 0) or corner is None or not (is_tested or n_values == MIN_VALUES):
        return answers

    is_good = np.asarray(((batch.relative > 0) & (batch.repetitions > 0)).all(axis=1))
    is_good &= np.array([answer.spreads[0] is not None for answer in answers])
    held_out, of_smaller = _nothing_held_out(len(answers), is_good), dict[int, Answer]()
    if smaller is not None:
        tested = np.flatnonzero(is_good)
        if len(tested):
            points = batch.series.select(tested).at_points(smaller)
            solved = solve(MultiParameterBatch(points), tested)
            of_smaller = dict(zip(tested.tolist(), solved, strict=True))
        held_out = _hold_out(batch, of_smaller, smaller, corner=corner, is_good=is_good)

    sizes = noise.magnitudes(batch.series.values)
    weights = weigh_laws(
        held_out,
        held_out.is_usable,
        sizes,
        n_points=n_values,
        prior=PRIOR_OF_FEW.get(n_values, PRIOR),
    )
    weights[~held_out.is_usable] = 0.0
    drift = learn_drift(
        held_out,
        weights,
        held_out.is_usable,
        sizes,
        steepness=np.ones(len(answers)),
        n_points=max(n_values, MIN_POINTS) if is_tested else n_values,
        are_counts=False,
    )

    missed, is_missed = _find_missed(held_out)
    planes = weigh_planes(coordinates, batch.relative, batch.repetitions, levels)
    result = []
    for i, answer in enumerate(answers):
        spread, share = answer.spreads[0], float(weights[i, 0])
        if spread is None or spread.sigma <= EXACT:
            result.append(answer)
            continue
        if share > 0:
            spread = _add_plane(spread, planes, i, scale=float(batch.scale[i]), share=share)
        factor = float(np.exp(missed[i])) if is_missed[i] else np.nan
        if is_missed[i]:
            spread = _add_change(spread, of_smaller[i].spreads[0], factor)
            share = 1 - (1 - share) * (1 - SHARE_OF_CHANGE)
        spread = spread.with_back_test(float(drift[i]), None)
        result.append(
            answer._replace(
                spreads=(spread,),
                probability=(1 - share) * answer.probability,
                newest_factor=factor,
            )
        )
    return result


def _find_missed(held_out: HeldOut) -> tuple[FloatArray, BoolArray]:
    """By what logarithm models miss the largest run (s,), and where it is a change of behaviour."""
    n_series, n_tests = held_out.deviations.shape
    if n_tests == 0:
        return np.zeros(n_series), np.zeros(n_series, dtype=bool)
    missed = held_out.log_ratios[:, 0, 0]
    limit = np.maximum(MIN_MISSED_DEVIATIONS * held_out.deviations[:, 0], MIN_MISSED)
    return missed, np.asarray((np.abs(missed) > limit) & held_out.is_usable)


def _add_change(spread: Spread, of_smaller: Spread | None, factor: float) -> Spread:
    """A spread beside the law of the smaller grid, with a step to the largest run and without."""
    if of_smaller is None:
        return spread
    best = np.argsort(-of_smaller.weights, kind="stable")[:N_OF_SMALLER]
    law = replace(
        of_smaller,
        exponents=of_smaller.exponents[best],
        coefficients=of_smaller.coefficients[best],
        covariances=of_smaller.covariances[best],
        weights=of_smaller.weights[best] / of_smaller.weights[best].sum(),
    )
    mixed = mix(spread, mix(law, law.multiply(factor), 0.5), SHARE_OF_CHANGE)
    return replace(mixed, is_led=spread.is_led)


def _nothing_held_out(n_series: int, is_usable: BoolArray) -> HeldOut:
    """What no test says: the priors decide."""
    return HeldOut(
        rows=np.arange(n_series),
        is_usable=is_usable,
        log_ratios=np.zeros((n_series, 0, 2)),
        deviations=np.zeros((n_series, 0)),
        shares=np.zeros(0),
        doublings=np.zeros(0),
        points=np.zeros(0, dtype=np.intp),
    )


def _hold_out(
    batch: MultiParameterBatch,
    of_smaller: dict[int, Answer],
    smaller: IntArray,
    *,
    corner: int,
    is_good: BoolArray,
) -> HeldOut:
    """What models and planes of the smaller grid predict for the largest run.

    Args:
        of_smaller: answers on the points of the smaller grid (k,), by series. corner: index of the
            largest run. is_good: (s,), whether all values are positive.
    """
    coordinates = batch.series.coordinates
    at, relative = coordinates[corner], np.where(is_good[:, None], batch.relative, 1.0)
    measured = np.log(relative[:, corner])

    logs, deviations = np.zeros((len(measured), 2)), np.zeros(len(measured))
    logs[:, 1] = _predict_by_plane(np.log(relative[:, smaller]), coordinates[smaller], at)
    rows, spreads = [], []
    for i, answer in of_smaller.items():
        spread = answer.spreads[0]
        if spread is not None:
            rows.append(i)
            spreads.append(spread)
    medians, claimed = predict_by_functions(spreads, at)
    relative_medians = medians / batch.scale[rows]
    has_median = (relative_medians > 0) & (relative_medians < np.inf)  # NaN has not
    is_usable = np.zeros(len(measured), dtype=bool)
    is_usable[rows] = has_median
    logs[rows, 0] = np.log(np.where(has_median, relative_medians, 1.0))
    sizes = np.where(has_median, np.abs(medians), 1.0)
    deviations[rows] = np.fmin(np.where(has_median, claimed / sizes, MAX_ERROR), MAX_ERROR)

    steps = np.log2(at / coordinates[smaller].max(axis=0))
    return HeldOut(
        rows=np.arange(len(measured)),
        is_usable=is_usable,
        log_ratios=(measured[:, None] - logs)[:, None],
        deviations=deviations[:, None],
        shares=np.ones(1),
        doublings=np.array([np.sqrt((steps**2).sum())]),
        points=np.array([corner], dtype=np.intp),
    )


def _predict_by_plane(
    log_values: FloatArray, coordinates: FloatArray, at: FloatArray
) -> FloatArray:
    """The logarithm that least squares planes through points (s, k) predict at one: (s,)."""
    design = np.column_stack([np.ones(len(coordinates)), np.log(coordinates)])
    coefficients = np.linalg.lstsq(design, log_values.T, rcond=None)[0]
    return np.asarray(np.array([1.0, *np.log(at)]) @ coefficients)


def _add_plane(spread: Spread, planes: Planes, i: int, *, scale: float, share: float) -> Spread:
    """The spread of series i with its plane, whose misfit counts as noise of its coefficients."""
    logs = planes.log_evidence[i]
    of_levels = np.exp(logs - np.logaddexp.reduce(logs))
    mixed = with_plane(
        spread,
        of_levels @ planes.coefficients[i],
        np.einsum("l,lab->ab", of_levels, planes.covariances[i]),
        scale=scale,
        share=share,
    )
    return replace(mixed, is_led=mixed.is_led and share < MEDIAN_SHARE)
