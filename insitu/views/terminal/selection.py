"""Selects and sorts the rows of a board."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from insitu.analysis.board import SeriesRow
from insitu.analysis.outlook import Outlook, SeriesId
from insitu.entities import ARROW

COST = "cost"
TREE = "tree"
GROWTH = "growth"
TARGET = "share ahead"
DEVIATION = "deviation"
NAME = "name"
ORDERS = (TREE, COST, GROWTH, TARGET, DEVIATION, NAME)


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows to show and their order; empty texts select everything."""

    text: str = ""  # substring of a call path, or a pattern with * and ?
    metric: str = ""
    behaviour: str = ""
    order: str = COST

    def apply(self, rows: Sequence[SeriesRow], ahead: Outlook) -> list[SeriesRow]:
        """The selected rows in order; rows of one call path are adjacent."""
        selected = [row for row in rows if self._matches(row)]
        return sorted(selected, key=self._sort_key(selected, ahead))

    def _matches(self, row: SeriesRow) -> bool:
        return (
            self.metric in ("", row.metric)
            and self.behaviour in ("", row.behaviour)
            and (self.text in row.callpath or fnmatchcase(row.callpath, self.text))
        )

    def _sort_key(
        self, rows: Sequence[SeriesRow], ahead: Outlook
    ) -> Callable[[SeriesRow], tuple[object, ...]]:
        """The sort key; rows with equal keys stay in the order of cost."""
        if self.order == NAME:
            return lambda row: (row.callpath,)
        if self.order == TREE:
            weights = _weights({row.callpath: row.share for row in rows})
            return lambda row: _tree_key(row.callpath, weights)

        size: dict[str, float] = {}
        for row in rows:
            size[row.callpath] = max(size.get(row.callpath, -1.0), self._size(row, ahead))
        return lambda row: (-size[row.callpath],)

    def _size(self, row: SeriesRow, ahead: Outlook) -> float:
        if self.order == GROWTH:
            return ahead.factors.get(series_id(row), -1.0)
        if self.order == TARGET:
            return ahead.shares.get(row.callpath, -1.0)
        if self.order == DEVIATION:
            return deviation(row)
        return row.share


class TreeBranch(NamedTuple):
    """A call path in a tree: how many of its callers have rows, and its frames below the last."""

    depth: int
    frames: str


def find_branches(rows: Sequence[SeriesRow]) -> dict[str, TreeBranch]:
    """The branch of each call path; callers without rows stand before its name."""
    shown = {row.callpath for row in rows}
    branches = {}
    for callpath in shown:
        callers = [path for path in _with_callers(callpath)[:-1] if path in shown]
        frames = callpath.removeprefix(callers[-1] + ARROW) if callers else callpath
        branches[callpath] = TreeBranch(len(callers), frames)
    return branches


def series_id(row: SeriesRow) -> SeriesId:
    """Identifies the series of a row."""
    return row.callpath, row.metric, row.behaviour


def deviation(row: SeriesRow) -> float:
    """Deviation of a run in progress from its prediction, a ratio of at least 1; -1 if unmarked."""
    if not row.verdict or row.live is None or row.expected is None or not row.expected[1] > 0:
        return -1.0
    ratio = row.live / row.expected[1]
    return max(ratio, 1 / ratio) if ratio > 0 else math.inf


def _weights(shares: Mapping[str, float]) -> dict[str, float]:
    """The share of each call path including its callees."""
    weights: dict[str, float] = {}
    for callpath, share in shares.items():
        for path in _with_callers(callpath):
            weights[path] = weights.get(path, 0.0) + share
    return weights


def _tree_key(callpath: str, weights: Mapping[str, float]) -> tuple[object, ...]:
    """Sorts call paths as a tree, the most expensive child first."""
    return tuple((-weights[path], path) for path in _with_callers(callpath))


def _with_callers(callpath: str) -> list[str]:
    """The callers of a call path, the program first, and the call path itself."""
    frames = callpath.split(ARROW)
    return [ARROW.join(frames[: end + 1]) for end in range(len(frames))]
