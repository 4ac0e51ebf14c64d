"""Which rows of a board are shown, in which order."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from insitu.analysis.board import SeriesRow
from insitu.analysis.outlook import Outlook, SeriesId
from insitu.entities import ARROW

COST, TREE, GROWTH, TARGET, DEVIATION, NAME = (
    "cost",
    "tree",
    "growth",
    "share ahead",
    "deviation",
    "name",
)
ORDERS = (COST, TREE, GROWTH, TARGET, DEVIATION, NAME)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a person asked to see; empty texts ask for everything."""

    text: str = ""  # part of a call path, or a pattern with * and ?
    metric: str = ""
    behaviour: str = ""
    order: str = COST

    def of(self, rows: Sequence[SeriesRow], ahead: Outlook) -> list[SeriesRow]:
        """The rows that are asked for, those of one call path beside each other."""
        chosen = [row for row in rows if self._holds(row)]
        return sorted(chosen, key=self._place(chosen, ahead))

    def _holds(self, row: SeriesRow) -> bool:
        return (
            self.metric in ("", row.metric)
            and self.behaviour in ("", row.behaviour)
            and (self.text in row.callpath or fnmatchcase(row.callpath, self.text))
        )

    def _place(
        self, rows: Sequence[SeriesRow], ahead: Outlook
    ) -> Callable[[SeriesRow], tuple[object, ...]]:
        """What to sort by; rows that are alike stay in the order of cost."""
        if self.order == NAME:
            return lambda row: (row.callpath,)
        if self.order == TREE:
            weights = _weights({row.callpath: row.share for row in rows})
            return lambda row: _branches(row.callpath, weights)
        size: dict[str, float] = {}
        for row in rows:
            size[row.callpath] = max(size.get(row.callpath, -1.0), self._size(row, ahead))
        return lambda row: (-size[row.callpath],)

    def _size(self, row: SeriesRow, ahead: Outlook) -> float:
        if self.order == GROWTH:
            return ahead.factors.get(key_of(row), -1.0)
        if self.order == TARGET:
            return ahead.shares.get(row.callpath, -1.0)
        if self.order == DEVIATION:
            return deviation(row)
        return row.share


def key_of(row: SeriesRow) -> SeriesId:
    """The series of a row."""
    return row.callpath, row.metric, row.behaviour


def deviation(row: SeriesRow) -> float:
    """By how much a run in progress is off its prediction, as a ratio of 1 or more; -1 unmarked."""
    if not row.verdict or row.live is None or row.expected is None or not row.expected[1] > 0:
        return -1.0
    ratio = row.live / row.expected[1]
    return max(ratio, 1 / ratio) if ratio > 0 else math.inf


def _weights(shares: Mapping[str, float]) -> dict[str, float]:
    """The share of each call path with all that it calls."""
    weights: dict[str, float] = {}
    for callpath, share in shares.items():
        for path in _upwards(callpath):
            weights[path] = weights.get(path, 0.0) + share
    return weights


def _branches(callpath: str, weights: Mapping[str, float]) -> tuple[object, ...]:
    """A call path among the children of its callers, the dearest of these first."""
    return tuple((-weights[path], path) for path in _upwards(callpath))


def _upwards(callpath: str) -> list[str]:
    """The call path after its callers, the program first."""
    frames = callpath.split(ARROW)
    return [ARROW.join(frames[: end + 1]) for end in range(len(frames))]
