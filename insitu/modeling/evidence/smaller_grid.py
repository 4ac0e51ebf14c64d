"""Back-test over several parameters: what models of the smaller runs say about the largest.

Series over a grid are fitted once more without the largest value of each parameter, and predict
the runs in which one parameter is largest, and all of them are. How far these models missed along
a parameter, and how far the trend of its newest values did, decides what weight the trend gets
there, and what both missed together how much wider intervals are than noise and coefficients make
them. Real programs often do not go on to grow as a function that fits exactly: compare
`back_test.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from insitu.modeling.evidence import noise
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.back_test import EXACT, learn_drift, weigh_laws
from insitu.modeling.evidence.best_combinations import Solution
from insitu.modeling.evidence.combination_fits import MultiParameterBatch
from insitu.modeling.evidence.held_out import MAX_ERROR, MIN_POINTS, HeldOut
from insitu.modeling.evidence.newest import mix
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.grid_trend import fit_trends, levels_at_starts, points_of, split_growth
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.predictions import predict_by_functions
from insitu.modeling.spread import Spread

MIN_VALUES = 3  # of each parameter, in what is fitted
# Functions and trend before the test: as in `back_test.py`, where two local laws share the half.
# Chosen on laws outside the hypothesis space (those of tests/evaluation/off_space_several.py, seeds
# 1 and 2), on which 0.3 to 0.5 predict about as well, and on RELeARN with opening angles of 0.1 to
# 0.3, of which 0.6 would predict more.
PRIOR = (0.5, 0.5)
# Functions whose drift is less are right, and the trend has no weight. On functions of the space
# (those of tests/evaluation/several.py, seed 2701) it is 0.008 to 0.035, where growth ends or
# begins inside the points (off_space_several.py, seed 2701) 0.035 to 0.22.
MIN_DRIFT_OF_TREND = 0.04
# A largest run that the smaller runs miss by so much may be a step, a disturbed run or a new law.
MIN_MISSED_DEVIATIONS, MIN_MISSED = 4.0, np.log(1.2)  # of the logarithm
SHARE_OF_CHANGE = 0.2  # of a step and of a disturbed run together: so that intervals hold both
DEVIATIONS_TO_MISSED = (
    1.3  # of the drift, so that 95 % intervals beside a trend hold both with room
)
N_OF_SMALLER = 8  # functions of the smaller grid that make up each
MEDIAN_WEIGHT = 0.5  # of the trend, from which predictions are the median and not the best function


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
    solved: Solution,
    solve: Callable[[MultiParameterBatch, IntArray], Solution],
) -> list[Answer]:
    """Return the answers of measured values with trends and wider intervals.

    Only series whose values are all positive are fitted once more: no other can be tested.

    Args:
        batch: s series of one pool. solved: these. solve: returns the same for some of the series,
            by index (k,), from their batch on other points.
    """
    answers = solved.answers
    coordinates = batch.series.coordinates
    n_values, corner = max(fewest_values(coordinates), MIN_VALUES), find_corner(coordinates)
    smaller = find_smaller(coordinates)
    is_tested = smaller is not None
    if np.any(coordinates <= 0) or corner is None or not (is_tested or n_values == MIN_VALUES):
        return answers

    is_good = np.asarray(((batch.relative > 0) & (batch.repetitions > 0)).all(axis=1))
    is_good &= np.array([answer.spreads[0] is not None for answer in answers])
    of_smaller: dict[int, Answer] = {}
    tests = _no_tests(len(answers), is_good, coordinates)
    if smaller is not None:
        of_smaller, means = _solve_smaller(batch, is_good, smaller, solve)
        tests = _test(batch, of_smaller, smaller, corner=corner, is_good=is_good, means=means)

    sizes = noise.magnitudes(batch.series.values)
    is_usable = tests.together.is_usable
    weights = np.zeros((len(answers), coordinates.shape[1]))
    for k, held_out in tests.along.items():
        of_law = weigh_laws(held_out, is_usable, sizes, n_points=MIN_POINTS, prior=PRIOR)
        weights[:, k] = np.where(is_usable, of_law[:, 0], 0.0)
    learn = partial(
        learn_drift,
        weights=np.zeros((len(answers), 0)),
        is_good=is_usable,
        sizes=sizes,
        steepness=np.ones(len(answers)),
        n_points=max(n_values, MIN_POINTS) if is_tested else n_values,
        are_counts=False,
    )
    if is_tested:
        weights[learn(tests.together) < MIN_DRIFT_OF_TREND] = 0.0
    drift = learn(tests.blend(weights))

    missed, is_missed = _find_missed(tests.together)
    drift = np.where(is_missed, np.maximum(drift, np.abs(missed) / DEVIATIONS_TO_MISSED), drift)
    logs = np.log(np.where(is_good[:, None], batch.relative, 1.0))
    trends = fit_trends(coordinates, logs)
    levels = levels_at_starts(coordinates, _log_residuals(logs, solved.means))
    result = []
    for i, answer in enumerate(answers):
        spread, share = answer.spreads[0], float(weights[i].max())
        if spread is None or spread.sigma <= EXACT:
            result.append(answer)
            continue
        is_led = spread.is_led and share < MEDIAN_WEIGHT
        factor = float(np.exp(missed[i])) if is_missed[i] else np.nan
        if is_missed[i]:
            spread = _add_change(spread, of_smaller[i].spreads[0], factor)
            share = 1 - (1 - share) * (1 - SHARE_OF_CHANGE)
        trend = trends.of(i, weights[i], levels[i]) if weights[i].any() else None
        spread = replace(spread, is_led=is_led).with_back_test(float(drift[i]), trend)
        result.append(
            answer._replace(
                spreads=(spread,),
                probability=(1 - share) * answer.probability,
                newest_factor=factor,
            )
        )
    return result


def _solve_smaller(
    batch: MultiParameterBatch,
    is_good: BoolArray,
    smaller: IntArray,
    solve: Callable[[MultiParameterBatch, IntArray], Solution],
) -> tuple[dict[int, Answer], FloatArray]:
    """Return answers on the smaller grid, by series, and the means of their functions.

    Args:
        is_good: (s,), series that are fitted once more. smaller: (k,), points.

    Returns:
        The means (s, n) are relative to the scale of the batch, NaN elsewhere.
    """
    means = np.full(batch.relative.shape, np.nan)
    tested = np.flatnonzero(is_good)
    if len(tested) == 0:
        return {}, means
    of_points = MultiParameterBatch(batch.series.select(tested).at_points(smaller))
    solution = solve(of_points, tested)
    scales = of_points.scale / batch.scale[tested]
    means[np.ix_(tested, smaller)] = solution.means * scales[:, None]
    return dict(zip(tested.tolist(), solution.answers, strict=True)), means


@dataclass(frozen=True, slots=True)
class _Tests:
    """What models and trends of the smaller grid predict for larger runs.

    along: by parameter, for the run in which it alone is largest. together: for that in which all
    are; functions only. added: (s, m), by how much more the trend adds there than the functions, as
    logarithms.
    """

    along: dict[int, HeldOut]
    together: HeldOut
    added: FloatArray

    def blend(self, weights: FloatArray) -> HeldOut:
        """Return how far averages with these weights (s, m) missed the run with all largest."""
        missed = self.together.log_ratios[:, :, 0]
        if missed.shape[1] == 0:
            return self.together
        missed = missed - (weights * self.added).sum(axis=1, keepdims=True)
        between = (weights * (1 - weights) * self.added**2).sum(axis=1, keepdims=True)
        share = 1 - weights.mean(axis=1, keepdims=True)
        deviations = np.sqrt((share * self.together.deviations) ** 2 + between)
        return replace(self.together, log_ratios=missed[:, :, None], deviations=deviations)


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


def _no_tests(n_series: int, is_usable: BoolArray, coordinates: FloatArray) -> _Tests:
    """What no test says: the priors decide along each parameter that varies."""
    nothing = HeldOut(
        rows=np.arange(n_series),
        is_usable=is_usable,
        log_ratios=np.zeros((n_series, 0, 2)),
        deviations=np.zeros((n_series, 0)),
        shares=np.zeros(0),
        doublings=np.zeros(0),
        points=np.zeros(0, dtype=np.intp),
    )
    varies = np.flatnonzero(np.ptp(coordinates, axis=0) > 0)
    along = dict.fromkeys(varies.tolist(), nothing)
    added = np.zeros((n_series, coordinates.shape[1]))
    return _Tests(along, replace(nothing, log_ratios=nothing.log_ratios[:, :, :1]), added)


def _test(
    batch: MultiParameterBatch,
    of_smaller: dict[int, Answer],
    smaller: IntArray,
    *,
    corner: int,
    is_good: BoolArray,
    means: FloatArray,
) -> _Tests:
    """Test models and trends of the smaller grid on larger runs.

    Args:
        of_smaller: answers on the points of the smaller grid (k,), by series. corner: index of the
            largest run. is_good: (s,), whether all values are positive. means: (s, n), of the
            functions on the smaller grid, relative to the scale of the batch.
    """
    coordinates = batch.series.coordinates
    log_values = np.log(np.where(is_good[:, None], batch.relative, 1.0))
    trends = fit_trends(coordinates[smaller], log_values[:, smaller])
    functions = _Functions(of_smaller, batch.scale)

    at, nearest = coordinates[corner], trends.starts
    of_corner, deviations = functions.predict(at)
    of_nearest, _ = functions.predict(nearest)
    residuals = _log_residuals(log_values[:, smaller], means[:, smaller])
    of_trends = levels_at_starts(coordinates[smaller], residuals) + trends.log_growth(at)
    added = of_trends - split_growth(
        of_corner, [functions.predict(point)[0] for point in points_of(at[None], nearest)[:, 0]]
    )
    is_usable = np.asarray(np.isfinite(added).all(axis=1))

    def compare(point: int, *logs: FloatArray) -> HeldOut:
        """Compare predictions of logarithms (s,) with the values at a point."""
        steps = np.log2(coordinates[point] / nearest)
        ratios = log_values[:, point, None] - np.stack(logs, axis=1)
        return HeldOut(
            rows=np.arange(len(log_values)),
            is_usable=is_usable,
            log_ratios=np.where(is_usable[:, None], ratios, 0.0)[:, None],
            deviations=np.where(is_usable, deviations, 0.0)[:, None],
            shares=np.ones(1),
            doublings=np.array([np.sqrt((steps**2).sum())]),
            points=np.array([point], dtype=np.intp),
        )

    along = {}
    for k in np.flatnonzero(np.ptp(coordinates, axis=0) > 0).tolist():
        edge = nearest.copy()
        edge[k] = at[k]
        measured = np.flatnonzero((coordinates == edge).all(axis=1))
        point = int(measured[0]) if len(measured) else corner
        of_trend = of_nearest + of_trends[:, k]
        if point == corner:
            of_trend, of_functions = of_corner + added[:, k], of_corner
        else:
            of_functions, _ = functions.predict(edge)
        along[k] = compare(point, of_functions, of_trend)
    return _Tests(along, compare(corner, of_corner), np.where(is_usable[:, None], added, 0.0))


def _log_residuals(log_values: FloatArray, means: FloatArray) -> FloatArray:
    """Logarithms of values over the means of their functions, 0 where these have none: (s, n)."""
    is_known = (means > 0) & (means < np.inf)  # NaN is not
    return np.where(is_known, log_values - np.log(np.where(is_known, means, 1.0)), 0.0)


class _Functions:
    """The functions of models of the smaller grid, by series."""

    def __init__(self, answers: dict[int, Answer], scale: FloatArray) -> None:
        """Take the answers of some of the series, whose values are relative to a scale (s,)."""
        spreads = {i: answer.spreads[0] for i, answer in answers.items()}
        self.spreads = {i: spread for i, spread in spreads.items() if spread is not None}
        self.scale = scale
        self.predicted: dict[bytes, tuple[FloatArray, FloatArray]] = {}

    def predict(self, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms of medians at a point, and their deviations: (s,), NaN for none."""
        key = point.tobytes()
        if key not in self.predicted:
            rows = list(self.spreads)
            medians, claimed = predict_by_functions(list(self.spreads.values()), point)
            ratios = medians / self.scale[rows]
            is_known = (ratios > 0) & (ratios < np.inf)  # NaN is not

            logs, deviations = np.full((2, len(self.scale)), np.nan)
            logs[rows] = np.log(np.where(is_known, ratios, np.nan))
            relative = claimed / np.where(is_known, np.abs(medians), np.nan)
            deviations[rows] = np.fmin(relative, MAX_ERROR)
            self.predicted[key] = logs, deviations
        return self.predicted[key]
