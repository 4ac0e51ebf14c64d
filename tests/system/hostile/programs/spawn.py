"""Spawned processes and their parent."""

import sys
from mpi4py import MPI

parent = MPI.Comm.Get_parent()
if parent == MPI.COMM_NULL:
    child = MPI.COMM_SELF.Spawn(sys.executable, [__file__], maxprocs=2)
    print("sum", child.allreduce(0, op=MPI.SUM) if False else child.recv(source=0), flush=True)
    child.Disconnect()
else:
    total = MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank + 1)
    if MPI.COMM_WORLD.rank == 0:
        parent.send(total, 0)
    parent.Disconnect()
