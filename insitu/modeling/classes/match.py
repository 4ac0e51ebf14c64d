"""Recognising the same behaviour class in runs at other coordinates."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from insitu.entities import CallPath, Finding, RunKey
from insitu.modeling.base import ALL, Clusters
from insitu.modeling.classes.run_groups import coordinate_name
from insitu.text import list_some

MAX_REPORTED = 4  # runs without a class that one finding names
UNMATCHED = "unmatched "  # begins the names of clusters that are in no class
MIN_COORDINATES = 4  # that a model of a subset of the runs needs [CLU §V]


@dataclass(frozen=True, slots=True)
class Matching:
    """Which cluster of which run is which behaviour class, for one metric of one call path.

    names: the behaviour classes, ascending by value.
    assigned: per run group the class of each of its clusters; None where the group has no value or
        its clusters could not be matched.
    is_complete: whether every group with values is matched.
    is_given: whether the classes come from a rule of the user.
    """

    names: tuple[str, ...]
    assigned: tuple[tuple[int, ...] | None, ...]
    is_complete: bool
    is_given: bool = False


def class_names(count: int) -> tuple[str, ...]:
    """Provisional names: numbers ascending by value; `all` for a single class."""
    if count == 1:
        return (ALL,)
    return tuple(str(index + 1) for index in range(count))


def unmatched_names(count: int) -> tuple[str, ...]:
    """Names for the clusters of a run that could not be matched, ascending by value."""
    if count == 1:
        return (ALL,)
    return tuple(f"{UNMATCHED}{index + 1}" for index in range(count))


def is_class_name(name: str) -> bool:
    """Whether the name is that of one of several classes that are matched across runs."""
    return name != ALL and not name.startswith(UNMATCHED)


def match_equal(counts: Sequence[int], coordinates: Sequence[tuple[float, ...]]) -> Matching:
    """Match clusters in ascending order where runs have equally many of them [CLU §III-B].

    Where the numbers differ, the largest subset of coordinates with equal numbers is matched if it
    has at least MIN_COORDINATES; of two equally large subsets the one that reaches further.

    Args:
        counts: number of clusters per run group, 0 where the call path has no value.
        coordinates: of each group.
    """
    subsets: dict[int, list[int]] = defaultdict(list)
    for index, count in enumerate(counts):
        if count:
            subsets[count].append(index)
    if not subsets:
        return Matching((ALL,), (None,) * len(counts), is_complete=True)

    def extent(count: int) -> tuple[int, tuple[float, ...]]:
        distinct = {coordinates[index] for index in subsets[count]}
        return len(distinct), max(distinct)

    best = max(subsets, key=extent)
    is_complete = len(subsets) == 1
    is_matched = is_complete or extent(best)[0] >= MIN_COORDINATES

    classes = tuple(range(best))
    return Matching(
        names=class_names(best) if is_matched else (),
        assigned=tuple(classes if is_matched and count == best else None for count in counts),
        is_complete=is_complete,
    )


def report_unequal_counts(
    callpath: CallPath,
    metric: str,
    *,
    runs: Sequence[RunKey],
    counts: Sequence[int],
    matching: Matching,
) -> Finding:
    """Name the number of classes of each run, and what that means for the models.

    Args:
        callpath, metric: the series.
        runs: the first of each run group.
        counts: number of clusters per group, 0 where there is no value.
        matching: of the groups.
    """
    by_count: dict[int, list[str]] = defaultdict(list)
    unmatched = []
    for run, count, assigned in zip(runs, counts, matching.assigned, strict=True):
        if count:
            by_count[count].append(coordinate_name(run))
        if count and assigned is None:
            unmatched.append(coordinate_name(run))

    numbers = []
    for count, names in sorted(by_count.items()):
        noun = "class" if count == 1 else "classes"
        numbers.append(f"{count} {noun} at {' '.join(names)}")

    if len(matching.names) > 1:
        consequence = f"the models of {', '.join(matching.names)} do not use {' '.join(unmatched)}"
    else:
        consequence = (
            f"no class is modelled, because no {MIN_COORDINATES} coordinates have the same number "
            "of several classes"
        )

    text = (
        f"{metric} of {callpath.name}: the number of behaviour classes differs between runs "
        f"({'; '.join(numbers)}); {consequence}; '{ALL}' is the mean over all ranks"
    )
    return Finding("classes-differ", text, str(callpath))


def report_missing_classes(clusters: Iterable[Clusters]) -> list[Finding]:
    """Report, once for all call paths, which runs lack classes that other runs have."""
    by_series: dict[tuple[CallPath, str], list[Clusters]] = defaultdict(list)
    for run_clusters in clusters:
        by_series[run_clusters.callpath, run_clusters.metric].append(run_clusters)

    paths: set[CallPath] = set()
    lacking: dict[tuple[float, ...], str] = {}  # the names of runs, by their parameters
    for (path, _), members in by_series.items():
        all_names = {name for run_clusters in members for name in run_clusters.names}
        for run_clusters in members:
            if len(run_clusters.names) < len(all_names) and ALL not in run_clusters.names:
                paths.add(path)
                run = run_clusters.run
                lacking[tuple(value for _, value in run.parameters)] = coordinate_name(run)
    if not paths:
        return []

    runs = [name for _, name in sorted(lacking.items())]
    shown = list_some(runs, MAX_REPORTED, separator=" ")
    text = (
        f"{shown} lack{'s' * (len(runs) == 1)} behaviour classes of {len(paths)} call "
        f"path{'s' * (len(paths) != 1)}; insitu classes lists them, and larger runs may have them"
    )
    return [Finding("classes-matched", text)]
