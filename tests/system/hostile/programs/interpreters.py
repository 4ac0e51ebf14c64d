"""Subinterpreters with functions of their own."""

import sys
from mpi4py import MPI

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
for _ in range(3):
    number = interpreters.create()
    interpreters.run_string(
        number, "def f(n): return n\nprint(sum(f(i) for i in range(5)), flush=True)"
    )
    interpreters.destroy(number)
MPI.COMM_WORLD.Barrier()
