"""Messages in communicators that may have fewer ranks in a larger run than all of them.

Where all ranks share a node, a communicator of the ranks of a node has all ranks, and what they
exchange in it seems to grow with p. It grows with the ranks of a node. `MPI_Comm_split_type` makes
such a communicator by its nature; `MPI_Comm_split` does if ranks with the same name of a host get
the same color, and runs on one node cannot distinguish that from a communicator of all ranks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.limit import Limit
from insitu.analysis.diagnosis.machine import is_collective, is_completion
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi
from insitu.analysis.diagnosis.scales import next_scale
from insitu.analysis.node_boundary import node_boundary
from insitu.entities import SPLIT_COMMUNICATOR, CallPath, RunRecord

OF_NODE = 2.0  # the value of the metric where all calls are on communicators of a node
CONDITION = "unless the communicator, which the program splits off, is one of a node: run {}"


def settle_split(
    measurements: Measurements, records: Sequence[RunRecord], limits: Sequence[Limit]
) -> Iterator[Limit]:
    """Limits without those that end with a node; of the others, the certain ones with a condition.

    Runs on several nodes tell: there, the communicator of a node has not all ranks.
    """
    keys = {run.key for run in measurements.runs}
    boundary = node_boundary([record for record in records if record.key in keys])
    is_on_one_node = boundary is None or not boundary.crossed
    for limit in limits:
        scope = _scope(measurements, limit) if is_on_one_node else 0.0
        if scope >= OF_NODE:
            continue
        if scope and limit.is_exact:
            run = f"{next_scale(measurements.p, 2.0)} on two nodes"
            yield replace(limit, condition=CONDITION.format(run), run=run)
        else:
            yield limit


def _scope(measurements: Measurements, limit: Limit) -> float:
    """The smallest value of the metric of the calls that a limit counts; 0 if one has none.

    A receive that is completed later has its communicator where it begins.
    """
    calls = [limit.detail] if limit.detail is not None else measurements.members.get(limit.path, [])
    calls = [call for call in calls if is_mpi(call)]
    scopes = [_scope_of_call(measurements, call) for call in calls]
    return min(scopes, default=0.0)


def _scope_of_call(measurements: Measurements, call: CallPath) -> float:
    if not is_completion(call.name):
        return _largest(measurements, call)
    begun = [
        _largest(measurements, other)
        for other in measurements.members.get(measurements.owners[call], [])
        if is_mpi(other) and not is_collective(other.name) and not is_completion(other.name)
    ]
    return min(begun, default=0.0)


def _largest(measurements: Measurements, call: CallPath) -> float:
    """The value of the metric at the largest scale, on the ranks that make the call."""
    run = measurements.groups[-1][-1]
    values = run.vector(call, SPLIT_COMMUNICATOR.name)
    return float(np.max(values, initial=0.0))
