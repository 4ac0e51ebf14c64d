"""What collective operations and communicators cost: one rank's part, through mpi4py.

    insitu run -n 8 -- examples/collectives.py 400 256 0

Arguments: repetitions, bytes of a message, number of this run. The same as
examples/native/mpi_collectives.c, which says how it is measured [VAL §3.2]; a call costs a
microsecond more here. Prints one line of JSON per time, for `insitu import`.
"""

import json
import sys
import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

PINGS, WARM, TRIES, ATTEMPTS, CREATIONS, TAG = 40, 10, 8, 6, 8, 7
Call = Callable[[], object]


class Bench:
    """Timing in windows that begin at the same time on all ranks."""

    def __init__(self, count: int, size_bytes: int, run: int) -> None:
        self.world, self.count, self.run = MPI.COMM_WORLD, count, run
        self.outgoing = np.zeros(size_bytes * self.world.size, dtype=np.uint8)
        self.incoming = np.zeros_like(self.outgoing)
        self.message = self.outgoing[:size_bytes]
        self.numbers = self.message.view(np.float64)
        self.sums = self.incoming[:size_bytes].view(np.float64)
        self.offset_s = self.compare_clocks()

    def print(self, name: str, metric: str, unit: str, value: float) -> None:
        """Return a line for `insitu import`."""
        if self.world.rank == 0:
            print(
                json.dumps(
                    {
                        "callpath": name,
                        "metric": metric,
                        "unit": unit,
                        "params": {"p": self.world.size},
                        "repetition": self.run,
                        "value": value,
                    }
                )
            )

    def compare_clocks(self) -> float:
        """Return the offset of this clock to that of rank 0, by the shortest round trip."""
        world, best, offset = self.world, float("inf"), 0.0
        for other in range(1, world.size):
            for _ in range(PINGS if world.rank in (0, other) else 0):
                if world.rank == 0:
                    world.recv(source=other, tag=TAG)
                    world.send(time.monotonic(), other, TAG)
                    continue
                before = time.monotonic()
                world.send(before, 0, TAG)
                mine = world.recv(source=0, tag=TAG)
                after = time.monotonic()
                if after - before < best:
                    best, offset = after - before, (before + after) / 2 - mine
        return offset

    def tree_bcast(self) -> None:
        """The litmus test: a broadcast down a binary tree, (α + β) log p [VAL §3.2]."""
        rank = self.world.rank
        if rank > 0:
            self.world.Recv(self.message, (rank - 1) // 2, TAG)
        for child in range(2 * rank + 1, min(2 * rank + 3, self.world.size)):
            self.world.Send(self.message, child, TAG)

    def windows(self, call: Call, length_s: float) -> NDArray[np.float64]:
        """Return the durations of repetitions that began in time, maxima over ranks."""
        missed = np.zeros(self.count, dtype=np.int8)
        spent = np.zeros(self.count)
        start = self.world.bcast(time.monotonic() + 4 * length_s) + self.offset_s
        for i in range(self.count):
            begin = start + i * length_s
            missed[i] = time.monotonic() > begin
            while time.monotonic() < begin:
                time.sleep(0)  # there may be more ranks than cores
            before = time.monotonic()
            call()
            spent[i] = time.monotonic() - before
        self.world.Allreduce(MPI.IN_PLACE, missed, MPI.MAX)
        self.world.Allreduce(MPI.IN_PLACE, spent, MPI.MAX)
        return np.sort(spent[missed == 0])

    def measure(self, name: str, call: Call) -> None:
        """Warm up, choose the length of the windows, and return the first quartile."""
        for _ in range(WARM):
            call()
        self.world.Barrier()
        before = time.monotonic()
        for _ in range(TRIES):
            call()
            self.world.Barrier()
        length_s = self.world.allreduce(2 * (time.monotonic() - before) / TRIES, MPI.MAX)
        kept = np.empty(0)
        for _ in range(ATTEMPTS):
            kept = self.windows(call, length_s)
            if 4 * len(kept) >= self.count:
                break
            length_s *= 2
        if len(kept):
            self.print(name, "time", "s", float(kept[len(kept) // 4]))
        self.print(name, "windows_missed", "1", self.count - len(kept))

    def keep(self, create: Callable[[], MPI.Comm | MPI.Win]) -> None:
        """Create communicators; insitu records what each adds to the heap."""
        for one in reversed([create() for _ in range(CREATIONS)]):
            one.Free()

    def all(self) -> None:
        """Measure every quantity of tables 2 and 3 [VAL]."""
        world, group = self.world, self.world.Get_group()
        # The first ones fill what all share, such as pools of handles: calls not asked about.
        self.keep(lambda: world.Split(0, world.rank))
        self.keep(lambda: MPI.Win.Create_dynamic(comm=world))
        self.keep(lambda: world.Create(group))
        self.keep(world.Dup)
        self.keep(lambda: MPI.Win.Create(self.message, 1, comm=world))
        self.keep(lambda: world.Create_cart([world.size]))
        part, whole = self.message, self.incoming
        calls: dict[str, Call] = {
            "MPI_Barrier": world.Barrier,
            "MPI_Bcast": lambda: world.Bcast(part),
            "MPI_Reduce": lambda: world.Reduce(self.numbers, self.sums),
            "MPI_Allreduce": lambda: world.Allreduce(self.numbers, self.sums),
            "MPI_Gather": lambda: world.Gather(part, whole if world.rank == 0 else None),
            "MPI_Allgather": lambda: world.Allgather(part, whole),
            "MPI_Alltoall": lambda: world.Alltoall(self.outgoing, whole),
            "tree_bcast": self.tree_bcast,
        }
        for name, call in calls.items():
            self.measure(name, call)


if __name__ == "__main__":
    if len(sys.argv) != 4 or int(sys.argv[1]) < 4 or int(sys.argv[2]) % 8:
        sys.exit("collectives.py: REPETITIONS (4 or more) BYTES (a multiple of 8) RUN")
    Bench(*map(int, sys.argv[1:])).all()
