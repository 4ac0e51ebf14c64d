"""Memory of ranks and of MPI, and hardware counters, of real programs."""

import pytest

from insitu.cli.doctor import counters

pytestmark = [pytest.mark.mpi, pytest.mark.native]

GROW = """
    from mpi4py import MPI

    block = bytearray(b"x" * (MPI.COMM_WORLD.rank + 1) * (40 << 20))
    copies = [MPI.COMM_WORLD.Dup() for _ in range(20)]
"""


def root(bench, metric):
    return bench.values("app.py", metric)


def test_memory_of_ranks_and_what_mpi_takes_of_it(each_mpi):
    outcome = each_mpi.run("-n", 2, "--", each_mpi.script(GROW))

    assert outcome.code == 0, outcome.err
    grown, own, private = (
        root(each_mpi, name)[1] - root(each_mpi, name)[0]
        for name in ("memory_rss", "memory_pss", "memory_private")
    )
    assert all(35 << 20 < value < 45 << 20 for value in (grown, own, private))
    for rank in range(2):
        rss, peak, pss, shared = (
            root(each_mpi, f"memory_{name}")[rank] for name in ("rss", "rss_peak", "pss", "shared")
        )
        assert 0 < pss < rss <= peak
        assert 0 < shared < rss
        dup = next(p for p in each_mpi.table().callpaths if p.name == "MPI_Comm_dup")
        copies = each_mpi.values(str(dup), "heap_growth")[rank]
        assert copies < root(each_mpi, "memory_mpi")[rank] < 40 << 20  # without the program's own
    assert "memory_swap" in each_mpi.table().values


def test_hardware_counters_are_there_where_the_kernel_grants_them_and_else_absent(bench):
    outcome = bench.run("-n", 1, "--", bench.script("print(sum(range(1_000_000)))"))

    assert outcome.code == 0, outcome.err
    if counters().state == "ok":
        assert root(bench, "instructions")[0] > 1_000_000
        assert root(bench, "cycles")[0] > 0
    else:
        assert not {"instructions", "cycles"} & set(bench.table().values)
