"""The ranks pass a baton by a file that each looks at every 5 ms until it is its turn."""

import os
import sys
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
STEPS = 6


def wait_turn(step):
    while not os.path.exists(f"baton.{comm.size}.{step}.{comm.rank}"):
        time.sleep(0.005)


def pass_on(step):
    open(f"baton.{comm.size}.{step}.{comm.rank + 1}", "w").close()


def write_block(step):
    with open(f"block.{comm.rank}", "ab") as block:
        block.write(b"0" * 10000)
    time.sleep(0.01)


def work(n):
    s = 0.0
    for i in range(n):
        s += i * 0.5
    return s


if comm.rank == 0:
    for step in range(STEPS):
        for rank in range(comm.size + 1):
            name = f"baton.{comm.size}.{step}.{rank}"
            if os.path.exists(name):
                os.remove(name)
        open(f"baton.{comm.size}.{step}.0", "w").close()
comm.Barrier()
for step in range(STEPS):
    work(100000)
    if len(sys.argv) > 1:
        write_block(step)
    else:
        wait_turn(step)
        write_block(step)
        pass_on(step)
    comm.Barrier()
