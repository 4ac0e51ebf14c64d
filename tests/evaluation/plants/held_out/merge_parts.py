"""After each output, rank 0 reads the part files of all ranks and writes one file.

Repaired: the part files remain.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
REPAIRED = "repaired" in sys.argv


def write_part(folder, step, values):
    with open(folder / f"part-{step:04d}-{comm.rank:05d}.json", "w") as stream:
        json.dump({"rank": comm.rank, "values": values.round(3).tolist()}, stream)


def merge(folder, step):
    merged = []
    for path in sorted(folder.glob(f"part-{step:04d}-*.json")):
        merged.extend(json.loads(path.read_text())["values"])
        path.unlink()
    (folder / f"step-{step:04d}.json").write_text(json.dumps(merged))


def advance(field):
    for _ in range(30):
        field += 0.1 * (np.roll(field, 1) - field)


def main():
    folder = pathlib.Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None))
    field = np.random.default_rng(comm.rank).random(30000)
    for step in range(40):
        advance(field)
        if step % 4 == 0:
            write_part(folder, step, field[:1500])
            comm.Barrier()
            if comm.rank == 0 and not REPAIRED:
                merge(folder, step)
    comm.Barrier()
    if comm.rank == 0:
        shutil.rmtree(folder)


main()
