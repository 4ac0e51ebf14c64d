"""Heap memory per call path of real programs: what they allocate is known in closed form."""

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.native]

ARRAYS = """
    import sys
    import numpy as np
    from mpi4py import MPI

    kept = []

    def keep(cells):
        kept.append(np.zeros(cells))

    def waste(cells):
        sum(np.ones(cells)[:1])

    def copies(number):
        return [MPI.COMM_WORLD.Dup() for _ in range(number)]

    for _ in range(10):
        keep(100_000 * (1 + MPI.COMM_WORLD.rank))
        waste(1_000_000)
    copies(8)
"""
OVERHEAD = 100_000  # Python's own objects, and what the allocator rounds up


def test_arrays_are_counted_where_they_are_made(bench):
    outcome = bench.run("-n", 2, "--", bench.script(ARRAYS))

    assert outcome.code == 0, outcome.err
    for rank, expected in enumerate((8_000_000, 16_000_000)):
        grown = bench.values("app.py->keep", "heap_growth")[rank]
        assert expected <= grown <= expected + OVERHEAD
        allocated = bench.values("app.py->waste", "bytes_allocated")[rank]
        assert 80_000_000 <= allocated <= 80_000_000 + OVERHEAD
        assert abs(bench.values("app.py->waste", "heap_growth")[rank]) <= OVERHEAD
        peak = bench.values("app.py", "heap_peak")[rank]
        assert expected + 8_000_000 <= peak <= expected + 8_000_000 + (32 << 20)
    dup = next(p for p in bench.table().callpaths if p.name == "MPI_Comm_dup")
    assert min(bench.values(str(dup), "heap_growth")) > 0


def test_without_heap_the_program_has_its_own_allocator(bench):
    script = bench.script("block = bytearray(1 << 20)")

    with_heap, without = (bench.run(*words, "--", script) for words in ((), ("--heap", "off")))

    assert (with_heap.code, without.code) == (0, 0), without.err
    assert "heap_peak" not in bench.table().values
    assert bench.values("app.py", "visits") == [1]
