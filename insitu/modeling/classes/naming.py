"""Names of behaviour classes that stay when runs are added: by walls, by rank, or by letters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.modeling.base import ALL
from insitu.modeling.classes.behaviour import MetricValues, Partition
from insitu.modeling.classes.domain import AXES, Domain, kind_name
from insitu.modeling.classes.grids import infer_domains, infer_walls
from insitu.modeling.classes.match import Matching
from insitu.modeling.classes.run_groups import mean_over_runs
from insitu.modeling.measurement import FloatArray, IntArray

MAJORITY = 0.8  # share of its ranks that must be of one kind for a class to have its name
BOUNDARY = "boundary"  # the class of all ranks with a wall, whichever it is
MAX_LETTERS = 3  # of a class that is named by letters: A to ZZZ


@dataclass(frozen=True, slots=True)
class RankKinds:
    """One classification of the ranks of a run group: codes (n_ranks,), -1 where unknown."""

    codes: IntArray
    names: tuple[str, ...]


@dataclass(slots=True)
class Namer:
    """Names the classes of an experiment.

    classifications: each has the kinds of ranks per run group, None where it does not apply; cache:
    matchings by the labels of all groups, because many call paths have the same; has_domain:
    whether the program creates a Cartesian communicator.
    """

    classifications: list[list[RankKinds | None]]
    has_domain: bool = False
    cache: dict[tuple[object, ...], Matching] = field(default_factory=dict)

    @classmethod
    def of(cls, domains: Sequence[Domain | None], sizes: Sequence[int]) -> "Namer":
        """A namer for run groups with these domains and numbers of ranks."""
        classifications: list[list[RankKinds | None]] = []
        if any(domain is not None for domain in domains):
            for classify in (_by_walls, _by_axes, _by_sides):
                classifications.append(
                    [None if domain is None else classify(domain) for domain in domains]
                )
        for by_rank in zip(*map(_by_rank, sizes), strict=True):
            classifications.append(list(by_rank))
        return cls(classifications, any(domain is not None for domain in domains))

    def name(self, measured: MetricValues, partition: Partition, *, is_literal: bool) -> Partition:
        """Give the classes names that do not depend on how many there are.

        If every cluster of every run is one kind of ranks (corner, edge, inner; rank 0), the kinds
        also decide which cluster is which class. Otherwise a class has the name of the kind that
        most of its ranks are, or a letter, in the order in which classes appear from the smallest
        run on.

        Args:
            measured: the metric.
            partition: its classes, by number; those that the user named stay.
            is_literal: keep the matching of [CLU §III-B] and only name it.
        """
        matchings = []
        for row, matching in enumerate(partition.matchings):
            labels = [group_labels[row] for group_labels in partition.labels]
            highest = max((group_labels.max(initial=-1) for group_labels in labels), default=-1)
            is_single = highest < 1 and len(matching.names) < 2
            if matching.is_given or is_single:
                matchings.append(matching)
                continue

            key = (matching, is_literal, *(group_labels.tobytes() for group_labels in labels))
            if key not in self.cache:
                self.cache[key] = self._name_row(measured, row, labels, matching, is_literal)
            matchings.append(self.cache[key])
        return replace(partition, matchings=matchings)

    def _name_row(
        self,
        measured: MetricValues,
        row: int,
        labels: Sequence[IntArray],
        matching: Matching,
        is_literal: bool,
    ) -> Matching:
        """The names of the classes of one call path."""
        if is_literal:
            return self._rename(labels, matching)

        by_kinds = _match_kinds(self.classifications, measured, labels, row)
        if by_kinds is not None:
            return by_kinds

        # Without a Cartesian communicator, classes may still be those of a grid.
        classes = None if self.has_domain else _classes_of_ranks(labels, matching)
        if classes is not None:
            for classification in _infer_classifications(classes):
                by_group: list[RankKinds | None] = [None] * len(labels)
                for group, kinds in zip(classes, classification, strict=True):
                    by_group[group] = kinds
                by_kinds = _match_kinds([by_group], measured, labels, row)
                if by_kinds is not None:
                    return by_kinds
        return self._rename(labels, matching)

    def _rename(self, labels: Sequence[IntArray], matching: Matching) -> Matching:
        """The same matching, named by what most ranks of each class are, or by letters."""
        for classification in self.classifications:
            names = _majority_names(labels, matching, classification)
            if names is not None:
                return replace(matching, names=names)
        names = _single_rank_names(labels, matching) or _letters(labels, matching)
        return replace(matching, names=names)


def _match_kinds(
    classifications: Sequence[Sequence[RankKinds | None]],
    measured: MetricValues,
    labels: Sequence[IntArray],
    row: int,
) -> Matching | None:
    """The matching by the first classification whose kinds are the clusters."""
    for classification in classifications:
        kinds = _kinds_of_clusters(labels, classification)
        if kinds is not None:
            values = []
            for group in measured.groups:
                values.append(mean_over_runs([measured.tables[run][row] for run in group.runs]))
            return _match_by_kinds(kinds, labels, values)
    return None


def _classes_of_ranks(labels: Sequence[IntArray], matching: Matching) -> dict[int, IntArray] | None:
    """The class of each rank, (n_ranks,) by group with values; None where one is not matched."""
    classes = {}
    for group, (group_labels, assigned) in enumerate(zip(labels, matching.assigned, strict=True)):
        if not np.any(group_labels >= 0):
            continue
        if assigned is None:
            return None
        classes[group] = np.where(group_labels < 0, -1, np.array(assigned)[group_labels])
    return classes


def _infer_classifications(classes: Mapping[int, IntArray]) -> Iterator[list[RankKinds]]:
    """Classifications of the ranks by grids that may explain their classes, a kind per group."""
    domains = infer_domains(list(classes.values()))
    if domains is not None:
        for classify in (_by_walls, _by_axes, _by_sides):
            yield list(map(classify, domains))

    # In another order of the ranks, only the sizes of classes are those of a grid.
    inferred = infer_walls(list(classes.values()))
    if inferred is not None:
        walls, axes = inferred
        names = tuple(kind_name(number, axes) for number in range(2 * axes + 1))
        yield [RankKinds(group_walls, names) for group_walls in walls]


def _by_walls(domain: Domain) -> RankKinds:
    """By the number of walls of a rank: corner, edge, inner."""
    first, last = domain.walls()
    axes = len(domain.shape)
    names = tuple(kind_name(walls, axes) for walls in range(2 * axes + 1))
    return _known_kinds(domain, (first + last).sum(axis=1), names)


def _by_axes(domain: Domain) -> RankKinds:
    """By the axes along which it has walls as well: edge x, edge y."""
    first, last = domain.walls()
    return _by_digits(domain, first + last, lambda walls: _axes_name(walls, len(domain.shape)))


def _by_sides(domain: Domain) -> RankKinds:
    """By each of its walls: edge x-, edge x+."""
    first, last = domain.walls()

    def name(sides: Sequence[int]) -> str:
        walls = ""
        for axis, side in enumerate(sides):
            if side:
                walls += AXES[axis] + ("", "-", "+", "±")[side]
        kind = kind_name(sum((side + 1) // 2 for side in sides), len(domain.shape))
        return f"{kind} {walls}".strip()

    return _by_digits(domain, first + 2 * last, name)


def _axes_name(walls: Sequence[int], axes: int) -> str:
    """The name of a rank with so many walls along each axis: `edge x`; `corner` needs no axes."""
    letters = "".join(AXES[axis] * number for axis, number in enumerate(walls))
    kind = kind_name(sum(walls), axes)
    is_clear = sum(walls) in (0, axes) and max(walls) < 2
    return kind if is_clear else f"{kind} {letters}"


def _by_digits(domain: Domain, digits: IntArray, name: Callable[[Sequence[int]], str]) -> RankKinds:
    """One kind per combination of digits below 4, (n_ranks, n_axes)."""
    axes = len(domain.shape)
    codes = digits @ 4 ** np.arange(axes)
    combinations = np.indices((4,) * axes).reshape(axes, -1).T[:, ::-1]
    names = tuple(name(combination) for combination in combinations.tolist())
    return _known_kinds(domain, codes, names)


def _known_kinds(domain: Domain, codes: IntArray, names: tuple[str, ...]) -> RankKinds:
    """The kinds of the ranks inside of the grid."""
    return RankKinds(np.where(domain.positions[:, 0] < 0, -1, codes), names)


def _by_rank(size: int) -> Iterator[RankKinds]:
    """By the number of the rank: the first, both ends, the last."""
    rank = np.arange(size)
    is_inner = (rank > 0) & (rank < size - 1)
    yield RankKinds((rank > 0).astype(np.intp), ("rank 0", "others"))
    yield RankKinds(is_inner.astype(np.intp), ("end", "inner"))
    yield RankKinds((rank < size - 1).astype(np.intp), ("last rank", "others"))
    ends = np.where(rank == 0, 0, np.where(rank < size - 1, 1, 2))
    yield RankKinds(ends, ("rank 0", "between", "last rank"))


def _contingency_table(labels: IntArray, kinds: RankKinds) -> IntArray:
    """How many ranks each cluster has of each kind: (n_clusters, n_kinds)."""
    is_known = (labels >= 0) & (kinds.codes >= 0)
    n_kinds, n_clusters = len(kinds.names), int(labels.max(initial=-1)) + 1
    cells = labels[is_known] * n_kinds + kinds.codes[is_known]
    counts = np.bincount(cells, minlength=n_clusters * n_kinds)
    table: IntArray = counts.reshape(n_clusters, n_kinds)
    return table


def _kinds_of_clusters(
    labels: Sequence[IntArray], classification: Sequence[RankKinds | None]
) -> list[list[str]] | None:
    """The kind of each cluster per run group; None unless clusters and kinds are the same."""
    result: list[list[str]] = []
    for group_labels, kinds in zip(labels, classification, strict=True):
        if not np.any(group_labels >= 0):
            result.append([])
            continue
        if kinds is None:
            return None

        has_kind = _contingency_table(group_labels, kinds) > 0
        if np.any(has_kind.sum(axis=1) != 1) or np.any(has_kind.sum(axis=0) > 1):
            return None
        result.append([kinds.names[kind] for kind in has_kind.argmax(axis=1).tolist()])
    return result


def _match_by_kinds(
    kinds: Sequence[Sequence[str]], labels: Sequence[IntArray], values: Sequence[FloatArray]
) -> Matching:
    """Clusters of one kind are one class; classes ascend by their value over the mean of all."""
    heights: dict[str, list[float]] = {}
    for names, group_labels, group_values in zip(kinds, labels, values, strict=True):
        overall = float(np.mean(group_values[group_labels >= 0])) if names else 0.0
        for index, name in enumerate(names):
            mean = float(np.mean(group_values[group_labels == index]))
            heights.setdefault(name, []).append(mean / overall if overall else mean)

    order = sorted(heights, key=lambda name: (float(np.mean(heights[name])), name))
    assigned = tuple(tuple(map(order.index, names)) or None for names in kinds)
    return Matching(tuple(order), assigned, is_complete=True)


def _majority_names(
    labels: Sequence[IntArray], matching: Matching, classification: Sequence[RankKinds | None]
) -> tuple[str, ...] | None:
    """Names by the kind that most ranks of each class are; None unless these differ.

    Most ranks of that kind must be in the class, too: any two ranks of a chain are inner ranks.
    """
    n_classes = len(matching.names)
    ranks_by_kind: dict[str, FloatArray] = {}
    total = np.zeros(n_classes)
    for group_labels, assigned, kinds in zip(
        labels, matching.assigned, classification, strict=True
    ):
        if assigned is None or kinds is None:
            continue
        for name, column in zip(
            kinds.names, _contingency_table(group_labels, kinds).T, strict=True
        ):
            ranks = ranks_by_kind.setdefault(name, np.zeros(n_classes))
            np.add.at(ranks, list(assigned), column)
            np.add.at(total, list(assigned), column)
    if not n_classes or not np.all(total):
        return None

    names = list(ranks_by_kind)
    ranks = np.array([ranks_by_kind[name] for name in names])
    best = ranks.argmax(axis=0)
    n_common = ranks.max(axis=0)
    is_kind = (n_common >= MAJORITY * total) & (n_common >= MAJORITY * ranks.sum(axis=1)[best])
    if np.all(is_kind) and len(set(best.tolist())) == n_classes:
        return tuple(names[index] for index in best.tolist())

    # Two classes may be the inner ranks, and all others.
    inner = ranks_by_kind.get("inner", np.zeros(n_classes)) / total
    if n_classes == 2 and inner.max() >= MAJORITY and inner.min() <= 1 - MAJORITY:
        return tuple("inner" if share >= MAJORITY else BOUNDARY for share in inner.tolist())
    return None


def _single_rank_names(labels: Sequence[IntArray], matching: Matching) -> tuple[str, ...] | None:
    """Names where all classes but one are a single rank each; None elsewhere.

    They are `rank 1` and `all but rank 1`. Such a rank is alone, and the same one, in runs of at
    least two numbers of ranks, and in no run among the others.
    """
    classes = _classes_of_ranks(labels, matching)
    if classes is None:
        return None

    single_ranks: list[int | None] = []
    for number in range(len(matching.names)):
        members = set()
        sizes = set()
        for run_classes in classes.values():
            ranks = tuple(np.flatnonzero(run_classes == number).tolist())
            if ranks:
                members.add(ranks)
                sizes.add(len(run_classes))
        single = min(members, default=())
        is_single = len(sizes) > 1 and len(members) == 1 and len(single) == 1
        single_ranks.append(single[0] if is_single else None)
    if single_ranks.count(None) != 1 or len(single_ranks) < 2:
        return None

    listed = sorted(rank for rank in single_ranks if rank is not None)
    rest_class = single_ranks.index(None)
    for run_classes in classes.values():
        if set(listed) & set(np.flatnonzero(run_classes == rest_class).tolist()):
            return None  # where runs are small, such a rank may be as the others

    rest = f"all but rank{'s' * (len(listed) > 1)} {', '.join(map(str, listed))}"
    return tuple(rest if rank is None else f"rank {rank}" for rank in single_ranks)


def _letters(labels: Sequence[IntArray], matching: Matching) -> tuple[str, ...]:
    """A, B, C in the order in which classes appear: from the smallest run on, by lowest rank."""
    if len(matching.names) < 2:
        return tuple(ALL for _ in matching.names)

    names: dict[int, str] = {}
    for group_labels, assigned in zip(labels, matching.assigned, strict=True):
        if assigned:
            clusters, first = np.unique(group_labels[group_labels >= 0], return_index=True)
            for index in clusters[np.argsort(first, kind="stable")].tolist():
                names.setdefault(assigned[index], letter(len(names)))
    return tuple(names[index] for index in range(len(matching.names)))


def letter(index: int) -> str:
    """A to Z, then AA, AB, …"""
    head, last = divmod(index, 26)
    return (letter(head - 1) if head else "") + chr(ord("A") + last)


def is_letter(name: str) -> bool:
    """Whether a class has this name because nothing is known about its ranks."""
    return name.isalpha() and name.isupper() and len(name) <= MAX_LETTERS
