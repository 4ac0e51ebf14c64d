"""MPI objects that a program creates again and again, and never frees.

Each datatype, communicator or persistent request takes memory in the library until it is freed, and
of communicators a library has a few thousand at most. Counts do not tell whether a program creates
some in each step or many at its start, so a longer run is not judged.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from insitu.analysis.diagnosis.growth import find_growth
from insitu.analysis.diagnosis.laws import quantity_text
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries, median_over_ranks
from insitu.analysis.diagnosis.statements import WARNING, WARNING_FROM, Statement
from insitu.entities import VISITS, CallPath
from insitu.modeling.measurement import FloatArray

LEAST_HANDLES = 50.0  # that a rank does not free: a set of types for all neighbours has fewer
LEAST_SHARE = 0.5  # of those that it creates


@dataclass(frozen=True, slots=True)
class _Kind:
    """Objects of MPI, the calls that create one each, and those that free one.

    freed_by_callbacks: further ones that each of these may free, where nothing is counted: mpi4py
    attaches a communicator of its own to those of the program, and frees it with them.
    """

    name: str
    created_by: tuple[str, ...]
    freed_by: tuple[str, ...]
    freed_by_callbacks: int = 0


_POINT_TO_POINT = ("Send_init", "Bsend_init", "Ssend_init", "Rsend_init", "Recv_init")
KINDS = (
    _Kind(
        "datatypes",
        (
            *("Type_contiguous", "Type_vector", "Type_create_hvector", "Type_indexed"),
            *("Type_create_hindexed", "Type_create_indexed_block", "Type_create_resized"),
            *("Type_create_hindexed_block", "Type_create_struct", "Type_create_subarray"),
            *("Type_create_darray", "Type_dup"),
        ),
        ("Type_free",),
    ),
    _Kind(
        "communicators",
        (
            *("Comm_dup", "Comm_dup_with_info", "Comm_idup", "Comm_idup_with_info", "Comm_split"),
            *("Comm_split_type", "Comm_create", "Comm_create_group", "Comm_create_from_group"),
            *("Cart_create", "Cart_sub", "Graph_create", "Dist_graph_create"),
            *("Dist_graph_create_adjacent", "Intercomm_create", "Intercomm_merge"),
        ),
        ("Comm_free", "Comm_disconnect"),
        freed_by_callbacks=1,
    ),
    _Kind(
        "persistent requests",
        (
            *_POINT_TO_POINT,
            *("Psend_init", "Precv_init", "Barrier_init", "Bcast_init", "Gather_init"),
            *("Gatherv_init", "Scatter_init", "Scatterv_init", "Allgather_init", "Allgatherv_init"),
            *("Alltoall_init", "Alltoallv_init", "Alltoallw_init", "Reduce_init", "Scan_init"),
            *("Allreduce_init", "Exscan_init", "Reduce_scatter_init", "Reduce_scatter_block_init"),
            *("Neighbor_allgather_init", "Neighbor_allgatherv_init", "Neighbor_alltoall_init"),
            *("Neighbor_alltoallv_init", "Neighbor_alltoallw_init"),
        ),
        ("Request_free",),
    ),
    _Kind(
        "windows",
        ("Win_create", "Win_allocate", "Win_allocate_shared", "Win_create_dynamic"),
        ("Win_free",),
    ),
    _Kind("files", ("File_open",), ("File_close",)),
    _Kind(
        "groups",
        (
            *("Comm_group", "Win_get_group", "File_get_group", "Group_incl", "Group_excl"),
            *("Group_range_incl", "Group_range_excl", "Group_union", "Group_intersection"),
            "Group_difference",
        ),
        ("Group_free",),
    ),
    _Kind("operations", ("Op_create",), ("Op_free",)),
)


def find_leaked_handles(measurements: Measurements, target: float) -> Iterator[Statement]:
    """Kinds of objects of which ranks free less than half, at all scales; the function that
    creates most of them."""
    for kind in KINDS:
        created = _paths(measurements, kind.created_by)
        if not created:
            continue
        freed = _paths(measurements, kind.freed_by)
        counts = _typical(measurements, created)
        returned = _typical(measurements, freed)
        left = counts - (1 + kind.freed_by_callbacks) * returned
        several = measurements.p > 1 if measurements.p[-1] > 1 else measurements.p > 0
        is_left = (left >= LEAST_HANDLES) & (left >= LEAST_SHARE * counts)
        if not np.all(is_left[several]):
            continue
        yield _statement(measurements, kind, created, counts=counts, freed=returned, target=target)


def _paths(measurements: Measurements, calls: tuple[str, ...]) -> list[CallPath]:
    """The call paths of some MPI calls, without those of start-up."""
    names = {f"MPI_{call}" for call in calls}
    paths = []
    for members in measurements.members.values():
        paths += [path for path in members if path.name in names]
    return paths


def _typical(measurements: Measurements, paths: list[CallPath]) -> FloatArray:
    """How often the median rank makes some calls at each scale, (n_scales,)."""
    return measurements.series(paths, VISITS.name).statistic(median_over_ranks)


def _statement(
    measurements: Measurements,
    kind: _Kind,
    created: list[CallPath],
    *,
    counts: FloatArray,
    freed: FloatArray,
    target: float,
) -> Statement:
    by_path = {path: float(_typical(measurements, [path])[-1]) for path in created}
    most = max(by_path, key=lambda path: by_path[path])
    owner = measurements.owners[most]
    series = RankSeries(tuple((np.array([count]),) for count in counts.tolist()))
    growth = find_growth(measurements.p, series, target)
    law = growth.law.text("1") if growth.law is not None else quantity_text(counts[-1], "1")
    few = quantity_text(float(freed[-1]), "1") if freed[-1] else "none"
    name = most.name
    share = "" if by_path[most] >= counts[-1] else f", most of them by {name} here"
    by = f" by {name}" if not share else ""
    return Statement(
        kind="handles",
        status=WARNING,
        text=f"each rank creates {law} {kind.name}{by} and frees {few} of them{share}; what is not"
        " freed stays in the library's memory",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks="all",
        metric=VISITS.name,
        unit="1",
        law=law,
        now=float(counts[-1] - freed[-1]),
        severity=WARNING_FROM,  # it was observed, and what it costs is unknown
        calls=(most.name,),
    )
