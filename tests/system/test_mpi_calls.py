"""Counts and bytes of MPI calls made through mpi4py, against closed forms, on both MPIs."""

import pytest

from tests.system.conftest import BOTH_MPIS

pytestmark = [pytest.mark.mpi, pytest.mark.native]

P, N = 3, 10
CALLS = """
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    p, r, n = comm.size, comm.rank, 10
    right, left = (r + 1) % p, (r - 1) % p
    one, other = np.ones(n), np.zeros(n)
    many, more = np.ones(n * p), np.zeros(n * p)
    counts = [i + 1 for i in range(p)]
    total = sum(counts)
    spread = np.zeros(total)

    def point_to_point():
        comm.Sendrecv(one, right, recvbuf=other, source=left)
        comm.Sendrecv(one[:3], right, recvbuf=other, source=left)  # shorter than the buffer
        comm.Sendrecv_replace(one, right, source=left)
        comm.Sendrecv(one, MPI.PROC_NULL, recvbuf=other, source=MPI.PROC_NULL)
        request = comm.Isend(one, right)
        comm.Recv(other, left)
        request.Wait()
        requests = [comm.Irecv(other, left), comm.Isend(one, right)]
        MPI.Request.Waitall(requests)

    def derived():
        vector = MPI.DOUBLE.Create_vector(2, 3, 5).Commit()
        comm.Sendrecv([one, 1, vector], right, recvbuf=[other, 1, vector], source=left)
        vector.Free()

    def collectives():
        comm.Barrier()
        comm.Bcast(one, root=1)
        comm.Reduce(one, other, root=1)
        comm.Allreduce(one, other)
        comm.Allreduce(MPI.IN_PLACE, other)
        comm.Scan(one, other)
        comm.Exscan(one, other)
        comm.Gather(one, many if r == 1 else None, root=1)
        comm.Scatter(many if r == 1 else None, one, root=1)
        comm.Allgather(one, many)
        comm.Allgather(MPI.IN_PLACE, many)
        comm.Alltoall(many, more)
        comm.Gatherv(one[:r + 1], [spread, counts] if r == 1 else None, root=1)
        comm.Scatterv([spread, counts] if r == 1 else None, one[:r + 1], root=1)
        comm.Allgatherv(one[:r + 1], [spread, counts])
        comm.Alltoallv([many, [r + 1] * p], [spread, counts])
        comm.Reduce_scatter_block(many, one)
        comm.Reduce_scatter(spread, one[:r + 1], counts)

    def communicators():
        comm.Dup().Free()
        comm.Split(r % 2).Free()

    def started():
        request = comm.Iallreduce(one, other)
        request.Wait()

    point_to_point()
    derived()
    collectives()
    communicators()
    started()
"""
B = 8 * N  # one buffer
TOTAL = 8 * sum(range(1, P + 1))


def mine(rank):
    return 8 * (rank + 1)


ROOT = [rank == 1 for rank in range(P)]
# call below app.py: visits, bytes sent by rank, bytes received by rank
EXPECTED = {
    "point_to_point->MPI_Sendrecv": (3, [B + 24] * P, [B + 24] * P),
    "point_to_point->MPI_Sendrecv_replace": (1, [B] * P, [B] * P),
    "point_to_point->MPI_Isend": (2, [2 * B] * P, [0] * P),
    "point_to_point->MPI_Recv": (1, [0] * P, [B] * P),
    "point_to_point->MPI_Irecv": (1, [0] * P, [0] * P),
    "point_to_point->MPI_Wait": (1, [0] * P, [0] * P),
    "point_to_point->MPI_Waitall": (1, [0] * P, [B] * P),
    "derived->MPI_Type_vector": (1, [0] * P, [0] * P),
    "derived->MPI_Sendrecv": (1, [48] * P, [48] * P),
    "derived->MPI_Type_free": (1, [0] * P, [0] * P),
    "collectives->MPI_Barrier": (1, [0] * P, [0] * P),
    "collectives->MPI_Bcast": (1, [B * at for at in ROOT], [B * (not at) for at in ROOT]),
    "collectives->MPI_Reduce": (1, [B] * P, [B * at for at in ROOT]),
    "collectives->MPI_Allreduce": (2, [2 * B] * P, [2 * B] * P),
    "collectives->MPI_Scan": (1, [B] * P, [B] * P),
    "collectives->MPI_Exscan": (1, [B] * P, [B * (rank > 0) for rank in range(P)]),
    "collectives->MPI_Gather": (1, [B] * P, [P * B * at for at in ROOT]),
    "collectives->MPI_Scatter": (1, [P * B * at for at in ROOT], [B] * P),
    "collectives->MPI_Allgather": (2, [2 * B] * P, [2 * P * B] * P),
    "collectives->MPI_Alltoall": (1, [P * B] * P, [P * B] * P),
    "collectives->MPI_Gatherv": (1, [mine(r) for r in range(P)], [TOTAL * at for at in ROOT]),
    "collectives->MPI_Scatterv": (1, [TOTAL * at for at in ROOT], [mine(r) for r in range(P)]),
    "collectives->MPI_Allgatherv": (1, [mine(r) for r in range(P)], [TOTAL] * P),
    "collectives->MPI_Alltoallv": (1, [P * mine(r) for r in range(P)], [TOTAL] * P),
    "collectives->MPI_Reduce_scatter_block": (1, [P * B] * P, [B] * P),
    "collectives->MPI_Reduce_scatter": (1, [TOTAL] * P, [mine(r) for r in range(P)]),
    "communicators->MPI_Comm_dup": (1, [0] * P, [0] * P),
    "communicators->MPI_Comm_split": (1, [0] * P, [0] * P),
    "communicators->MPI_Comm_free": (2, [0] * P, [0] * P),
    "started->MPI_Iallreduce": (1, [B] * P, [B] * P),
    "started->MPI_Wait": (1, [0] * P, [0] * P),
}
# call below app.py: messages sent and received by every rank
MESSAGES = {
    "point_to_point->MPI_Sendrecv": (2, 2),
    "point_to_point->MPI_Sendrecv_replace": (1, 1),
    "point_to_point->MPI_Isend": (2, 0),
    "point_to_point->MPI_Recv": (0, 1),
    "point_to_point->MPI_Irecv": (0, 0),
    "point_to_point->MPI_Wait": (0, 0),
    "point_to_point->MPI_Waitall": (0, 1),
    "collectives->MPI_Alltoallv": (0, 0),
}


@BOTH_MPIS
def test_calls_and_bytes_are_exact(each_mpi):
    script = each_mpi.script(CALLS)

    outcome = each_mpi.measure("-n", P, script)

    assert outcome.code == 0, outcome.err
    found = {}
    for call in EXPECTED:
        rows = [
            each_mpi.values(f"app.py->{call}", m)
            for m in ("visits", "bytes_sent", "bytes_received")
        ]
        found[call] = (rows[0][0], rows[1], rows[2])
        assert len(set(rows[0])) == 1, call
    assert found == EXPECTED
    for call, (sent, received) in MESSAGES.items():
        assert each_mpi.values(f"app.py->{call}", "messages_sent") == [sent] * P, call
        assert each_mpi.values(f"app.py->{call}", "messages_received") == [received] * P, call
    assert each_mpi.values("app.py->collectives->MPI_Allreduce", "comm_ranks") == [2 * P] * P
    recorded = {str(path).removeprefix("app.py->") for path in each_mpi.table().callpaths}
    assert {path for path in recorded if "MPI_" in path and "import" not in path} <= {
        *EXPECTED,
        "MPI_Finalize",
    }
