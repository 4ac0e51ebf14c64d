"""Counts throttled functions as part of their callers, so that all other values stay exact.

If one rank of a node has throttled a function, it is left out in all ranks of the node: otherwise
their call paths could not be compared.
"""

from array import array
from collections.abc import Mapping, Sequence, Set

from insitu.collectors.table import COMPILED, LIBRARY, PYTHON, Row
from insitu.collectors.table_header import Header

Function = tuple[str, str, int]  # name, file, line
MAX_NAMES = 8  # functions that the finding names
MAX_NAME_LENGTH = 100  # characters; names of C++ templates may have thousands
U8_MASK = (1 << 64) - 1
PEAKS = ("heap_peak",)  # columns of which a caller has the maximum
OWN = ("visits", "time")  # columns of the function itself, which are not added to its caller


def function_of(row: Row) -> Function:
    """The function of a row, whatever its call path."""
    return row.name, row.file, row.line


def is_elided(row: Row, throttled: Set[Function]) -> bool:
    """Whether this row counts as part of its caller."""
    return (
        bool(throttled)
        and row.kind in (PYTHON, LIBRARY, COMPILED)
        and function_of(row) in throttled
    )


def fold_into_callers(
    totals: Mapping[str, "array[int]"], rows: Sequence[Row], throttled: Set[Function]
) -> None:
    """Move the values of throttled functions to their callers, in place.

    Args:
        totals: shape (n_rows,) for each column.
        rows: the rows of the table; a row comes after its parent.
        throttled: the functions to leave out.
    """
    for i in reversed(range(1, len(rows))):  # callees before their callers
        if not is_elided(rows[i], throttled):
            continue

        parent = rows[i].parent
        for name, values in totals.items():
            if name in PEAKS:
                values[parent] = max(values[parent], values[i])
            elif name not in OWN:
                # The sum wraps around: signed values are stored as unsigned words.
                values[parent] = (values[parent] + values[i]) & U8_MASK
            values[i] = 0


def describe_throttled(heads: Sequence[Header], throttled: Mapping[Function, int]) -> str:
    """The text of the finding: which functions were left out, and how often they were called.

    Args:
        heads: the headers of all tables of the node.
        throttled: the functions, with their visits before they were throttled.
    """
    by_visits = sorted(throttled.items(), key=lambda item: -item[1])
    names = [f"{_shorten(name)} ({visits} visits)" for (name, _, _), visits in by_visits]
    names = names[:MAX_NAMES]
    more = max(head.throttled for head in heads) - len(names)
    if more > 0:
        names.append(f"{more} {'more' if names else 'functions'}, mostly inside libraries")

    budget = max(head.budget for head in heads)
    return (
        f"timing these functions would have taken more than {budget * 100:g} % of the time; they"
        f" count as part of their callers from then on: {', '.join(names)}; use --skip to leave"
        " them out of all runs"
    )


def _shorten(name: str) -> str:
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"
