"""Plain greenlets: values passed back and forth, exceptions, one that never ends, threads."""

import threading
import greenlet
from mpi4py import MPI


def step(n):
    return n + 1


def worker(parent, n):
    total = 0
    for _ in range(n):
        total = step(total)
        parent.switch(total)
    raise ValueError("end")


def drive(n):
    child = greenlet.greenlet(worker)
    values = [child.switch(greenlet.getcurrent(), n)]
    for _ in range(n - 1):
        values.append(child.switch())
    try:
        child.switch()
    except ValueError as error:
        values.append(str(error))
    return values


def forever():
    while True:
        greenlet.getcurrent().parent.switch(1)


print(drive(10), flush=True)
left = greenlet.greenlet(forever)
print(left.switch(), left.switch(), flush=True)
results = []
thread = threading.Thread(target=lambda: results.append(drive(5)))
thread.start()
thread.join()
print(results, flush=True)
del left
MPI.COMM_WORLD.Barrier()
