"""Which ranks execute a call path: all of them, a few, or one that the others wait for."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import RANKS, TIME, TIME_EXCLUSIVE, VISITS, CallPath, Finding, number
from insitu.modeling.base import ALL, ModelSet, SeriesModel
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.units import quantity

# Metrics that every rank has that executes a call path. Others may be measured on some ranks only.
DECISIVE = (VISITS.name, TIME_EXCLUSIVE.name, TIME.name)
SERIAL_PATH = "serial-path"  # the finding of a growing call path that few ranks execute
SERIAL_FACTOR = 4.0  # times the largest run, where the growth of such a call path is judged
SERIAL_GROWTH = 1.5  # least growth up to there: a lower bound that noise does not reach
SERIAL_SHARE = 0.01  # least share of the time of the largest run
FEW_SHARE = 1 / 8  # of the ranks of the largest run; a constant number below it is named


@dataclass(frozen=True, slots=True)
class Participation:
    """The ranks that execute a call path.

    counts: how many, by the number of ranks of the run; only: the rank that executes it alone in
    every run of several ranks, None if there is none.
    """

    counts: Mapping[int, int]
    only: int | None = None

    def share(self, ranks: FloatArray) -> FloatArray:
        """The share of the ranks that execute it in runs of these numbers of ranks: (n,).

        A number that is the same in all runs, or leaves out equally many ranks in all of them, is
        taken to stay so; otherwise it is the share in the largest run.
        """
        several = {size: count for size, count in self.counts.items() if size > 1}
        executing = set(several.values())
        absent = {size - count for size, count in several.items()}
        if not several or absent == {0}:
            return np.ones(len(ranks))
        if len(several) > 1 and len(executing) == 1:
            return np.asarray(np.minimum(min(executing) / ranks, 1.0))
        if len(several) > 1 and len(absent) == 1:
            return np.asarray(np.maximum(1 - min(absent) / ranks, 1 / ranks))

        largest = max(several)
        return np.full(len(ranks), several[largest] / largest)

    @property
    def text(self) -> str:
        """`rank 0 only`, or `2 of 64 ranks` for a vanishing share; "" for all and for many."""
        if self.only is not None:
            return f"rank {self.only} only"

        several = {size: count for size, count in self.counts.items() if size > 1}
        largest = max(several, default=0)
        is_constant = len(several) > 1 and len(set(several.values())) == 1
        if is_constant and several[largest] <= FEW_SHARE * largest:
            return f"{several[largest]} of {largest} ranks"
        return ""


def find_participations(
    models: ModelSet, metric: str, only: Container[CallPath] | None = None
) -> dict[CallPath, Participation]:
    """Find which ranks execute each call path: those that have a value of a metric.

    Args:
        models: of the campaign.
        metric: its name.
        only: the call paths of interest; all by default.
    """
    counts: dict[CallPath, dict[int, int]] = {}
    lone_ranks: dict[CallPath, set[int]] = {}
    executing_of: dict[int, IntArray] = {}  # by array of labels, which call paths share
    for clusters in models.clusters:
        path = clusters.callpath
        if clusters.metric != metric or (only is not None and path not in only):
            continue

        labels = id(clusters.labels)
        if labels not in executing_of:
            executing_of[labels] = np.flatnonzero(clusters.labels >= 0)
        executing = executing_of[labels]
        size = len(clusters.labels)
        sizes = counts.setdefault(path, {})
        sizes[size] = max(len(executing), sizes.get(size, 0))
        if size > 1:
            lone_rank = int(executing[0]) if len(executing) == 1 else -1
            lone_ranks.setdefault(path, set()).add(lone_rank)

    participations = {}
    for path, sizes in counts.items():
        lone = lone_ranks.get(path, {-1})
        alone = min(lone) if len(lone) == 1 and min(lone) >= 0 else None
        participations[path] = Participation(sizes, alone)
    return participations


def name_few_ranks(models: ModelSet) -> dict[CallPath, str]:
    """Name the ranks of call paths that one rank or a vanishing share of the ranks executes."""
    present = dict.fromkeys(clusters.metric for clusters in models.clusters)
    metric = next((name for name in DECISIVE if name in present), next(iter(present), ""))

    few_ranks = {}
    for path, participation in find_participations(models, metric).items():
        if participation.text:
            few_ranks[path] = participation.text
    return few_ranks


def report_serial_paths(
    models: Sequence[SeriesModel], few_ranks: Mapping[CallPath, str], run_time: float
) -> list[Finding]:
    """Report the call paths that few ranks execute and whose time grows with the number of ranks.

    All other ranks wait for such a call path, or stand idle. One finding per call path whose caller
    runs on other ranks, too.

    Args:
        models: of all series.
        few_ranks: from `name_few_ranks`.
        run_time: of the slowest rank in the largest run, in seconds; 0 where it is unknown.
    """
    findings = []
    for series in models:
        path, model = series.key.callpath, series.model
        is_candidate = path in few_ranks and path.parent not in few_ranks
        is_time = series.key.metric == TIME.name and series.key.behaviour == ALL
        if not (is_candidate and is_time) or series.crowding or RANKS not in model.parameters:
            continue

        now = model.coordinates[np.lexsort(model.coordinates.T[::-1])[-1]]
        then = np.where(np.array(model.parameters) == RANKS, SERIAL_FACTOR * now, now)
        before, after = model.predict([now, then]).tolist()
        is_relevant = before >= SERIAL_SHARE * run_time
        if not is_relevant or model.interval([then])[0, 0] <= SERIAL_GROWTH * before:
            continue

        ranks = model.parameters.index(RANKS)
        text = (
            f"{path.name} runs on {few_ranks[path]}, and its time grows as {model.function}: "
            f"{quantity(before, TIME.unit)} at p={number(now[ranks])}, "
            f"{quantity(after, TIME.unit)} at p={number(then[ranks])}; other ranks do not share it"
        )
        findings.append(Finding(SERIAL_PATH, text, str(path)))
    return findings


def executing_shares(
    models: ModelSet, metric: str, points: FloatArray, only: Container[CallPath] | None = None
) -> dict[CallPath, FloatArray]:
    """The share of the ranks that execute each call path at points: (n_points,) each.

    Args:
        models: of the campaign.
        metric: its name.
        points: (n_points, n_parameters).
        only: the call paths of interest; all by default.
    """
    shares = {}
    for path, participation in find_participations(models, metric, only).items():
        ranks = np.full(len(points), float(max(participation.counts)))
        if RANKS in models.parameters:
            ranks = points[:, models.parameters.index(RANKS)]
        shares[path] = participation.share(ranks)
    return shares
