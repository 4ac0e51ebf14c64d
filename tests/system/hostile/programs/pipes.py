"""Reads its standard input to the end, and writes more than a pipe holds."""

import sys
from mpi4py import MPI

text = sys.stdin.read()
for i in range(3000):
    print("line", i, len(text))
sys.stdout.flush()
MPI.COMM_WORLD.Barrier()
