"""Statements that are alike share a line."""

from collections.abc import Sequence
from dataclasses import replace

from insitu.analysis.diagnosis.statements import NEIGHBOURS, NOT_JUDGED, Statement, list_names

MAX_NEIGHBOURS = 2  # functions with a line of their own
SUBJECTS = {  # what grows, by the kind of a statement
    "messages": "growing messages",
    "bytes": "growing messages",
    "compute": "growing visits",
}


def merge_call_paths(statements: Sequence[Statement]) -> list[Statement]:
    """One statement for all call paths of a function whose statements are alike."""
    alike: dict[tuple[str | None, ...], list[Statement]] = {}
    for entry in statements:
        # A statement without a call path is alone.
        name = entry.short_name if entry.callpath else entry.text
        key = name, entry.kind, entry.metric, entry.ranks, entry.run
        alike.setdefault(key, []).append(entry)

    merged = []
    for first, *others in alike.values():
        text = first.text
        if others:
            noun = "call path" if len(others) == 1 else "call paths"
            text += f"; the same for {len(others)} more {noun}"
        also = (*first.also, *(entry.text for entry in others))
        merged.append(replace(first, text=text, also=also))
    return merged


def merge_neighbours(statements: Sequence[Statement]) -> list[Statement]:
    """One statement per subject for all functions but the first whose growth may be neighbours'."""
    doubtful: dict[str, list[Statement]] = {}
    for entry in statements:
        if NEIGHBOURS in entry.text and entry.callpath:
            doubtful.setdefault(SUBJECTS.get(entry.kind, "growth"), []).append(entry)
    merged = list(statements)
    for subject, alike in doubtful.items():
        merged = _merge_others(merged, alike, f"{subject} of")
    return merged


def _merge_others(
    statements: Sequence[Statement], doubtful: Sequence[Statement], what: str
) -> list[Statement]:
    """One statement, that says what grows, for all doubtful ones but the first."""
    if len(doubtful) <= MAX_NEIGHBOURS:
        return list(statements)

    first, *others = doubtful
    names = list_names([entry.short_name for entry in others])
    merged = Statement(
        kind=first.kind,
        status=NOT_JUDGED,
        text=f"{what} {names}, for the same reason",
        also=tuple(text for entry in others for text in (entry.text, *entry.also)),
        run=first.run,
    )
    at = statements.index(first) + 1
    kept = [entry for entry in statements if entry not in others]
    return [*kept[:at], merged, *kept[at:]]
