"""MPI sessions without MPI_Init."""

import mpi4py

mpi4py.rc.initialize = False
from mpi4py import MPI

try:
    session = MPI.Session.Init()
    group = session.Create_group("mpi://WORLD")
    comm = MPI.Intracomm.Create_from_group(group)
    print(comm.allreduce(1), MPI.Is_initialized(), flush=True)
    comm.Free()
    group.Free()
    session.Finalize()
except NotImplementedError:
    print("no sessions", flush=True)
