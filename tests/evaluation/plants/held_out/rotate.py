"""Each rank looks through the log files of all ranks to find what to rotate."""

import os
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
os.makedirs("logs", exist_ok=True)
OWN = f"logs/{comm.size}-{comm.rank}.log"


def rotate(names):
    for name in names:
        if os.stat(name).st_size > 4000:
            os.truncate(name, 0)


def all_logs():
    return [f"logs/{comm.size}-{rank}.log" for rank in range(comm.size)]


def own_log():
    return [OWN]


def append(step):
    with open(OWN, "a") as log:
        log.write(f"step {step}\n")


def work(n):
    s = 0.0
    for i in range(n):
        s += i * 0.5
    return s


logs = own_log if len(sys.argv) > 1 else all_logs
append(0)
comm.Barrier()
for step in range(60):
    work(20000)
    append(step)
    rotate(logs())
    comm.allreduce(1)
