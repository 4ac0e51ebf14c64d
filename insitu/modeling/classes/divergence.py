"""Classes that grow apart: which ranks will be slow, how many, and what that costs all others."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from insitu.entities import RANKS, CallPath, Finding, number
from insitu.modeling.base import ALL, Clusters, Exponents, Model, SeriesModel
from insitu.modeling.classes.sizes import size_laws
from insitu.modeling.horizon import unclear_at
from insitu.modeling.measurement import FloatArray, SeriesKey

MIN_TARGET = 65_536.0  # ranks at which classes are compared, unless runs come near it
TARGET_TIMES_MEASURED = 16.0  # the least ratio of that to the largest run
LARGEST_RATIO = 1000.0  # that is printed
MIN_RATIO = 2.0  # of the slowest class to the fastest there
MIN_MEASURED_RATIO = 1.1  # the same at the largest run
MIN_IMBALANCE = 1.05  # of the slow ranks over the mean of all, that is worth a clause
MIN_GROWTH = 1.5  # of that ratio from the largest run on
# Probability that a value lies between the bounds with which a class that falls must still leave
# the slowest behind. Of 48 campaigns at four scales whose class falls to a constant, 32 were said
# to grow apart without end, and none is; of 48 that fall to nothing 44 are, as before.
BOUNDS_LEVEL = 0.5
MAX_SMAPE = 10.0  # percent: worse models show nothing about growth
MAX_MISSING_RANKS = 0.1  # relative, by which size laws may miss the number of all ranks
METRIC_ORDER = ("time", "time_exclusive", "visits", "bytes_sent", "bytes_received")
COMPARISONS = {  # by unit, of the ranks that have more of it
    "s": ("take", "as long"),
    "B": ("have", "as much"),
    "1": ("do", "as many"),
}

_ClassModels = list[SeriesModel]  # of the classes of one metric of one call path
_SizeLaws = Mapping[SeriesKey, Model]


@dataclass(frozen=True, slots=True)
class _Projection:
    """The classes of one metric of one call path at some number of ranks.

    values: mean per class; ranks: how many have it, NaN without a size law; imbalance: the slowest
    class over the mean of all ranks, NaN where size laws do not cover all ranks.
    """

    values: tuple[float, ...]
    ranks: tuple[float, ...]
    imbalance: float


@dataclass(frozen=True, slots=True)
class _Divergence:
    """Which classes of a call path diverge; growth: class and exponents, the slow class first."""

    path: CallPath
    metric: str
    growth: tuple[tuple[str, Exponents], ...]
    finding: Finding


def find_divergences(models: Sequence[SeriesModel], clusters: Sequence[Clusters]) -> list[Finding]:
    """Name the call paths whose slowest class grows away from its fastest.

    One finding per call path: about its time if that diverges, else about its visits and so on.
    There is none if that of a caller says the same about the same or a more important metric.

    Args:
        models: of all series.
        clusters: of all series, for the size laws.
    """
    by_path: dict[CallPath, _Divergence] = {}
    for class_models, laws in _group_by_series(models, clusters):
        new = _find_divergence(class_models, laws)
        if new is not None:
            known = by_path.get(new.path)
            if known is None or _importance(new.metric) < _importance(known.metric):
                by_path[new.path] = new

    return [
        divergence.finding
        for divergence in by_path.values()
        if not _is_reported_by_caller(divergence, by_path)
    ]


def _importance(metric: str) -> tuple[int, str]:
    """A key that sorts the most important metric first."""
    rank = METRIC_ORDER.index(metric) if metric in METRIC_ORDER else len(METRIC_ORDER)
    return rank, metric


def _is_reported_by_caller(
    divergence: _Divergence, by_path: Mapping[CallPath, _Divergence]
) -> bool:
    frames = divergence.path.frames
    for end in range(1, len(frames)):
        caller = by_path.get(CallPath(frames[:end]))
        if caller is None or caller.growth != divergence.growth:
            continue
        if _importance(caller.metric)[0] <= _importance(divergence.metric)[0]:
            return True
    return False


def _group_by_series(
    models: Sequence[SeriesModel], clusters: Sequence[Clusters]
) -> list[tuple[_ClassModels, _SizeLaws]]:
    """Models of several classes of one metric of one call path, with their size laws."""
    groups: dict[tuple[CallPath, str], _ClassModels] = defaultdict(list)
    for series in models:
        is_class = series.key.behaviour != ALL and series.metric.unit in COMPARISONS
        if is_class and series.model.parameters == (RANKS,):
            groups[series.key.callpath, series.key.metric].append(series)
    several = {key: group for key, group in groups.items() if len(group) > 1}

    used = [entry for entry in clusters if (entry.callpath, entry.metric) in several]
    laws = size_laws(used, (RANKS,))
    return [(group, laws) for group in several.values()]


def _predict(class_models: _ClassModels, at: Sequence[float]) -> FloatArray:
    """The mean of each class at several numbers of ranks: (n_classes, n_points)."""
    points = np.array(at)[:, None]
    return np.array([series.model.predict(points) for series in class_models])


def _project(
    class_models: _ClassModels, laws: _SizeLaws, values: FloatArray, at: float
) -> _Projection:
    """Add the sizes of the classes to their values (n_classes,) at a number of ranks."""
    point = np.array([[at]])
    ranks = np.full(len(class_models), np.nan)
    for index, series in enumerate(class_models):
        if series.key in laws:
            ranks[index] = max(float(laws[series.key].predict(point)[0]), 0.0)

    covers_all = abs(ranks.sum() - at) <= MAX_MISSING_RANKS * at
    mean = float(values @ ranks / ranks.sum()) if covers_all else float("nan")
    return _Projection(
        values=tuple(values.tolist()),
        ranks=tuple(ranks.tolist()),
        imbalance=float(values.max()) / mean if mean > 0 else float("nan"),
    )


def _find_divergence(class_models: _ClassModels, laws: _SizeLaws) -> _Divergence | None:
    """The divergence of the slowest class from the fastest, if there is one."""
    smallest = max(float(series.model.coordinates.min()) for series in class_models)
    largest = max(float(series.model.coordinates.max()) for series in class_models)
    target = max(MIN_TARGET, TARGET_TIMES_MEASURED * largest)

    # Most classes of most call paths grow alike, and a prediction costs much more than exponents.
    growth = [series.model.leading([target])[0] for series in class_models]
    if len(set(growth)) == 1:
        return None

    values = _predict(class_models, (target, largest, smallest))
    far = _project(class_models, laws, values[:, 0], target)
    slow, fast = int(np.argmax(far.values)), int(np.argmin(far.values))
    if far.values[fast] <= 0 or far.ranks[slow] < 0.5:  # no rank is slow there
        return None

    ratio_far = far.values[slow] / far.values[fast]
    _, ratio_now, ratio_before = (values[slow] / np.maximum(values[fast], 1e-300)).tolist()
    is_small = far.values[slow] < MIN_RATIO * far.values[fast] or ratio_now < MIN_MEASURED_RATIO
    is_steady = ratio_far < MIN_GROWTH * ratio_now or ratio_now < ratio_before

    slow_growth, fast_growth = growth[slow], growth[fast]
    is_no_faster = slow_growth <= fast_growth
    slow_model, fast_model = class_models[slow].model, class_models[fast].model
    is_imprecise = max(slow_model.smape, fast_model.smape) > MAX_SMAPE
    if is_small or is_steady or is_no_faster or is_imprecise:
        return None
    is_fast_falling = fast_growth < (Fraction(0), Fraction(0))
    if is_fast_falling and not _falls_surely(slow_model, fast_model, target, ratio_now):
        return None

    slow_key, fast_name = class_models[slow].key, class_models[fast].key.behaviour
    verb, much = COMPARISONS[class_models[slow].metric.unit]
    count = f" ({far.ranks[slow]:,.0f} of them)" if np.isfinite(far.ranks[slow]) else ""
    cost = ""
    if far.imbalance >= MIN_IMBALANCE:  # NaN is not; nearly all ranks are slow below
        cost = f"; they {verb} {far.imbalance:.3g} times the mean of all"
    if any(unclear_at(model, (target,)) for model in (slow_model, fast_model)):
        now = f"{_times(ratio_now)} {much} at p = {number(largest)}"
        compared = f"they {verb} {now}; how much at p = {target:,.0f} is unclear"
    else:
        compared = (
            f"at p = {target:,.0f} they{count} {verb} {_times(ratio_far)} {much}, "
            f"{_times(ratio_now)} at p = {number(largest)}{cost}"
        )
    text = (
        f"{slow_key.metric} of {slow_key.callpath.name}: ranks of class {slow_key.behaviour} "
        f"{_growth_text(slow_growth)} while those of class {fast_name} "
        f"{_growth_text(fast_growth)}: {compared}"
    )
    return _Divergence(
        path=slow_key.callpath,
        metric=slow_key.metric,
        growth=((slow_key.behaviour, slow_growth), (fast_name, fast_growth)),
        finding=Finding("classes-diverge", text, str(slow_key.callpath)),
    )


def _falls_surely(slow: Model, fast: Model, target: float, ratio_now: float) -> bool:
    """Whether a class that falls leaves the slow one behind by its printed law and its bounds, too.

    What falls to a constant that nobody has measured yet falls on in some of the functions that
    compete, and so in their median.

    Args:
        slow, fast: the models of the classes.
        target: number of ranks far out.
        ratio_now: of the slow class to the fast one in the largest run.
    """
    point = [[target]]
    slow_law, fast_law = float(slow.formula_at(point)[0]), float(fast.formula_at(point)[0])
    if slow_law < MIN_GROWTH * ratio_now * fast_law:
        return False

    low = float(slow.interval(point, BOUNDS_LEVEL)[0, 0])
    high = float(fast.interval(point, BOUNDS_LEVEL)[0, 1])
    is_unknown = not (np.isfinite(low) and np.isfinite(high))
    return is_unknown or low > ratio_now * high


def _times(ratio: float) -> str:
    """`3.2 times`; a ratio to next to nothing says only that it is large."""
    return (
        f"more than {LARGEST_RATIO:,.0f} times" if ratio > LARGEST_RATIO else f"{ratio:.3g} times"
    )


def _growth_text(exponents: Exponents) -> str:
    """A leading term in words: `stay constant`, `grow as p^½`."""
    alpha, beta = exponents
    if not alpha and not beta:
        return "stay constant"

    factors = []
    if alpha:
        factors.append(f"p{_power_text(alpha)}")
    if beta:
        factors.append(f"log{_power_text(beta)} p")
    is_falling = alpha < 0 or (not alpha and beta < 0)
    return f"{'fall' if is_falling else 'grow'} as {' '.join(factors)}"


def _power_text(exponent: Fraction) -> str:
    symbols = {Fraction(1): "", Fraction(1, 2): "^½", Fraction(1, 3): "^⅓", Fraction(2, 3): "^⅔"}
    return symbols.get(exponent, f"^{exponent}")
