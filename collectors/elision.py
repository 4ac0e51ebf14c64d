"""Throttled functions as part of their callers: what is measured of the others stays exact.

A function that one rank of a node has throttled is left out for all of them, so that their call
paths can be compared.
"""

from array import array
from collections.abc import Mapping, Sequence, Set

from insitu.collectors.table import COMPILED, LIBRARY, PYTHON, Header, Row

Function = tuple[str, str, int]  # name, file, line
NAMED_AT_MOST = 8  # functions in a sentence
SHOWN = 100  # characters of a name: those of C++ templates may be thousands long
U8 = (1 << 64) - 1
PEAKS = ("heap_peak",)
COUNTED_ONCE = ("visits", "time")  # of a function itself: they are not its caller's


def function_of(row: Row) -> Function:
    """What tells a function from others, whatever its call path."""
    return row.name, row.file, row.line


def is_elided(row: Row, throttled: Set[Function]) -> bool:
    """Whether this row is to be part of its caller."""
    return (
        bool(throttled)
        and row.kind in (PYTHON, LIBRARY, COMPILED)
        and function_of(row) in throttled
    )


def fold(totals: Mapping[str, "array[int]"], rows: Sequence[Row], throttled: Set[Function]) -> None:
    """Move the numbers of elided rows to the rows that they are part of."""
    for i in reversed(range(1, len(rows))):  # callees before their callers
        if not is_elided(rows[i], throttled):
            continue
        for name, values in totals.items():
            parent = rows[i].parent
            if name in PEAKS:
                values[parent] = max(values[parent], values[i])
            elif name not in COUNTED_ONCE:
                values[parent] = (values[parent] + values[i]) & U8  # it may be signed
            values[i] = 0


def said(heads: Sequence[Header], throttled: Mapping[Function, int]) -> str:
    """What was left out, for people: the functions, and the visits counted until then."""
    known = sorted(throttled.items(), key=lambda item: -item[1])
    named = [
        f"{name if len(name) <= SHOWN else name[: SHOWN - 1] + '…'} ({visits} visits)"
        for (name, _, _), visits in known[:NAMED_AT_MOST]
    ]
    more = max(head.throttled for head in heads) - len(named)
    named += [f"{more} more, mostly inside libraries"] if more > 0 else []
    share = max(head.budget for head in heads)
    return (
        f"timing these would have taken more than {share * 100:g} % of the time; from then on they "
        f"count as part of their callers: {', '.join(named)}; so that all runs leave them out "
        "alike, name them with --skip"
    )
