"""Nothing grows: rank 0 has a log file, a status file and a configuration; a sum of four values."""

import json
import logging
import os
import tempfile

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD


class Monitor:
    """Writes on rank 0 only, as much on any number of ranks."""

    def __init__(self, directory):
        self.status = os.path.join(directory, "status.json")
        self.log = logging.getLogger("run")
        self.log.setLevel(logging.INFO)
        self.log.propagate = False
        self.log.addHandler(logging.FileHandler(os.path.join(directory, "run.log")))

    def record(self, step, sums):
        for name, value in zip(("mass", "energy", "x", "y"), sums, strict=True):
            self.log.info("step %d: %s = %.6e on %d ranks", step, name, value, world.size)
        with open(self.status, "w") as out:
            json.dump({"step": step, "sums": list(sums)}, out)


def advance(field):
    return np.roll(field, 1) * 0.5 + field * 0.5


def main():
    field = np.random.default_rng(world.rank).random(30_000)
    with tempfile.TemporaryDirectory() as directory:
        monitor = Monitor(directory) if world.rank == 0 else None
        for step in range(120):
            field = advance(field)
            sums = np.array([field.sum(), (field**2).sum(), field[0], field[-1]])
            world.Allreduce(MPI.IN_PLACE, sums)
            if monitor is not None:
                monitor.record(step, sums)


main()
