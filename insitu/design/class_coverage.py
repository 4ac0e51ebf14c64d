"""Runs that are missing so that every behaviour class was measured at enough scales."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from insitu.entities import RANKS
from insitu.modeling.base import Clusters
from insitu.modeling.classes.match import is_class_name
from insitu.modeling.classes.naming import is_letter
from insitu.modeling.rank_counts import list_rank_counts_between, next_rank_counts

ENOUGH_SCALES = 5  # numbers of ranks at which a class has to exist for a reliable model


@dataclass(frozen=True, slots=True)
class ClassGap:
    """A class that exists at too few numbers of ranks.

    name: of the class; count: at how many it exists; smallest: the least of them.
    """

    name: str
    count: int
    smallest: int


def find_class_gaps(clusters: Iterable[Clusters]) -> list[ClassGap]:
    """Find the classes of the largest run that exist at fewer than ENOUGH_SCALES numbers of ranks.

    A class exists where any call path and metric shows it: a name means the same ranks in all.

    Returns:
        The rarest class first, each name once; of equally rare ones those with letters last.
    """
    sizes: dict[str, set[int]] = defaultdict(set)
    for entry in clusters:
        for name in entry.names:
            if is_class_name(name):
                sizes[name].add(entry.run.size)

    largest = max((max(of_class) for of_class in sizes.values()), default=0)
    gaps = []
    for name, of_class in sizes.items():
        if len(of_class) < ENOUGH_SCALES and max(of_class) == largest:
            gaps.append(ClassGap(name, len(of_class), min(of_class)))
    return sorted(gaps, key=lambda gap: (gap.count, is_letter(gap.name), gap.name))


def propose_class_runs(
    gaps: Sequence[ClassGap], measured: Sequence[int], allowed: Sequence[float]
) -> dict[int, str]:
    """Choose numbers of ranks so that each class exists at ENOUGH_SCALES of them.

    Args:
        gaps: from `find_class_gaps`.
        measured: the numbers of ranks of the runs so far.
        allowed: those that runs may have, empty for any that the program seems to accept.

    Returns:
        Why, by number of ranks, the smallest first.
    """
    reasons: dict[int, str] = {}
    for gap in gaps:
        missing = ENOUGH_SCALES - gap.count
        if allowed:
            candidates = sorted({int(size) for size in allowed} - set(measured))
        else:
            larger = next_rank_counts(measured, missing, float("inf"))
            candidates = [*list_rank_counts_between(measured), *larger]
        chosen = [size for size in candidates if size > gap.smallest][:missing]
        for size in chosen:
            text = f"class {gap.name} exists at {gap.count} of {ENOUGH_SCALES} values of {RANKS}"
            reasons.setdefault(size, text)
    return dict(sorted(reasons.items()))
