"""Calls that few programs make, from C, against closed forms on each ABI."""

import pytest

from tests.system.test_mpi_compiled import METRICS, PROGRAMS, Compiled, compiled, ranks

pytestmark = [pytest.mark.mpi, pytest.mark.native]
__all__ = ["compiled"]  # a fixture

P, D = 3, 8  # ranks; bytes of a double
ONCE = (
    *("Win_allocate_shared", "Win_create", "Win_create_dynamic", "Win_attach", "Win_detach"),
    *("Win_wait", "Win_lock", "Win_flush", "Win_flush_local", "Win_unlock", "Win_lock_all"),
    *("Win_flush_all", "Win_flush_local_all", "Win_sync", "Win_unlock_all"),
    *("File_open", "File_preallocate", "File_set_size", "File_set_view", "File_seek"),
    *("File_seek_shared", "File_sync", "File_close", "Psend_init", "Precv_init"),
    *("File_write_all_end", "File_write_at_all_end", "File_write_ordered_end"),
    *("File_read_all_begin", "File_read_at_all_begin", "File_read_ordered_begin"),
    *("File_iread", "File_iread_at", "File_iread_all", "File_iread_at_all", "File_iread_shared"),
)
WRITES = {
    **{"write": 1, "write_all": 2, "write_at": 3, "write_at_all": 4, "write_shared": 5},
    **{"write_ordered": 6, "iwrite": 7, "iwrite_at": 8, "iwrite_all": 9, "iwrite_at_all": 10},
    **{"iwrite_shared": 11, "write_all_begin": 12, "write_at_all_begin": 13},
    "write_ordered_begin": 14,
}
READS = {
    **{"read": 1, "read_all": 2, "read_at": 3, "read_at_all": 4, "read_shared": 5},
    **{"read_ordered": 6, "read_all_end": 12, "read_at_all_end": 13, "read_ordered_end": 14},
}
WHOLE = 10 * D  # of two messages the one that fits
# call: visits (None: as often as it takes), bytes sent, received, messages sent, received
EXPECTED = {
    **{f"MPI_{call}": (1, 0, 0, 0, 0) for call in ONCE},
    **{f"MPI_File_{call}": (1, D * n, 0, 0, 0) for call, n in WRITES.items()},
    **{f"MPI_File_{call}": (1, 0, D * n, 0, 0) for call, n in READS.items()},
    "MPI_File_delete": ([1, 0, 0], 0, 0, 0, 0),
    "MPI_Startall": (4, 4 * 15 * D, 4 * 15 * D, 4, 4),
    "MPI_Pready": (4, 0, 0, 0, 0),
    "MPI_Pready_range": (4, 0, 0, 0, 0),
    "MPI_Pready_list": (4, 0, 0, 0, 0),
    "MPI_Parrived": (None, 0, 0, 0, 0),
    "MPI_Request_free": (2, 0, 0, 0, 0),
    "MPI_Win_post": (2, 0, 0, 0, 0),
    "MPI_Win_start": (2, 0, 0, 0, 0),
    "MPI_Win_complete": (2, 0, 0, 0, 0),
    "MPI_Win_test": (None, 0, 0, 0, 0),
    "MPI_Win_free": (3, 0, 0, 0, 0),
    "MPI_Put": (3, (3 + 3 + 2) * D, 0, 3, 0),
    "MPI_Rget": (1, 0, 4 * D, 0, 1),
    "MPI_Raccumulate": (1, 5 * D, 0, 1, 0),
    "MPI_Rget_accumulate": (1, 6 * D, 6 * D, 1, 1),
    # receives of which one fails in the same call: twice, then once in each kind of call
    "MPI_Isend": (12, 12 * WHOLE, 0, 12, 0),
    "MPI_Irecv": (12, 0, 0, 0, 0),
    "MPI_Waitall": (4 + 1 + 4 + 2 + 6, 0, 2 * WHOLE, 0, 2),
    "MPI_Waitsome": (None, 0, WHOLE, 0, 1),
    "MPI_Waitany": (2, 0, WHOLE, 0, 1),
    "MPI_Testall": (None, 0, WHOLE, 0, 1),
    # and what was read from the file
    "MPI_Wait": (5 + 2, 0, (7 + 8 + 9 + 10 + 11) * D + WHOLE, 0, 1),
    # left by longjmp, with a call deeper in the stack after each
    "MPI_Ssend": (3, 0, 0, 0, 0),
    "MPI_Probe": (3, 0, 0, 0, 0),
}


def test_calls_that_are_rare_are_counted_exactly(compiled: Compiled) -> None:
    compiled.compile(PROGRAMS / "rare.c", flags=("-o", "rare"))

    outcome = compiled.bench.measure("-n", P, "--", "./rare", compiled.bench.folder / "file")

    assert outcome.code == 0, outcome.err
    assert "failed 6\n" in outcome.out
    found = compiled.totals()
    for call, (visits, *amounts) in EXPECTED.items():
        got = [found[call][metric] for metric in METRICS[1:5]]
        assert got == [ranks(amount) for amount in amounts], call
        assert visits is None or found[call]["visits"] == ranks(visits), call
    assert found["MPI_Win_create"]["comm_ranks"] == [P] * P
    for call in ("MPI_Win_post", "MPI_Win_start"):  # twice, with a group of one
        assert found[call]["comm_ranks"] == [2] * P, call
    shared = compiled.bench.values("rare->main->windows->MPI_Win_allocate_shared", "window_bytes")
    assert shared == [80] * P
