"""The models whose open questions are worth a run."""

import numpy as np

from insitu.analysis.cost import select_costly
from insitu.analysis.diagnosis.machine import MEMORY_BYTES
from insitu.analysis.diagnosis.measurements import is_mpi
from insitu.analysis.diagnosis.statements import WARNING_FROM
from insitu.entities import ALLOCATIONS, BYTES_ALLOCATED, CPU_TIME, HEAP_GROWTH, HEAP_PEAK, CallPath
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.measurement import Experiment, FloatArray

HEAP = (HEAP_GROWTH.name, BYTES_ALLOCATED.name, ALLOCATIONS.name)
LEAST_HEAP = 1 << 20  # bytes over the measured scales; less may be buffers of libraries


def select_questionable(
    models: ModelSet, experiment: Experiment, target: float
) -> list[SeriesModel]:
    """The series of counts and of costly call paths about which a statement could be made.

    Args:
        models: over one parameter; those over others are left out.
        experiment: the runs from which they were made.
        target: value of the parameter that runs look ahead to.
    """
    costly = select_costly(models)
    own_heap = _OwnHeap(experiment)
    return [series for series in costly if _may_limit(series, own_heap, target)]


def _may_limit(series: SeriesModel, own_heap: "_OwnHeap", target: float) -> bool:
    """Whether a statement could be made about what a model describes.

    Memory of ranks and of the MPI library is for budgets, not for laws. Processor time of a rank
    contains the time in which MPI calls spin, and the heap of the whole program what MPI
    allocates: functions are judged by their own. The heap of a function
    matters if what its values differ by, growing no faster than the parameter, would fill a part
    of the memory at the target, and is more than what libraries reserve now and then.
    """
    metric = series.key.metric
    if metric.startswith("memory_") or metric in (HEAP_PEAK.name, CPU_TIME.name):
        return False
    callpath, is_heap = series.key.callpath, metric in HEAP
    if is_heap and (is_mpi(callpath) or callpath.parent is None or metric == ALLOCATIONS.name):
        return False

    model = series.model  # a stored model is unpacked when it is first used
    if len(model.parameters) != 1:
        return False
    if not is_heap:
        return True
    x = model.coordinates[:, 0]
    measured = float(np.ptp(x))
    if not measured:
        return False
    growth = float(np.nanmax(model.values) - np.nanmin(model.values))
    if growth >= LEAST_HEAP:
        growth = min(growth, own_heap.growth(callpath, metric))
    if growth < LEAST_HEAP:
        return False
    return growth * (target - float(x.min())) / measured >= WARNING_FROM * MEMORY_BYTES


class _OwnHeap:
    """The heap of functions without what MPI calls allocate."""

    def __init__(self, experiment: Experiment) -> None:
        self._tables = [table for _, table in experiment.runs]
        self._rows: list[dict[CallPath, int]] = []
        self._calls_below: list[dict[tuple[str, ...], list[int]]] = []  # of MPI: rows by frames
        # (n_callpaths,) of each run, by metric; None where a run does not have it
        self._means: dict[str, list[FloatArray | None]] = {}
        for table in self._tables:
            self._rows.append({path: row for row, path in enumerate(table.callpaths)})
            calls: dict[tuple[str, ...], list[int]] = {}
            for row, path in enumerate(table.callpaths):
                if is_mpi(path) and not is_mpi(path.parent or path):
                    for depth in range(1, len(path.frames) + 1):
                        calls.setdefault(path.frames[:depth], []).append(row)
            self._calls_below.append(calls)

    def growth(self, callpath: CallPath, metric: str) -> float:
        """By how many bytes the means over ranks of a metric of the heap differ between runs."""
        if metric not in self._means:
            self._means[metric] = [
                np.nan_to_num(table.values[metric]).mean(axis=1) if metric in table.values else None
                for table in self._tables
            ]
        totals = []
        for rows, calls, means in zip(
            self._rows, self._calls_below, self._means[metric], strict=True
        ):
            if means is None:
                continue
            signs = dict.fromkeys(calls.get(callpath.frames, ()), -1.0)
            if callpath in rows:
                signs[rows[callpath]] = 1.0

            total = 0.0
            for row, sign in sorted(signs.items()):
                total += sign * float(means[row])
            totals.append(total)
        return float(np.ptp(totals)) if totals else 0.0
