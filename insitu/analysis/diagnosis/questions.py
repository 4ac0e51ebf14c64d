"""The models whose open questions are worth a run."""

import numpy as np

from insitu.analysis.cost import select_costly
from insitu.analysis.diagnosis.machine import MEMORY_BYTES
from insitu.analysis.diagnosis.measurements import is_mpi
from insitu.analysis.diagnosis.statements import WARNING_FROM
from insitu.entities import ALLOCATIONS, BYTES_ALLOCATED, CPU_TIME, HEAP_GROWTH, HEAP_PEAK, CallPath
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.measurement import Experiment

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
    return [series for series in costly if _may_limit(series, experiment, target)]


def _may_limit(series: SeriesModel, experiment: Experiment, target: float) -> bool:
    """Whether a statement could be made about what a model describes.

    Memory of ranks and of the MPI library is for budgets, not for laws. Processor time of a rank
    contains the time in which MPI calls spin, and the heap of the whole program what MPI
    allocates: functions are judged by their own. The heap of a function
    matters if what its values differ by, growing no faster than the parameter, would fill a part
    of the memory at the target, and is more than what libraries reserve now and then.
    """
    model = series.model
    if len(model.parameters) != 1:
        return False
    metric = series.key.metric
    if metric.startswith("memory_") or metric in (HEAP_PEAK.name, CPU_TIME.name):
        return False
    if metric not in HEAP:
        return True
    callpath = series.key.callpath
    if is_mpi(callpath) or callpath.parent is None or metric == ALLOCATIONS.name:
        return False

    x = model.coordinates[:, 0]
    measured = float(np.ptp(x))
    if not measured:
        return False
    growth = float(np.nanmax(model.values) - np.nanmin(model.values))
    if growth >= LEAST_HEAP:
        growth = min(growth, _own_growth(experiment, callpath, metric))
    if growth < LEAST_HEAP:
        return False
    return growth * (target - float(x.min())) / measured >= WARNING_FROM * MEMORY_BYTES


def _own_growth(experiment: Experiment, callpath: CallPath, metric: str) -> float:
    """By how many bytes the runs differ in a metric of the heap, without what MPI calls allocate.

    The means over ranks are compared.
    """
    means = []
    for _, table in experiment.runs:
        total = 0.0
        for row, path in enumerate(table.callpaths):
            if path == callpath:
                sign = 1.0
            elif is_mpi(path) and path.is_within(callpath) and not is_mpi(path.parent or path):
                sign = -1.0
            else:
                continue
            total += sign * float(np.nan_to_num(table.values[metric][row]).mean())
        means.append(total)
    return float(np.ptp(means)) if means else 0.0
