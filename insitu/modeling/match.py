"""Recognising the same behaviour class in runs at other coordinates."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from insitu.entities import CallPath, Finding, RunKey
from insitu.modeling.places import place_name

ALL = "all"  # the class of all ranks
ENOUGH = 4  # coordinates that a model of a subset of the runs needs [CLU §V]


@dataclass(frozen=True, slots=True)
class Matching:
    """Which cluster of which run is which behaviour class, for one metric of one call path.

    names: the behaviour classes, ascending by value.
    assigned: per run the class of each of its clusters; None where the run has no value or its
        clusters could not be matched.
    is_complete: whether every run with values is matched.
    """

    names: tuple[str, ...]
    assigned: tuple[tuple[int, ...] | None, ...]
    is_complete: bool


def class_names(count: int) -> tuple[str, ...]:
    """Names by rank order: `all`, or `1/3`, `2/3`, `3/3` ascending by value."""
    if count == 1:
        return (ALL,)
    return tuple(f"{index + 1}/{count}" for index in range(count))


def match_equal(counts: Sequence[int], coordinates: Sequence[tuple[float, ...]]) -> Matching:
    """Match clusters in ascending order where runs have equally many of them [CLU §III-B].

    Where the numbers differ, the largest subset of coordinates with equal numbers is matched if it
    has at least `ENOUGH`; of two equally large subsets the one that reaches further.

    Args:
        counts: number of clusters per run, 0 where the call path has no value.
        coordinates: of each run.
    """
    subsets: dict[int, list[int]] = defaultdict(list)
    for index, count in enumerate(counts):
        if count:
            subsets[count].append(index)
    if not subsets:
        return Matching((ALL,), (None,) * len(counts), True)

    def extent(count: int) -> tuple[int, tuple[float, ...]]:
        places = {coordinates[index] for index in subsets[count]}
        return len(places), max(places)

    best = max(subsets, key=extent)
    is_complete = len(subsets) == 1
    matched = is_complete or extent(best)[0] >= ENOUGH
    chosen = tuple(range(best))
    return Matching(
        class_names(best) if matched else (),
        tuple(chosen if matched and count == best else None for count in counts),
        is_complete,
    )


def differing(
    callpath: CallPath,
    metric: str,
    *,
    runs: Sequence[RunKey],
    counts: Sequence[int],
    matching: Matching,
) -> Finding:
    """Say which runs have how many classes, and what that means for the models."""
    by_count: dict[int, list[str]] = defaultdict(list)
    for run, count in zip(runs, counts, strict=True):
        if count:
            by_count[count].append(place_name(run))
    parts = [
        f"{count} {'class' if count == 1 else 'classes'} at {' '.join(places)}"
        for count, places in sorted(by_count.items())
    ]
    if len(matching.names) > 1:
        made = f"classes are modelled where there are {len(matching.names)}"
    else:
        made = f"no {ENOUGH} coordinates agree on several classes, so none is modelled"
    return Finding(
        "classes-differ",
        f"{metric} of {callpath.name}: the number of behaviour classes differs between runs "
        f"({'; '.join(parts)}); {made}; '{ALL}' is the mean over all ranks",
        str(callpath),
    )


def matched_by_laws(
    callpath: CallPath, *, runs: Sequence[RunKey], counts: Sequence[int], matching: Matching
) -> Finding:
    """Say which classes the runs have that lack some."""
    parts = []
    for run, count, assigned in zip(runs, counts, matching.assigned, strict=True):
        if assigned is None and count:
            parts.append(f"{place_name(run)} has classes of its own")
        elif assigned is not None and 0 < count < len(matching.names):
            names = " ".join(matching.names[index] for index in assigned)
            parts.append(f"{place_name(run)} has only {names}")
    return Finding(
        "classes-matched",
        f"{callpath.name}: not every run has all {len(matching.names)} behaviour classes; by the "
        f"laws of their values and sizes {'; '.join(parts)}",
        str(callpath),
    )
