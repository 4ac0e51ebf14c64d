"""Behaviour classes from all that is known of a rank: counts where they tell, times where not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from insitu.entities import TIME, CallPath, Finding, MetricKind
from insitu.modeling.classes.align import (
    MOST_CLASSES,
    RunClusters,
    align,
    follow_laws,
    match_equal_values,
)
from insitu.modeling.classes.behaviour import MetricValues, Partition
from insitu.modeling.classes.candidates import Candidate, find_candidates
from insitu.modeling.classes.cluster import BoolArray, class_means, cluster
from insitu.modeling.classes.counts import DISTINCT, CountLabels, find_count_labels, label_counts
from insitu.modeling.classes.domain import Domain
from insitu.modeling.classes.match import Matching, class_names, match_equal
from insitu.modeling.classes.mixture import Mixture, find_classes
from insitu.modeling.classes.run_groups import (
    RunGroup,
    coordinate_name,
    mean_over_runs,
    values_by_run,
)
from insitu.modeling.classes.scatter import (
    UNKNOWN_FLOOR,
    are_ranks_alike,
    are_surely_uniform,
    is_order_random,
    repetition_spread,
    row_medians,
)
from insitu.modeling.measurement import Experiment, FloatArray, IntArray

COUNT_SPREAD = 0.002  # relative, of counts about a law
TIME_SPREAD = 0.01  # relative, least of times about a law
RELEVANT = 0.01  # share of its root's time below which a call path is not worth a mixture
LEAST_FLOOR = 1e-3  # relative spread below which no ranks are told apart by their times
UNREPEATED = 8.0  # margin of the criterion where nothing was repeated: odds of 50
NOTHING = Matching((), (), True)  # of a call path that is not matched yet


@dataclass(frozen=True, slots=True)
class ClassEvidence:
    """What counts tell per call path: by its own, or with those of all call paths below it.

    root_times: (n_runs,), mean time of each call path that has no parent; is_crowded: whether ranks
    of a run shared processor cores, so that times tell who had to wait and not who did more;
    ways: guesses at classes; mixtures: those found so far, by their values: at a leaf, inclusive
    and exclusive times are the same.
    """

    own: Mapping[CallPath, CountLabels]
    below: Mapping[CallPath, CountLabels]
    root_times: Mapping[CallPath, FloatArray]
    is_crowded: bool = False
    ways: Sequence[Candidate] = ()
    mixtures: dict[bytes, Mixture] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        paths: Sequence[CallPath],
        places: Sequence[RunGroup],
        domains: Sequence[Domain | None],
    ) -> "ClassEvidence":
        """Ask the deterministic metrics of these call paths."""
        own, below = find_count_labels(experiment, paths, places)
        roots = [path for path in paths if path.parent is None]
        tables = values_by_run(experiment, TIME.name, roots)
        means = [class_means(one, np.zeros(one.shape, dtype=np.intp), 1)[:, 0] for one in tables]
        times = np.array(means).reshape(len(tables), len(roots)).T
        ways = find_candidates([place.size for place in places], domains)
        by_root = dict(zip(roots, times, strict=True))
        return cls(own, below, by_root, bool(experiment.crowded), ways)


@dataclass(slots=True)
class _Parting:
    """A partition under way; `laws` remembers what was aligned already."""

    measured: MetricValues
    labels: list[IntArray]
    matchings: list[Matching]
    x: list[float]
    findings: list[Finding] = field(default_factory=list)
    mixtures: dict[bytes, Mixture] = field(default_factory=dict)
    ways: Sequence[Candidate] = ()
    laws: dict[tuple[object, ...], list[tuple[int, ...]]] = field(default_factory=dict)


def partition_jointly(measured: MetricValues, clues: ClassEvidence) -> Partition:
    """Part ranks by counts where there are any that tell, else by a mixture over all runs.

    Counts part by themselves; total times by the counts of their call path and of all below it,
    other metrics by those of their call path; levels of memory by themselves. Clusters are matched
    across runs by laws of value and size, so that runs with fewer classes count too.
    """
    metric = measured.metric
    places = measured.places
    runs = [[measured.tables[run] for run in place.runs] for place in places]
    means = [mean_over_runs(one) for one in runs]
    labels = [np.where(np.isfinite(one), 0, -1) for one in means]
    sizes = {place.size for place in places}
    x = [float(place.size if len(sizes) > 1 else place.coordinate[0]) for place in places]
    nothing = [NOTHING] * len(measured.paths)
    parting = _Parting(measured, labels, nothing, x, mixtures=clues.mixtures, ways=clues.ways)
    if metric.is_deterministic:
        parting.labels[:] = [label_counts(one) for one in means]
        for row in range(len(measured.paths)):
            _match(parting, row, [one[row] for one in means], spread=COUNT_SPREAD)
        return Partition(parting.labels, parting.matchings, parting.findings)
    witnesses = clues.below if metric.name == TIME.name else clues.own
    medians = [row_medians(np.stack(one, axis=-1)) for one in runs]
    rest = []
    for row, path in enumerate(measured.paths):
        if path in witnesses and witnesses[path].parts:
            _part_by_witness(parting, row, [one[row] for one in means], witnesses[path])
        else:
            rest.append(row)
    if metric.kind is MetricKind.GAUGE:
        _part_levels(parting, rest, medians)
    else:
        is_time = metric.unit == TIME.unit
        uniform = _minor(measured, clues.root_times) | (clues.is_crowded and is_time)
        _part_times(parting, rest, means, medians, uniform)
    return Partition(parting.labels, parting.matchings, parting.findings)


def _part_levels(parting: _Parting, rows: Sequence[int], medians: Sequence[FloatArray]) -> None:
    """By relative distance, where the sizes of the classes are as those of parts of a domain.

    How much memory a rank has when it is asked, or has left in caches, is half an accident.
    """
    measured = parting.measured
    chance = is_order_random(measured.tables, measured.places)
    for row in rows:
        values = [one[row] for one in medians]
        if not chance[row] and all(np.all((one > 0) | np.isnan(one)) for one in values):
            for labels, one in zip(parting.labels, values, strict=True):
                labels[row] = cluster(one)
            _match(parting, row, values, spread=TIME_SPREAD)
            if _is_lawful(parting, row, values):
                continue
        _make_one(parting, row, values)


def _make_one(parting: _Parting, row: int, values: Sequence[FloatArray]) -> None:
    """All ranks that have a value are one class."""
    for labels in parting.labels:
        labels[row] = np.minimum(labels[row], 0)
    _match(parting, row, values, spread=TIME_SPREAD)


def _part_times(
    parting: _Parting,
    rows: Sequence[int],
    means: Sequence[FloatArray],
    medians: Sequence[FloatArray],
    uniform: BoolArray,
) -> None:
    """Row by row: as one class, by a mixture, by distance where a logarithm fails."""
    measured = parting.measured
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.where(one > 0, np.log(one), np.nan) for one in medians]
    spread = repetition_spread(measured.tables, measured.places)
    uniform = uniform | is_order_random(measured.tables, measured.places)
    has_zero = np.zeros(len(measured.paths), dtype=bool)
    for one in medians:
        has_zero |= (one <= 0).any(axis=1)
    if logs:
        uniform |= are_surely_uniform(logs, spread) & ~has_zero
        left = np.flatnonzero(np.isnan(spread) & ~uniform & ~has_zero)
        uniform[left] = are_ranks_alike([one[left] for one in logs])
    floors = np.where(np.isnan(spread), UNKNOWN_FLOOR, np.fmax(spread, LEAST_FLOOR))
    for row in rows:
        values = [one[row] for one in means]
        if uniform[row]:
            _make_one(parting, row, values)
        elif has_zero[row]:
            for labels, one in zip(parting.labels, values, strict=True):
                labels[row] = cluster(one)
            _match(parting, row, values, spread=TIME_SPREAD)
        else:
            strange = len(parting.findings)
            margin = UNREPEATED if np.isnan(spread[row]) else 0.0
            middle = [one[row] for one in medians]
            found = _mixture(parting, row, middle, (float(floors[row]), margin))
            if found.is_guess:
                continue
            _match(parting, row, values, spread=max(found.spread, TIME_SPREAD))
            if np.isnan(spread[row]) and not _is_lawful(parting, row, values):
                del parting.findings[strange:]  # classes of one repetition, of sizes as noise has
                _make_one(parting, row, values)


def _is_lawful(parting: _Parting, row: int, values: Sequence[FloatArray]) -> bool:
    """Whether the classes of the row matched last are as parts of a domain are."""
    matching = parting.matchings[row]
    if not matching.is_complete:
        return False
    sizes, means, x = [], [], []
    for labels, assigned, one, at in zip(
        parting.labels, matching.assigned, values, parting.x, strict=True
    ):
        if assigned:
            size, mean = np.zeros((2, len(matching.names)))
            size[list(assigned)] = _sizes(labels[row])
            mean[list(assigned)] = class_means(one[None], labels[row][None], len(assigned))[0]
            sizes.append(size)
            means.append(mean)
            x.append(at)
    return follow_laws(np.array(sizes), np.array(means), np.array(x))


def _minor(measured: MetricValues, root_times: Mapping[CallPath, FloatArray]) -> BoolArray:
    """Times that are a small part of their root's in every rank of every run: (n_paths,).

    Their ranks count as one class unless a witness parts them: the search is not worth its cost.
    A path that is dear in a few ranks only is not minor, however small its mean.
    """
    minor = np.zeros(len(measured.paths), dtype=bool)
    if measured.metric.unit != TIME.unit:
        return minor
    most = [np.where(np.isfinite(one), one, 0.0).max(axis=1, initial=0) for one in measured.tables]
    for row, path in enumerate(measured.paths):
        root = root_times.get(CallPath(path.frames[:1]))
        if root is not None:
            share = np.array([one[row] for one in most]) / np.where(root > 0, root, np.nan)
            known = share[np.isfinite(share)]
            minor[row] = known.size > 0 and float(known.max()) < RELEVANT
    return minor


def _part_by_witness(
    parting: _Parting, row: int, values: Sequence[FloatArray], witness: CountLabels
) -> None:
    """Take over the classes that counts tell, named in the order of the values."""
    for labels, code, one in zip(parting.labels, witness.codes, values, strict=True):
        labels[row] = cluster(np.where(np.isfinite(one), code + 1.0, np.nan), DISTINCT)
    _match(parting, row, witness.values, spread=COUNT_SPREAD)
    matching = parting.matchings[row]
    heights = np.full((len(values), len(matching.names)), np.nan)
    for place, (labels, one) in enumerate(zip(parting.labels, values, strict=True)):
        chosen = matching.assigned[place] or ()
        with np.errstate(divide="ignore", invalid="ignore"):
            means = class_means(one[None], labels[row][None], max(len(chosen), 1))[0]
            middle = class_means(one[None], np.zeros((1, len(one)), dtype=np.intp), 1)[0, 0]
            heights[place, list(chosen)] = np.log(means / middle)[: len(chosen)]
    heights = np.where(np.isfinite(heights), heights, np.nan)
    order = np.argsort(_column_means(heights), kind="stable")
    rank = np.argsort(order)
    parting.matchings[row] = Matching(
        matching.names,
        tuple(
            tuple(int(rank[label]) for label in chosen) if chosen is not None else None
            for chosen in matching.assigned
        ),
        matching.is_complete,
    )


def _column_means(values: FloatArray) -> FloatArray:
    """Mean of each column without NaN; 0 where there is nothing."""
    present = np.isfinite(values)
    means: FloatArray = np.where(present, values, 0.0).sum(axis=0) / np.maximum(
        present.sum(axis=0), 1
    )
    return means


def _mixture(
    parting: _Parting, row: int, values: Sequence[FloatArray], least: tuple[float, float]
) -> Mixture:
    """Part by a mixture over all places; name the ranks that fit no class.

    least: spread of ranks, and by how much several classes must be better than one.
    """
    used = [place for place, one in enumerate(values) if np.isfinite(one).any()]
    present = [np.isfinite(values[place]) for place in used]
    mark = np.concatenate([least, *values]).tobytes()
    if mark not in parting.mixtures:
        parting.mixtures[mark] = find_classes(
            [values[place][ranks] for place, ranks in zip(used, present, strict=True)],
            x=np.array([parting.x[place] for place in used]),
            floor=least[0],
            margin=least[1],
            ways=[
                [way[place][ranks] for place, ranks in zip(used, present, strict=True)]
                for way in parting.ways
            ],
        )
    found = parting.mixtures[mark]
    strange = []
    if found.is_guess:
        assigned: list[tuple[int, ...] | None] = [None] * len(values)
        for place, labels in zip(used, found.labels, strict=True):
            assigned[place] = tuple(np.unique(labels).tolist())
        count = 1 + max(int(labels.max()) for labels in found.labels)
        parting.matchings[row] = Matching(class_names(count), tuple(assigned), True)
    for place, ranks, labels, is_outlier in zip(
        used, present, found.labels, found.is_outlier, strict=True
    ):
        parting.labels[place][row, ranks] = cluster(labels + 1.0, DISTINCT)
        here = coordinate_name(parting.measured.places[place].key)
        strange += [f"rank {rank} at {here}" for rank in np.flatnonzero(ranks)[is_outlier]]
    if strange:
        path, metric = parting.measured.paths[row], parting.measured.metric.name
        more = f" and {len(strange) - 5} more" if len(strange) > 5 else ""
        parting.findings.append(
            Finding(
                "outlier-ranks",
                f"{metric} of {path.name} fits no behaviour class: {', '.join(strange[:5])}{more}",
                str(path),
            )
        )
    return found


def _match(parting: _Parting, row: int, values: Sequence[FloatArray], *, spread: float) -> None:
    """Match the clusters of one call path, by laws where their number differs."""
    labels = [one[row] for one in parting.labels]
    counts = [int(one.max(initial=-1)) + 1 for one in labels]
    places = parting.measured.places
    most = max(counts, default=0)
    groups = [
        RunClusters(x, class_means(one[None], label[None], max(count, 1))[0, :count], _sizes(label))
        for x, one, label, count in zip(parting.x, values, labels, counts, strict=True)
        if most <= MOST_CLASSES
    ]
    assigned = match_equal_values(groups) if spread == COUNT_SPREAD and most > 1 else None
    is_uneven = len({count for count in counts if count}) > 1
    if assigned is None and is_uneven and groups:
        assigned = _aligned(parting, groups, spread)
    if assigned is None:
        parting.matchings[row] = match_equal(counts, [place.coordinate for place in places])
        return
    complete = all(one or not count for one, count in zip(assigned, counts, strict=True))
    names = class_names(max(label for one in assigned for label in one) + 1)
    parting.matchings[row] = Matching(names, tuple(one or None for one in assigned), complete)


def _sizes(labels: IntArray) -> FloatArray:
    return np.bincount(labels[labels >= 0]).astype(np.float64)


def _aligned(
    parting: _Parting, groups: Sequence[RunClusters], spread: float
) -> list[tuple[int, ...]]:
    """Align, once for all call paths whose clusters have the same sizes and proportions."""
    scale = next((one.values[-1] for one in groups if one.values.size), 1.0) or 1.0
    key: tuple[object, ...] = (
        spread,
        *(
            (one.x, one.sizes.tobytes(), np.round(one.values / scale, 4).tobytes())
            for one in groups
        ),
    )
    if key not in parting.laws:
        parting.laws[key] = align(groups, spread=spread)
    return parting.laws[key]
