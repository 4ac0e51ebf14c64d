"""Pools of processes, started by the method in argv[1], queues and shared memory."""

import multiprocessing as mp
import sys
from multiprocessing import shared_memory


def square(n):
    return n * n


def fill(name, queue):
    block = shared_memory.SharedMemory(name)
    block.buf[:4] = b"done"
    block.close()
    queue.put("filled")


if __name__ == "__main__":
    from mpi4py import MPI

    context = mp.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print(pool.map(square, range(10)), flush=True)
    block = shared_memory.SharedMemory(create=True, size=16)
    queue = context.Queue()
    child = context.Process(target=fill, args=(block.name, queue))
    child.start()
    print(queue.get(), flush=True)
    child.join()
    print(bytes(block.buf[:4]), child.exitcode, flush=True)
    block.close()
    block.unlink()
    MPI.COMM_WORLD.Barrier()
