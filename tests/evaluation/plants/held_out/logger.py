"""Every rank sends its log lines to rank 0 one by one, and rank 0 polls for them."""

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD


class Log:
    lines = 0

    def tell(self, text):
        comm.send(text, 0, tag=9)

    def collect(self, n):
        for _ in range(n):
            self.store(comm.recv(source=MPI.ANY_SOURCE, tag=9))

    def store(self, text):
        self.lines += len(text)


def work(n):
    s = 0.0
    for i in range(n):
        s += i * 0.5
    return s


log = Log()
for step in range(20):
    work(20000)
    if len(sys.argv) > 1:
        comm.reduce(1)
    elif comm.rank:
        for k in range(5):
            log.tell(f"step {step} line {k}")
    else:
        log.collect(5 * (comm.size - 1))
comm.Barrier()
