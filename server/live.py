"""A run as boards show it while it is being measured."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from insitu.analysis.board import (
    AWAITED,
    ENDED,
    FAILED,
    LOST,
    MEASURING,
    SILENT,
    LiveRun,
    count_rank_states,
)
from insitu.analysis.forecast import CORE_METRICS, LivePath
from insitu.entities import RANKS, TIME, VISITS, CallPath, RunKey
from insitu.modeling.classes.sketch import Sketch
from insitu.modeling.measurement import FloatArray
from insitu.server import sketches
from insitu.server.runs import Run
from insitu.server.totals import means_of, metric_names


def live_of(run: Run) -> LiveRun:
    """The present state of a run; if relays report it, from their sketches."""
    views = [relay.view for relay in run.relays.values() if not relay.is_silent]
    if views:
        names: tuple[str, ...] = CORE_METRICS  # relays sketch these only
        merged = sketches.merge_sketches(_shown_metrics(view.metrics) for view in views)
        means = _means_of_sketches(merged, run.callpaths.all)
        classes = _classes_of_sketches(merged, run.callpaths.all)
    else:
        names = *CORE_METRICS, *sorted(metric_names(run.registers) - set(CORE_METRICS))
        means = means_of(run.registers, names)
        classes = {}

    # A relay counts its ranks, but does not report the state of each.
    ranks = () if views else count_rank_states(_rank_states(run))
    started_ns = min(session.hello.started_ns for session in run.all_sessions())
    return LiveRun(
        id=run.id,
        key=RunKey.of({**run.parameters, RANKS: float(run.size)}),
        state=run.state,
        ranks_seen=max(len(run.registers), sum(view.ranks for view in views)),
        ranks_ended=max(len(run.ends), sum(view.ended for view in views)),
        size=run.size,
        callpaths=tuple(
            _live_path(callpath, names, row) for callpath, row in means.items() if row[0] > 0
        ),
        started_at=started_ns / 1e9,
        ranks=ranks,
        classes=classes,
    )


def _shown_metrics(metrics: Mapping[str, Sketch]) -> dict[str, Sketch]:
    return {name: metrics[name] for name in CORE_METRICS if name in metrics}


def _live_path(callpath: CallPath, names: Sequence[str], row: FloatArray) -> LivePath:
    """A call path from its means, followed by the number of ranks; see `means_of`."""
    visits, seconds, exclusive_s, *others, ranks = row.tolist()
    other_means = dict(zip(names[len(CORE_METRICS) :], others, strict=True))
    return LivePath(str(callpath), visits, seconds, exclusive_s, ranks, other_means)


def _means_of_sketches(
    metrics: Mapping[str, Sketch], callpaths: Sequence[CallPath]
) -> dict[CallPath, FloatArray]:
    """Means over ranks and the number of ranks by call path; empty without visits."""
    if VISITS.name not in metrics:
        return {}

    columns = []
    for name in CORE_METRICS:
        if name in metrics:
            columns.append(sketches.means_of(metrics[name], len(callpaths)))
        else:
            columns.append(np.full(len(callpaths), np.nan))
    columns.append(sketches.ranks_of(metrics[VISITS.name], len(callpaths)))
    return dict(zip(callpaths, np.transpose(columns), strict=True))


def _classes_of_sketches(
    metrics: Mapping[str, Sketch], callpaths: Sequence[CallPath]
) -> dict[str, tuple[tuple[int, float], ...]]:
    """Clusters of ranks by their time, as (ranks, mean), by call path."""
    if TIME.name not in metrics:
        return {}
    clusters = sketches.classes_of(metrics[TIME.name])
    return {str(callpaths[path_id]): of_path for path_id, of_path in clusters.items()}


def _rank_states(run: Run) -> Iterator[str]:
    """The state of each rank, in order."""
    silent: set[int] = set()
    for session in run.sessions.values():
        if session.is_silent:
            silent |= session.ranks

    for rank in range(run.size):
        if rank in run.ends:
            _, end = run.ends[rank]
            if not end.is_complete:
                yield LOST
            else:
                yield FAILED if end.status else ENDED
        elif rank in silent:
            yield SILENT
        else:
            yield MEASURING if rank in run.registers else AWAITED
