"""The models whose open questions are worth a run."""

import numpy as np

from insitu.analysis.cost import select_costly
from insitu.analysis.diagnosis.machine import MEMORY_BYTES
from insitu.analysis.diagnosis.measurements import is_mpi
from insitu.analysis.diagnosis.statements import WARNING_FROM
from insitu.entities import ALLOCATIONS, BYTES_ALLOCATED, CPU_TIME, HEAP_GROWTH, HEAP_PEAK
from insitu.modeling.base import ModelSet, SeriesModel

LEAST_HEAP = 1 << 20  # bytes over the measured scales; less may be buffers of libraries


def select_questionable(models: ModelSet, target: float) -> list[SeriesModel]:
    """The series of counts and of costly call paths about which a statement could be made.

    Args:
        models: over one parameter; those over others are left out.
        target: value of the parameter that runs look ahead to.
    """
    return [series for series in select_costly(models) if _may_limit(series, target)]


def _may_limit(series: SeriesModel, target: float) -> bool:
    """Whether a statement could be made about what a model describes.

    Memory of ranks and of the MPI library is for budgets, not for laws. Processor time of a rank
    contains the turns in which MPI calls wait, and the heap of the whole program what MPI
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
    if metric not in (HEAP_GROWTH.name, BYTES_ALLOCATED.name, ALLOCATIONS.name):
        return True
    callpath = series.key.callpath
    if is_mpi(callpath) or callpath.parent is None or metric == ALLOCATIONS.name:
        return False

    x = model.coordinates[:, 0]
    measured = float(np.ptp(x))
    if not measured:
        return False
    growth = float(np.nanmax(model.values) - np.nanmin(model.values))
    if growth < LEAST_HEAP:
        return False
    return growth * (target - float(x.min())) / measured >= WARNING_FROM * MEMORY_BYTES
