"""MPI calls that wait for other ranks and have no `time_waiting`, and how long they take.

Everything comes from the table of a run; nothing is recorded for this in a rank.
"""

from dataclasses import dataclass

import numpy as np

from insitu.entities import TIME, TIME_WAITING, VISITS, Finding
from insitu.modeling.measurement import FloatArray, RunTable
from insitu.server.wait_intervals import Booleans

StringArray = np.ndarray[tuple[int], np.dtype[np.str_]]

LEAST_SHARE = 0.01  # of the time of all ranks, from which calls without waiting times matter

COLLECTIVES = (
    *("Barrier", "Bcast", "Reduce", "Allreduce", "Scan", "Exscan", "Reduce_scatter_block"),
    *("Reduce_scatter", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv"),
    *("Alltoall", "Alltoallv", "Alltoallw", "Neighbor_allgather", "Neighbor_allgatherv"),
    *("Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw"),
)


@dataclass(frozen=True, slots=True)
class UnmeasuredCalls:
    """Calls of one kind without waiting times.

    Attributes:
        text: what they are.
        functions: those that wait.
        started_by: functions of which a rank must have called one; empty if it need not.
    """

    text: str
    functions: frozenset[str]
    started_by: frozenset[str] = frozenset()


UNMEASURED = (
    UnmeasuredCalls(
        "non-blocking and persistent collectives, in the calls that complete requests",
        frozenset(
            f"MPI_{verb}{which}"
            for verb in ("Wait", "Test")
            for which in ("", "all", "any", "some")
        ),
        started_by=frozenset(f"MPI_I{name[0].lower()}{name[1:]}" for name in COLLECTIVES)
        | {f"MPI_{name}_init" for name in COLLECTIVES}
        | {"MPI_Comm_idup", "MPI_Comm_idup_with_info"},
    ),
    UnmeasuredCalls(
        "calls that synchronise, create or free windows",
        frozenset(
            f"MPI_Win_{name}"
            for name in (
                *("fence", "start", "complete", "wait", "test", "lock", "lock_all", "unlock"),
                *("unlock_all", "flush", "flush_all", "create", "create_dynamic", "allocate"),
                *("allocate_shared", "free"),
            )
        ),
    ),
    UnmeasuredCalls(
        "calls that create communicators",
        frozenset(
            f"MPI_{name}"
            for name in (
                *("Comm_dup", "Comm_dup_with_info", "Comm_split", "Comm_split_type"),
                *("Comm_create", "Comm_create_group", "Comm_create_from_group"),
                *("Intercomm_create", "Intercomm_create_from_groups", "Intercomm_merge"),
                *("Cart_create", "Cart_sub", "Graph_create", "Dist_graph_create"),
                *("Dist_graph_create_adjacent", "Comm_spawn", "Comm_spawn_multiple"),
                *("Comm_accept", "Comm_connect", "Comm_join"),
            )
        ),
    ),
    UnmeasuredCalls(
        "collective calls on files",
        frozenset(
            f"MPI_File_{name}"
            for name in (
                *("open", "close", "set_size", "preallocate", "set_view", "sync"),
                *("write_all", "write_at_all", "write_ordered"),
                *("write_all_end", "write_at_all_end", "write_ordered_end"),
                *("read_all", "read_at_all", "read_ordered"),
                *("read_all_end", "read_at_all_end", "read_ordered_end"),
            )
        ),
    ),
)


def find_unknown_waiting(table: RunTable) -> list[Finding]:
    """A finding for each kind of calls without waiting times that takes at least `LEAST_SHARE`.

    Args:
        table: of a complete run, with its waiting times.
    """
    if TIME.name not in table.values or not table.callpaths:
        return []
    names = np.array([path.name for path in table.callpaths])
    visits, time = np.nan_to_num(table.values[VISITS.name]), np.nan_to_num(table.values[TIME.name])
    unknown = np.isnan(table.values.get(TIME_WAITING.name, np.full(time.shape, np.nan)))
    elapsed_s = float(time.max(axis=0).sum())  # the whole program is a call path, too

    findings = []
    for calls in UNMEASURED:
        has_started = _has_called(calls.started_by, names, visits)
        is_kind = np.isin(names, list(calls.functions))
        seconds = np.where(is_kind[:, None] & unknown & has_started, time, 0.0).sum(axis=1)
        total_s = float(seconds.sum())
        if total_s > 0 and total_s >= LEAST_SHARE * elapsed_s:
            most = table.callpaths[int(seconds.argmax())]
            text = (
                f"time_waiting of {calls.text} is not known: {total_s:.3g} s in all ranks"
                f" together, most of it in {'->'.join(most.frames[-2:])}"
            )
            findings.append(Finding("waiting-unclear", text, str(most)))
    return findings


def _has_called(functions: frozenset[str], names: StringArray, visits: FloatArray) -> Booleans:
    """By rank, whether it has called one of these functions; True if there are none."""
    if not functions:
        return np.ones(visits.shape[1], dtype=bool)
    is_called = visits[np.isin(names, list(functions))] > 0
    return np.asarray(is_called.any(axis=0), dtype=bool)
