"""What measuring files adds to a call.

    python tests/benchmarks/files_cost.py [--rounds 7]

A compiled program calls `pread` and `fwrite` on a file in memory, at 2 and at 12
functions below `main`. Figures are nanoseconds of CPU time that measurement adds to a call: the
program bare, measured without files and measured with files, in turns; the smallest of 20 blocks of
each run, the median over the rounds. `tests/evaluation/file_counts.py` compares what is counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
enum { CALLS = 20000, BLOCKS = 20 };
static char buffer[64];
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
__attribute__((noinline)) static double read_all(int file) {
  double best = 1e9;
  for (int block = 0; block < BLOCKS; block++) {
    double began = now();
    for (int i = 0; i < CALLS; i++)
      if (pread(file, buffer, 8, 0) != 8) abort();
    double took = (now() - began) / CALLS;
    best = took < best ? took : best;
  }
  return best;
}
__attribute__((noinline)) static double write_all(FILE *stream) {
  double best = 1e9;
  for (int block = 0; block < BLOCKS; block++) {
    rewind(stream);
    double began = now();
    for (int i = 0; i < CALLS; i++)
      if (fwrite(buffer, 8, 1, stream) != 1) abort();
    double took = (now() - began) / CALLS;
    best = took < best ? took : best;
  }
  return best;
}
__attribute__((noinline)) static void descend(int depth, int file, FILE *stream, double *times) {
  if (depth > 0) descend(depth - 1, file, stream, times);
  else times[0] = read_all(file), times[1] = write_all(stream);
  __asm__ volatile("" ::: "memory");
}
int main(int argc, char **argv) {
  double times[4];
  int is_initialised; /* a program without calls of MPI is not measured */
  MPI_Initialized(&is_initialised);
  int file = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (write(file, buffer, 64) != 64) abort();
  FILE *stream = fopen(argv[2], "w");
  descend(0, file, stream, times);
  descend(10, file, stream, times + 2);
  FILE *result = fopen(argv[3], "w");
  fprintf(result, "[%f, %f, %f, %f]", times[0], times[1], times[2], times[3]);
  return fclose(result);
}
"""
NAMES = ("pread", "fwrite", "pread, 12 functions deep", "fwrite, 12 functions deep")
MODES = {"bare": None, "measured": "off", "with files": "on"}


def run_program(folder: Path, files: str | None) -> list[float]:
    """Nanoseconds per call of each kind; `files` None runs the program without insitu."""
    memory = Path("/dev/shm") if Path("/dev/shm").is_dir() else folder
    data, stream = memory / f"insitu-{os.getpid()}-data", memory / f"insitu-{os.getpid()}-stream"
    result = folder / "result"
    words = [str(folder / "program"), str(data), str(stream), str(result)]
    if files is not None:
        campaign = folder / "campaign"
        start = [sys.executable, "-m", "insitu.run", "-q", "-n", "1", "--files", files]
        words = [*start, "--campaign", str(campaign), "--", *words]
    try:
        subprocess.run(words, check=True, cwd=folder, capture_output=True)
    finally:
        data.unlink(missing_ok=True)
        stream.unlink(missing_ok=True)
    times: list[float] = json.loads(result.read_text())
    return times


def measure_cost(folder: Path, rounds: int) -> None:
    """Print what each mode adds to the bare call."""
    times: dict[str, list[list[float]]] = {mode: [] for mode in MODES}
    for _ in range(rounds):
        for mode, files in MODES.items():
            times[mode].append(run_program(folder, files))

    for i, name in enumerate(NAMES):
        middle = {mode: statistics.median(row[i] for row in rows) for mode, rows in times.items()}
        print(
            f"{name:28} bare {middle['bare']:7.1f} ns,"
            f" measured {middle['measured'] - middle['bare']:+6.1f} ns,"
            f" with files {middle['with files'] - middle['bare']:+6.1f} ns"
        )


def main() -> None:
    """Compile the program and measure its cost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()

    mpicc = Path(sys.executable).parent / "mpicc"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.c").write_text(PROGRAM)
        words = [str(mpicc), "-O2", "-w", "program.c", "-o", "program"]
        subprocess.run(words, check=True, cwd=folder)
        measure_cost(folder, options.rounds)


if __name__ == "__main__":
    main()
