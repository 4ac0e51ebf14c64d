"""One-sided communication, files, derived types, errors as exceptions, dynamic attributes."""

import os
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8 * 4, 8, comm=comm)
memory = np.frombuffer(window, dtype="d")
memory[:] = comm.rank
window.Fence()
window.Put(np.full(1, 10.0 + comm.rank), (comm.rank + 1) % comm.size, 1)
window.Fence()
window.Lock(0, MPI.LOCK_SHARED)
value = np.zeros(1)
window.Get(value, 0)
window.Unlock(0)
print(comm.rank, memory.tolist(), value.tolist(), flush=True)
window.Free()
file = MPI.File.Open(comm, "data.bin", MPI.MODE_CREATE | MPI.MODE_RDWR)
file.Write_at_all(8 * comm.rank, np.array([comm.rank], dtype="i8"))
back = np.zeros(1, dtype="i8")
file.Sync()
comm.Barrier()
file.Read_at_all(8 * ((comm.rank + 1) % comm.size), back)
file.Close()
print(comm.rank, back.tolist(), flush=True)
vector = MPI.DOUBLE.Create_vector(2, 1, 2).Commit()
out = np.zeros(4)
comm.Sendrecv([np.arange(4.0), 1, vector], comm.rank, recvbuf=[out, 1, vector], source=comm.rank)
vector.Free()
try:
    comm.Send(np.zeros(1), dest=comm.size + 5)
except MPI.Exception as error:
    print(error.Get_error_class() == MPI.ERR_RANK, out.tolist(), flush=True)
requests = [comm.isend({"k": i}, comm.rank, i) for i in range(3)]
print([comm.recv(source=comm.rank, tag=i)["k"] for i in (2, 0, 1)], flush=True)
MPI.Request.Waitall(requests)
shared = comm.Split_type(MPI.COMM_TYPE_SHARED)
print(shared.size, comm.Create_cart([comm.size]).coords, flush=True)
