"""Classes that grow apart: which ranks will be slow, how many, and what that costs all others."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from insitu.entities import RANKS, CallPath, Finding, number
from insitu.modeling.base import Clusters, Exponents, Model, SeriesModel
from insitu.modeling.classes.match import ALL
from insitu.modeling.classes.sizes import size_laws
from insitu.modeling.measurement import SeriesKey

FAR = 65_536.0  # ranks; more where runs come near it
AHEAD = 16.0  # times the largest run, at least
TIMES = 2.0  # how much longer the slowest class must take there
APART = 1.1  # how much longer it must take at the largest run
WORSE = 1.5  # how much worse that must be than at the largest run
FIRST = ("time", "time_exclusive", "visits", "bytes_sent", "bytes_received")
WHOLE = 0.1  # relative, by which the ranks of all classes may miss their number
GOOD = 10.0  # percent SMAPE: worse models tell nothing about growth
WORDS = {  # by unit, of the ranks that have more of it
    "s": ("take", "as long"),
    "B": ("have", "as much"),
    "1": ("do", "as many"),
}


@dataclass(frozen=True, slots=True)
class _Outlook:
    """The classes of one metric of one call path at a number of ranks that was not measured.

    values: mean per class; ranks: how many have it, NaN where no law is known; imbalance: the
    slowest class over the mean of all ranks, 1 where all are equal, NaN where laws of size are
    not about all ranks.
    """

    values: tuple[float, ...]
    ranks: tuple[float, ...]
    imbalance: float


def find_divergences(models: Sequence[SeriesModel], clusters: Sequence[Clusters]) -> list[Finding]:
    """Name the call paths whose slowest class grows away from its fastest.

    One finding per call path, about its time where that diverges, else its visits and so on; none
    where that of a caller says the same of a metric that tells as much.
    """
    mine = [one for one in models if one.metric.unit in WORDS]
    several = {(one.key.callpath, one.key.metric) for one in mine if one.key.behaviour != ALL}
    chosen = [one for one in clusters if (one.callpath, one.metric) in several]
    found: dict[CallPath, _Divergence] = {}
    for group, laws in _groups(mine, chosen):
        one = _divergence(group, laws)
        if one is not None and (
            one.path not in found or _place(one.metric) < _place(found[one.path].metric)
        ):
            found[one.path] = one
    return [one.finding for one in found.values() if not _is_said(one, found)]


@dataclass(frozen=True, slots=True)
class _Divergence:
    """Which classes of a call path diverge, and how they grow."""

    path: CallPath
    metric: str
    how: tuple[tuple[str, Exponents], ...]
    finding: Finding


def _place(metric: str) -> tuple[int, str]:
    return (FIRST.index(metric) if metric in FIRST else len(FIRST), metric)


def _is_said(one: _Divergence, found: Mapping[CallPath, _Divergence]) -> bool:
    above = (found.get(CallPath(one.path.frames[:end])) for end in range(1, len(one.path.frames)))
    return any(
        caller is not None
        and caller.how == one.how
        and _place(caller.metric)[0] <= _place(one.metric)[0]
        for caller in above
    )


Group = list[SeriesModel]
Laws = dict[SeriesKey, Model]


def _groups(
    models: Sequence[SeriesModel], clusters: Sequence[Clusters]
) -> list[tuple[Group, Laws]]:
    """Models of several classes of one metric of one call path, with their size laws."""
    groups: dict[tuple[CallPath, str], Group] = defaultdict(list)
    for one in models:
        if one.key.behaviour != ALL and one.model.parameters == (RANKS,):
            groups[one.key.callpath, one.key.metric].append(one)
    several = {key: group for key, group in groups.items() if len(group) > 1}
    laws = size_laws([one for one in clusters if (one.callpath, one.metric) in several], (RANKS,))
    return [(group, laws) for group in several.values()]


def _outlook(group: Group, laws: Laws, at: float) -> _Outlook:
    point = np.array([[at]])
    values = np.array([float(one.model.predict(point)[0]) for one in group])
    ranks = np.full(len(group), np.nan)
    for index, one in enumerate(group):
        if one.key in laws:
            ranks[index] = max(float(laws[one.key].predict(point)[0]), 0.0)
    is_whole = abs(ranks.sum() - at) <= WHOLE * at  # no class is missing, no law far off
    mean = float(values @ ranks / ranks.sum()) if is_whole else float("nan")
    return _Outlook(
        tuple(values.tolist()),
        tuple(ranks.tolist()),
        float(values.max()) / mean if mean > 0 else float("nan"),
    )


def _divergence(group: Group, laws: Laws) -> _Divergence | None:
    measured = max(float(one.model.coordinates.max()) for one in group)
    smallest = max(float(one.model.coordinates.min()) for one in group)
    at = max(FAR, AHEAD * measured)
    far, near = _outlook(group, laws, at), _outlook(group, laws, measured)
    begun = _outlook(group, laws, smallest)
    slow, fast = int(np.argmax(far.values)), int(np.argmin(far.values))
    lowest, now = far.values[fast], near.values[slow] / max(near.values[fast], 1e-300)
    before = begun.values[slow] / max(begun.values[fast], 1e-300)
    exponents = [group[index].model.leading([at])[0] for index in (slow, fast)]
    if (
        lowest <= 0
        or far.ranks[slow] < 0.5
        or far.values[slow] < TIMES * lowest
        or far.values[slow] / lowest < WORSE * now
        or now < max(APART, before)
        or exponents[0] <= exponents[1]
        or max(group[index].model.smape for index in (slow, fast)) > GOOD
    ):
        return None
    key, names = group[slow].key, [one.key.behaviour for one in group]
    share = f" ({far.ranks[slow]:,.0f} of them)" if np.isfinite(far.ranks[slow]) else ""
    verb, much = WORDS[group[slow].metric.unit]
    cost = (
        f"; they {verb} {far.imbalance:.3g} times the mean of all"
        if np.isfinite(far.imbalance)
        else ""
    )
    finding = Finding(
        "classes-diverge",
        f"{key.metric} of {key.callpath.name}: ranks of class {names[slow]} "
        f"{_growth(exponents[0])} while those of class {names[fast]} "
        f"{_growth(exponents[1])}: at p = {at:,.0f} they{share} {verb} "
        f"{far.values[slow] / lowest:.3g} times {much}, {now:.3g} times at p = "
        f"{number(measured)}{cost}",
        str(key.callpath),
    )
    how = tuple((names[index], group[index].model.leading([at])[0]) for index in (slow, fast))
    return _Divergence(key.callpath, key.metric, how, finding)


def _growth(exponents: Exponents) -> str:
    """Words for a leading term: `stay constant`, `grow as p^½`."""
    alpha, beta = exponents
    if not alpha and not beta:
        return "stay constant"
    parts = [f"p{_power(alpha)}" if alpha else "", f"log{_power(beta)} p" if beta else ""]
    verb = "fall" if alpha < 0 or (not alpha and beta < 0) else "grow"
    return f"{verb} as {' '.join(part for part in parts if part)}"


def _power(exponent: Fraction) -> str:
    known = {Fraction(1): "", Fraction(1, 2): "^½", Fraction(1, 3): "^⅓", Fraction(2, 3): "^⅔"}
    return known.get(exponent, f"^{exponent}")
