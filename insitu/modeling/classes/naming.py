"""Names of behaviour classes that stay when runs are added: by place, by rank, or by appearance."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.modeling.classes.behaviour import MetricValues, Partition
from insitu.modeling.classes.domain import AXES, Domain, kind_name
from insitu.modeling.classes.match import ALL, Matching
from insitu.modeling.classes.run_groups import mean_over_runs
from insitu.modeling.measurement import FloatArray, IntArray

MOSTLY = 0.8  # share of a class's ranks that must be of one kind for the class to have its name
BOUNDARY = "boundary"  # whatever owns a wall


@dataclass(frozen=True, slots=True)
class View:
    """One way to tell the ranks of a place apart: codes (n_ranks,), -1 where unknown, and names."""

    codes: IntArray
    names: tuple[str, ...]


@dataclass(slots=True)
class Namer:
    """Names classes of an experiment.

    views: per way to look at ranks one view per place, None where that way sees nothing there;
    known: what was named already, by the labels of all places.
    """

    views: list[list[View | None]]
    known: dict[tuple[object, ...], Matching] = field(default_factory=dict)

    @classmethod
    def of(cls, domains: Sequence[Domain | None], sizes: Sequence[int]) -> "Namer":
        """Look at the ranks of places with these domains and numbers of ranks."""
        ways: list[list[View | None]] = [
            [None if domain is None else way(domain) for domain in domains]
            for way in (_by_walls, _by_axes, _by_sides)
        ]
        if all(domain is None for domain in domains):
            ways = []
        ends = [list(one) for one in zip(*(_by_rank(size) for size in sizes), strict=True)]
        return cls(ways + ends)

    def name(self, measured: MetricValues, partition: Partition, *, is_literal: bool) -> Partition:
        """Give the classes names that do not depend on how many there are.

        Where every cluster of every run is one kind of ranks (corner, edge, inner; rank 0), the
        kinds also say which cluster is which class. Else a class has the name of the kind that most
        of its ranks are, or a letter, in the order in which classes appear from the smallest run
        on.

        Args:
            measured: the metric.
            partition: its classes, by number; those that the user named stay.
            is_literal: keep what was matched with what [CLU §III-B], only name it.
        """
        matchings = []
        for row, matching in enumerate(partition.matchings):
            labels = [one[row] for one in partition.labels]
            if matching.is_given or max((one.max(initial=-1) for one in labels), default=-1) < 1:
                matchings.append(matching)
                continue
            mark = (matching, is_literal, *(one.tobytes() for one in labels))
            if mark not in self.known:
                self.known[mark] = self._named(measured, labels, row, matching, is_literal)
            matchings.append(self.known[mark])
        return replace(partition, matchings=matchings)

    def _named(
        self,
        measured: MetricValues,
        labels: Sequence[IntArray],
        row: int,
        matching: Matching,
        is_literal: bool,
    ) -> Matching:
        for views in [] if is_literal else self.views:
            kinds = _kinds_of_clusters(labels, views)
            if kinds is not None:
                values = [
                    mean_over_runs([measured.tables[run][row] for run in place.runs])
                    for place in measured.groups
                ]
                return _matched(kinds, labels, values)
        names = next(_descriptions(labels, matching, self.views), None)
        return replace(matching, names=names or _letters(labels, matching))


def _by_walls(domain: Domain) -> View:
    """By the number of walls of a rank: corner, edge, inner."""
    first, last = domain.walls()
    axes = len(domain.shape)
    names = tuple(kind_name(walls, axes) for walls in range(2 * axes + 1))
    return _seen(domain, (first + last).sum(axis=1), names)


def _by_axes(domain: Domain) -> View:
    """By the axes at whose ends it is as well: edge x, edge y."""
    first, last = domain.walls()
    return _coded(domain, first + last, lambda ends: _axes_name(ends, len(domain.shape)))


def _by_sides(domain: Domain) -> View:
    """By the very walls: edge x-, edge x+."""
    first, last = domain.walls()

    def name(sides: Sequence[int]) -> str:
        walls = "".join(
            AXES[axis] * (side > 0) + ("", "-", "+", "±")[side] for axis, side in enumerate(sides)
        )
        kind = kind_name(sum((side + 1) // 2 for side in sides), len(domain.shape))
        return f"{kind} {walls}".strip()

    return _coded(domain, first + 2 * last, name)


def _axes_name(ends: Sequence[int], axes: int) -> str:
    letters = "".join(AXES[axis] * number for axis, number in enumerate(ends))
    kind = kind_name(sum(ends), axes)
    return kind if sum(ends) in (0, axes) and max(ends) < 2 else f"{kind} {letters}"


def _coded(domain: Domain, digits: IntArray, name: Callable[[Sequence[int]], str]) -> View:
    """One code per combination of digits (n_ranks, n_axes) below 4."""
    codes = digits @ 4 ** np.arange(len(domain.shape))
    combinations = np.indices((4,) * len(domain.shape)).reshape(len(domain.shape), -1).T[:, ::-1]
    return _seen(domain, codes, tuple(name(one) for one in combinations.tolist()))


def _seen(domain: Domain, codes: IntArray, names: tuple[str, ...]) -> View:
    return View(np.where(domain.positions[:, 0] < 0, -1, codes), names)


def _by_rank(size: int) -> Iterator[View]:
    """By the number of the rank: the first, the last, both ends."""
    rank = np.arange(size)
    yield View((rank > 0).astype(np.intp), ("rank 0", "others"))
    yield View(((rank > 0) & (rank < size - 1)).astype(np.intp), ("end", "inner"))
    yield View((rank < size - 1).astype(np.intp), ("last rank", "others"))
    yield View(
        np.where(rank == 0, 0, np.where(rank < size - 1, 1, 2)), ("rank 0", "between", "last rank")
    )


def _table(labels: IntArray, view: View) -> IntArray:
    """How many ranks each cluster has of each kind: (n_clusters, n_kinds)."""
    used = (labels >= 0) & (view.codes >= 0)
    kinds, clusters = len(view.names), int(labels.max(initial=-1)) + 1
    slots = labels[used] * kinds + view.codes[used]
    counted: IntArray = np.bincount(slots, minlength=clusters * kinds).reshape(clusters, kinds)
    return counted


def _kinds_of_clusters(
    labels: Sequence[IntArray], views: Sequence[View | None]
) -> list[list[str]] | None:
    """The kind of each cluster of each place; None unless clusters and kinds are the same."""
    result: list[list[str]] = []
    for at_place, view in zip(labels, views, strict=True):
        if not np.any(at_place >= 0):
            result.append([])
            continue
        if view is None:
            return None
        table = _table(at_place, view) > 0
        if np.any(table.sum(axis=1) != 1) or np.any(table.sum(axis=0) > 1):
            return None
        result.append([view.names[kind] for kind in table.argmax(axis=1).tolist()])
    return result


def _matched(
    kinds: Sequence[Sequence[str]], labels: Sequence[IntArray], values: Sequence[FloatArray]
) -> Matching:
    """Clusters of one kind are one class; classes ascend by their value beside the mean of all."""
    heights: dict[str, list[float]] = {}
    for names, at_place, value in zip(kinds, labels, values, strict=True):
        middle = float(np.mean(value[at_place >= 0])) if names else 0.0
        for index, name in enumerate(names):
            height = float(np.mean(value[at_place == index]))
            heights.setdefault(name, []).append(height / middle if middle else height)
    order = sorted(heights, key=lambda name: (float(np.mean(heights[name])), name))
    assigned = tuple(tuple(map(order.index, names)) or None for names in kinds)
    return Matching(tuple(order), assigned, True)


def _descriptions(
    labels: Sequence[IntArray], matching: Matching, ways: Sequence[Sequence[View | None]]
) -> Iterator[tuple[str, ...]]:
    """Names by what the ranks of each class mostly are, for the ways that tell classes apart."""
    for views in ways:
        sums: dict[str, FloatArray] = {}
        total = np.zeros(len(matching.names))
        for at_place, assigned, view in zip(labels, matching.assigned, views, strict=True):
            if assigned is None or view is None:
                continue
            for kind, column in zip(view.names, _table(at_place, view).T, strict=True):
                mine = sums.setdefault(kind, np.zeros(len(matching.names)))
                np.add.at(mine, list(assigned), column)
                np.add.at(total, list(assigned), column)
        if not len(total) or not np.all(total):
            continue
        kinds = list(sums)
        table = np.array([sums[kind] for kind in kinds]) / total
        best = table.argmax(axis=0)
        if np.all(table.max(axis=0) >= MOSTLY) and len(set(best.tolist())) == len(best):
            yield tuple(kinds[index] for index in best.tolist())
        inner = sums.get("inner", np.zeros(len(total))) / total
        if len(total) == 2 and inner.max() >= MOSTLY and inner.min() <= 1 - MOSTLY:
            yield tuple("inner" if share >= MOSTLY else BOUNDARY for share in inner.tolist())


def _letters(labels: Sequence[IntArray], matching: Matching) -> tuple[str, ...]:
    """A, B, C in the order in which classes appear: from the smallest run on, by lowest rank."""
    if len(matching.names) < 2:
        return tuple(ALL for _ in matching.names)
    order: dict[int, None] = {}
    for at_place, assigned in zip(labels, matching.assigned, strict=True):
        if assigned:
            clusters, first = np.unique(at_place[at_place >= 0], return_index=True)
            for cluster in clusters[np.argsort(first, kind="stable")].tolist():
                order.setdefault(assigned[cluster])
    letters = dict(zip(order, map(letter, range(len(order))), strict=True))
    return tuple(letters[index] for index in range(len(matching.names)))


def letter(index: int) -> str:
    """A to Z, then AA, AB, …"""
    head, last = divmod(index, 26)
    return (letter(head - 1) if head else "") + chr(ord("A") + last)
