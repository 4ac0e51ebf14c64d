"""Recognising the same behaviour class in runs at other coordinates."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from insitu.entities import CallPath, Finding, RunKey
from insitu.modeling.base import Clusters
from insitu.modeling.classes.run_groups import coordinate_name

ALL = "all"  # the class of all ranks
SAID = 4  # differences between runs that one sentence names
ENOUGH = 4  # coordinates that a model of a subset of the runs needs [CLU §V]


@dataclass(frozen=True, slots=True)
class Matching:
    """Which cluster of which run is which behaviour class, for one metric of one call path.

    names: the behaviour classes, ascending by value.
    assigned: per run the class of each of its clusters; None where the run has no value or its
        clusters could not be matched.
    is_complete: whether every run with values is matched.
    is_given: whether the user said which ranks are which class.
    """

    names: tuple[str, ...]
    assigned: tuple[tuple[int, ...] | None, ...]
    is_complete: bool
    is_given: bool = False


def class_names(count: int) -> tuple[str, ...]:
    """Numbers ascending by value, until classes get names that last; `all` for a single one."""
    if count == 1:
        return (ALL,)
    return tuple(str(index + 1) for index in range(count))


def unmatched_names(count: int) -> tuple[str, ...]:
    """Names of clusters of a run that are no known class, ascending by value."""
    return (ALL,) if count == 1 else tuple(f"unmatched {index + 1}" for index in range(count))


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


def report_unequal_counts(
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
            by_count[count].append(coordinate_name(run))
    parts = [
        f"{count} {'class' if count == 1 else 'classes'} at {' '.join(places)}"
        for count, places in sorted(by_count.items())
    ]
    left_out = [
        coordinate_name(run)
        for run, count, assigned in zip(runs, counts, matching.assigned, strict=True)
        if count and assigned is None
    ]
    if len(matching.names) > 1:
        names = ", ".join(matching.names)
        made = f"{names} are modelled without {' '.join(left_out)}"
    else:
        made = f"no {ENOUGH} coordinates agree on several classes, so none is modelled"
    return Finding(
        "classes-differ",
        f"{metric} of {callpath.name}: the number of behaviour classes differs between runs "
        f"({'; '.join(parts)}); {made}; '{ALL}' is the mean over all ranks",
        str(callpath),
    )


def report_missing_classes(clusters: Iterable[Clusters]) -> list[Finding]:
    """Say once for all call paths which runs lack which classes that other runs have."""
    series: dict[tuple[CallPath, str], list[Clusters]] = defaultdict(list)
    for one in clusters:
        series[one.callpath, one.metric].append(one)
    said: dict[str, set[CallPath]] = defaultdict(set)
    for (path, _), members in series.items():
        every = {name for one in members for name in one.names}
        for one in members if len(every) > 1 else ():
            if len(one.names) < len(every) and ALL not in one.names:
                said[f"{coordinate_name(one.run)} has only {', '.join(one.names)}"].add(path)
    if not said:
        return []
    often = sorted(said, key=lambda text: (-len(said[text]), text))
    parts = [f"{text} ({_paths(len(said[text]))})" for text in often[:SAID]]
    more = f"; and {len(often) - SAID} more" if len(often) > SAID else ""
    text = f"not every run has all behaviour classes: {'; '.join(parts)}{more}"
    return [Finding("classes-matched", text)]


def _paths(count: int) -> str:
    return "1 call path" if count == 1 else f"{count} call paths"
