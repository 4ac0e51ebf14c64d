"""Masters: ranks that give out work and do none, ever fewer of all ranks on more ranks.

A master that waits for its workers is half of two ranks, and one in twelve. Times may not be judged
in the largest run, but counts and samples tell there who does no work.
"""

import numpy as np
from numpy.typing import NDArray

from insitu.analysis.diagnosis.measurements import MeasuredRun, Measurements, is_mpi
from insitu.entities import TIME_EXCLUSIVE, TIME_WAITING, VISITS, CallPath

FEW_OF = 4  # ranks that are at most this part of all of the largest run are few
HARDLY_ANY = 0.1  # of the mean of all ranks, in samples: those of a master may be of its waiting
LEAST_SAMPLES = 5.0  # of a mean rank: fewer are none on some rank by chance
WAITS_ALONE = 0.9  # of the waiting of all ranks
OF_MASTER = 0.45  # of all calls in the largest run, of a rank that answers those of all others


def find_masters(
    measurements: Measurements, run: MeasuredRun, owner: CallPath
) -> NDArray[np.bool_]:
    """The ranks of a run, (p,), that have none of a function, if they are few in the largest run.

    Args:
        measurements: all runs.
        run: the run that is judged.
        owner: the function; by its visits, or by its samples where these are unknown.
    """
    last = measurements.groups[-1][-1]
    idle, in_last = (_find_idle(measurements, each, owner) for each in (run, last))
    n_last, n_idle = int(in_last.sum()), int(idle.sum())
    are_few = 0 < n_last <= n_idle < run.size and n_last * FEW_OF <= last.size > run.size
    return idle if are_few else np.zeros(run.size, dtype=bool)


def _find_idle(measurements: Measurements, run: MeasuredRun, owner: CallPath) -> NDArray[np.bool_]:
    visits = run.vector(owner, VISITS.name)
    own = [path for path in measurements.members[owner] if not is_mpi(path)]
    if visits.any() or not own or not all(map(measurements.is_sampled, own)):
        return np.asarray(visits == 0)
    seconds = run.sum_over(own, TIME_EXCLUSIVE.name)
    is_known = seconds.mean() >= LEAST_SAMPLES * run.sampling_s
    return np.asarray(is_known & (seconds <= HARDLY_ANY * seconds.mean()))


def waits_as_master(measurements: Measurements, run: MeasuredRun, path: CallPath) -> bool:
    """Whether the rank that waits in a call of MPI is a master in the largest run.

    It alone makes the call, or, where the compiler has inlined into one function what masters and
    workers do, half of all calls.
    """
    last = measurements.groups[-1][-1]
    if last.size <= run.size:
        return False
    visits, waiting = last.vector(path, VISITS.name), run.vector(path, TIME_WAITING.name)
    if np.count_nonzero(visits) == 1:
        return True
    slowest = int(np.argmax(waiting))
    is_alone = waiting[slowest] >= WAITS_ALONE * waiting.sum() > 0
    return bool(is_alone and visits[slowest] >= OF_MASTER * visits.sum())
