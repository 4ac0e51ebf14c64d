"""Growth of a function and of those that it calls, as one statement.

Where a function is visited more often, so are those that it calls, and their times grow as well.
Work on ever more data is often spread over a function and its callees, too. The statement about
the one that takes most remains, and has the others as details. So does one of two statements that
some ranks are longer in the same function.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.limit import Limit
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi
from insitu.analysis.diagnosis.statements import (
    LIMIT,
    UNCLEAR,
    WARNING,
    Statement,
    list_names,
)
from insitu.entities import TIME_EXCLUSIVE, VISITS, CallPath

STEADY_PRICE = 1.25  # times per visit at the largest scale, of those at the smallest
SAME_GROWTH = 1.25  # factor by which the growth of two functions may differ


def merge_chains(
    statements: Sequence[Statement], limits: Sequence[Limit], measurements: Measurements
) -> list[Statement]:
    """Statements, the worst first, without those that repeat others, which have their texts."""
    visits = _counted_visits(statements, limits)
    kept: list[Statement] = []
    chains: dict[int, list[Statement]] = {}
    for entry in statements:
        i = _find_same_imbalance(entry, kept)
        if i is not None:
            # The ranks of a part of a domain are better evidence than the slowest of them.
            first, second = kept[i], entry
            if _n_ranks(entry) > _n_ranks(kept[i]):
                first, second = entry, kept[i]
            kept[i] = replace(first, also=(*first.also, second.text, *second.also))
            continue
        i = _find_counted(entry, kept, visits, measurements)
        if i is None:
            i = _find_in_chain(entry, kept, measurements)
            if i is None:
                kept.append(entry)
                continue
            chains.setdefault(i, []).append(entry)
        also = (*kept[i].also, f"{entry.short_name}: {entry.text}", *entry.also)
        kept[i] = replace(kept[i], also=also)

    for i, others in chains.items():
        names = list_names([other.short_name for other in others])
        text = f"{kept[i].text}; likewise {names}, in one chain of calls"
        kept[i] = replace(kept[i], text=text, seconds=_sum_of_seconds([kept[i], *others]))
    return kept


def _counted_visits(
    statements: Sequence[Statement], limits: Sequence[Limit]
) -> dict[tuple[str, str, str], set[CallPath]]:
    """The functions whose visits a certain statement counts, by what identifies the statement."""
    visits: dict[tuple[str, str, str], set[CallPath]] = {}
    certain = {_key(entry) for entry in statements if entry.status in (LIMIT, WARNING)}
    for limit in limits:
        key = (str(limit.path), limit.kind, limit.metric)
        if key in certain and limit.is_exact:
            counted = {path for path in limit.visited if not is_mpi(path)}
            if limit.metric == VISITS.name and limit.detail is not None:
                counted.add(limit.detail)
            visits.setdefault(key, set()).update(counted)
    return visits


def _key(entry: Statement) -> tuple[str, str, str]:
    return str(entry.callpath), entry.kind, entry.metric or ""


def _find_same_imbalance(entry: Statement, kept: Sequence[Statement]) -> int | None:
    """The statement that some ranks are longer in the same function, as uncertain as this one."""
    for i, earlier in enumerate(kept):
        is_same = (earlier.kind, earlier.callpath) == ("imbalance", entry.callpath)
        if is_same and entry.kind == "imbalance" and earlier.status == entry.status == UNCLEAR:
            return i
    return None


def _n_ranks(entry: Statement) -> int:
    """How many ranks a statement names: `ranks 5, 6, 7` are three."""
    return (entry.ranks or "").count(",") + 1


def _is_of_time(entry: Statement) -> bool:
    is_of_work = entry.kind == "compute" and entry.callpath is not None
    return is_of_work and entry.metric == TIME_EXCLUSIVE.name


def _find_counted(
    entry: Statement,
    kept: Sequence[Statement],
    visits: dict[tuple[str, str, str], set[CallPath]],
    measurements: Measurements,
) -> int | None:
    """The statement whose count of visits explains that a time grows: each takes as long."""
    if not _is_of_time(entry):
        return None
    path = CallPath.parse(str(entry.callpath))
    for i, earlier in enumerate(kept):
        if path in visits.get(_key(earlier), ()) and _has_steady_price(path, measurements):
            return i
    return None


def _has_steady_price(path: CallPath, measurements: Measurements) -> bool:
    seconds = measurements.series([path], TIME_EXCLUSIVE.name).statistic(np.sum)
    counts = measurements.series([path], VISITS.name).statistic(np.sum)
    if not np.all(counts > 0):
        return False
    prices = seconds / counts
    return bool(prices[-1] <= STEADY_PRICE * prices[0])


def _find_in_chain(
    entry: Statement, kept: Sequence[Statement], measurements: Measurements
) -> int | None:
    """The statement about a caller or a callee, whose time grows alike and takes longer."""
    if not _is_of_time(entry) or entry.status not in (LIMIT, WARNING, UNCLEAR):
        return None
    path = CallPath.parse(str(entry.callpath))
    for i, earlier in enumerate(kept):
        if not _is_of_time(earlier) or (earlier.unit, earlier.ranks) != (entry.unit, entry.ranks):
            continue
        other = CallPath.parse(str(earlier.callpath))
        is_chain = path != other and (path.is_within(other) or other.is_within(path))
        if is_chain and _grow_alike(path, other, measurements):
            return i
    return None


def _grow_alike(path: CallPath, other: CallPath, measurements: Measurements) -> bool:
    growths = []
    for each in (path, other):
        seconds = measurements.series([each], TIME_EXCLUSIVE.name).statistic(np.mean)
        if seconds[0] <= 0:
            return False
        growths.append(float(seconds[-1] / seconds[0]))
    return max(growths) <= SAME_GROWTH * min(growths)


def _sum_of_seconds(entries: Sequence[Statement]) -> float | None:
    known = [entry.seconds for entry in entries if entry.seconds is not None]
    return sum(known) if known else None
