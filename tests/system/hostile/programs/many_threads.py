"""400 threads at a time, each with a stack of 64 KiB."""

import threading
from mpi4py import MPI

threading.stack_size(65536)
N = 400
barrier = threading.Barrier(N + 1)


def job(i):
    return i


def body():
    barrier.wait()
    for i in range(10):
        job(i)
    barrier.wait()


threads = [threading.Thread(target=body) for _ in range(N)]
for thread in threads:
    thread.start()
barrier.wait()
barrier.wait()
for thread in threads:
    thread.join()
print("ok", flush=True)
MPI.COMM_WORLD.Barrier()
