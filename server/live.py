"""A run as it is shown while it is measured."""

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
from insitu.server.totals import means_of, names_in


def live_of(run: Run) -> LiveRun:
    """The run as it is shown while it is measured; where relays speak, as they see it."""
    views = [relay.view for relay in run.relays.values() if not relay.is_silent]
    rows: dict[CallPath, FloatArray] = {}
    classes: dict[int, tuple[tuple[int, float], ...]] = {}
    callpaths = run.callpaths.all
    names: tuple[str, ...] = CORE_METRICS  # relays merge no more each beat
    speakers = (*run.sessions.values(), *run.relays.values())
    if views:
        told = sketches.merged(
            {n: v.metrics[n] for n in CORE_METRICS if n in v.metrics} for v in views
        )
        rows = _rows(told, callpaths)
        classes = sketches.classes_of(told[TIME.name]) if TIME.name in told else {}
    else:
        names = *CORE_METRICS, *sorted(names_in(run.registers) - set(CORE_METRICS))
        rows = means_of(run.registers, names)
    return LiveRun(
        id=run.id,
        key=RunKey.of({**run.parameters, RANKS: float(run.size)}),
        state=run.state,
        ranks_seen=max(len(run.registers), sum(view.ranks for view in views)),
        ranks_ended=max(len(run.ends), sum(view.ended for view in views)),
        size=run.size,
        callpaths=tuple(
            _path(callpath, names, values) for callpath, values in rows.items() if values[0] > 0
        ),
        started_at=min(one.hello.started_ns for one in speakers) / 1e9,
        ranks=()
        if views
        else count_rank_states(_states(run)),  # a relay counts them, it names none
        classes={str(callpaths[place]): parts for place, parts in classes.items()},
    )


def _path(callpath: CallPath, names: Sequence[str], values: FloatArray) -> LivePath:
    """A row of means, at whose end is the number of ranks."""
    visits, seconds, exclusive_s, *others, ranks = values.tolist()
    more = dict(zip(names[len(CORE_METRICS) :], others, strict=True))
    return LivePath(str(callpath), visits, seconds, exclusive_s, ranks, more)


def _rows(told: Mapping[str, Sketch], callpaths: Sequence[CallPath]) -> dict[CallPath, FloatArray]:
    """Means over ranks by call path, and how many ranks these are; nothing without visits."""
    if VISITS.name not in told:
        return {}
    unknown = np.full(len(callpaths), np.nan)
    columns = [
        sketches.means_of(told[name], len(callpaths)) if name in told else unknown
        for name in CORE_METRICS
    ]
    columns.append(sketches.ranks_of(told[VISITS.name], len(callpaths)))
    return dict(zip(callpaths, np.transpose(columns), strict=True))


def _states(run: Run) -> Iterator[str]:
    """What each rank does, in order."""
    silent = {rank for one in run.sessions.values() if one.is_silent for rank in one.spoken}
    for rank in range(run.size):
        if rank in run.ends:
            end = run.ends[rank][1]
            yield LOST if not end.is_complete else FAILED if end.status else ENDED
        elif rank in silent:
            yield SILENT
        else:
            yield MEASURING if rank in run.registers else AWAITED
