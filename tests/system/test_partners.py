"""How many ranks each call path exchanges messages with, from C and Python, on all ABIs."""

import math
import textwrap

import pytest

from tests.support.parameters import plain_and_full
from tests.system.test_mpi_compiled import PROGRAMS, Compiled, compiled

__all__ = ["compiled"]
pytestmark = [pytest.mark.mpi, pytest.mark.native]

P = 4
ABSENT = None
# The last two frames of a call path, and the partners of each rank.
EXPECTED = {
    ("line", "MPI_Sendrecv"): [1, 2, 2, 1],
    ("star", "MPI_Irecv"): [3, ABSENT, ABSENT, ABSENT],
    ("star", "MPI_Send"): [ABSENT, 1, 1, 1],
    ("star", "MPI_Waitall"): [ABSENT] * P,
    ("ring", "MPI_Ssend"): [1] * P,
    ("ring", "MPI_Recv"): [1] * P,
    ("others", "MPI_Bsend"): [P - 1, ABSENT, ABSENT, ABSENT],
    ("others", "MPI_Recv"): [ABSENT, 1, 1, 1],
    ("others", "MPI_Rsend"): [0, ABSENT, ABSENT, ABSENT],
    ("unknown", "MPI_Irecv"): [ABSENT] * P,
    ("unknown", "MPI_Issend"): [1] * P,
    ("persistent", "MPI_Send_init"): [1] * P,
    ("persistent", "MPI_Recv_init"): [ABSENT] * P,
    ("topologies", "MPI_Neighbor_allgather"): [1, 2, 2, 1],
    ("topologies", "MPI_Neighbor_alltoall"): [P, 1, 1, 1],
    ("windows", "MPI_Win_lock"): [1] * P,
    ("windows", "MPI_Fetch_and_op"): [2] * P,
    ("windows", "MPI_Put"): [1] * P,
    ("windows", "MPI_Win_unlock"): [ABSENT] * P,
}
# The rank that is the only partner.
ONLY = {
    ("line", "MPI_Sendrecv"): [1, ABSENT, ABSENT, P - 2],
    ("star", "MPI_Send"): [ABSENT, 0, 0, 0],
    ("windows", "MPI_Win_lock"): [1, 2, 3, 0],
    ("windows", "MPI_Fetch_and_op"): [ABSENT] * P,
    ("windows", "MPI_Put"): [3, 0, 1, 2],
}
# Whether the communicator of all ranks was split off, or is one of a node.
SPLIT = {
    ("line", "MPI_Sendrecv"): [ABSENT] * P,
    ("persistent", "MPI_Send_init"): [ABSENT] * P,
    ("ring", "MPI_Ssend"): [1] * P,
    ("unknown", "MPI_Irecv"): [1] * P,
    ("node", "MPI_Bcast"): [2] * P,
    ("node", "MPI_Sendrecv"): [2] * P,
    ("node", "MPI_Barrier"): [ABSENT] * P,
    ("node", "MPI_Allreduce"): [1] * P,
}


@plain_and_full("threads", [(), ("multiple",)], ids=["single", "multiple"])
def test_the_ranks_that_a_call_path_exchanges_with_are_counted_once(
    compiled: Compiled, threads: tuple[str, ...]
) -> None:
    compiled.compile(PROGRAMS / "partners.c", flags=("-o", "partners", "-fno-inline"))

    outcome = compiled.bench.measure("-n", P, "--", "./partners", *threads)

    assert outcome.code == 0, outcome.err
    table = compiled.bench.table()
    metrics = {"partners": EXPECTED, "only_partner": ONLY, "split_communicator": SPLIT}
    for metric, of_paths in metrics.items():
        partners = {
            path.frames[-2:]: [None if math.isnan(value) else int(value) for value in values]
            for path, values in zip(table.callpaths, table.values[metric], strict=True)
        }
        for path, expected in of_paths.items():
            assert partners[path] == expected, path


@pytest.mark.full
def test_partners_of_python_programs_do_not_depend_on_the_order_of_ranks(each_mpi) -> None:
    each_mpi.script(
        textwrap.dedent("""
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        order = [2, 0, 3, 1]  # the ranks along a line

        def exchange():
            here = order.index(world.rank)
            for other in (here - 1, here + 1):
                if 0 <= other < world.size:
                    world.sendrecv(here, dest=order[other], source=order[other])

        for _ in range(4):
            exchange()
        """)
    )

    outcome = each_mpi.measure("-n", P, "--", "app.py")

    assert outcome.code == 0, outcome.err
    expected = {2: 1, 0: 2, 3: 2, 1: 1}
    table = each_mpi.table()
    rows = [i for i, path in enumerate(table.callpaths) if "exchange" in path.frames]
    found = [
        [int(value) for value in table.values["partners"][row]]
        for row in rows
        if not math.isnan(table.values["partners"][row][0])
    ]
    assert found, table.callpaths
    assert all(values == [expected[rank] for rank in range(P)] for values in found)
