"""Each rank imports the module of every rank, although it needs its own only."""

import importlib
import os
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
FOLDER = os.path.abspath("plugins.generated")
os.makedirs(FOLDER, exist_ok=True)
sys.path.insert(0, FOLDER)
sys.dont_write_bytecode = True


def generate():
    lines = [f"def f{i}(x):\n    return x * {i} + {comm.rank}\n" for i in range(200)]
    with open(f"{FOLDER}/plug_{comm.size}_{comm.rank}.py", "w") as module:
        module.write("\n".join(lines))


def load(rank):
    return importlib.import_module(f"plug_{comm.size}_{rank}")


def load_plugins():
    return {rank: load(rank) for rank in range(comm.size)}


def load_own():
    return {comm.rank: load(comm.rank)}


def work(n):
    s = 0.0
    for i in range(n):
        s += i * 0.5
    return s


generate()
comm.Barrier()
importlib.invalidate_caches()
plugins = load_own() if len(sys.argv) > 1 else load_plugins()
for step in range(30):
    work(30000)
    comm.allreduce(plugins[comm.rank].f3(step))
