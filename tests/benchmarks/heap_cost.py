"""What counting the heap and compiled functions costs, beside heaptrack, memray and Caliper.

    python tests/benchmarks/heap_cost.py [--rounds 7] [--memray PYTHON] [--caliper DIRECTORY]

Every figure is nanoseconds of CPU time that the tool adds to one operation: the same program with
and without it, in turns, the smallest of several blocks of each run, the median over the rounds.
heaptrack is taken from PATH (apt install heaptrack), memray from another Python that has it
(`python -m venv X; X/bin/pip install memray`), Caliper from a build inside its sources (`cmake -S
caliper -B caliper/build; cmake --build caliper/build`); what is missing is left out.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAP = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
int main(void) {
  size_t sizes[] = {64, 4096, 0};
  for (int kind = 0; kind < 3; kind++) {
    double best = 1e9;
    unsigned seed = 1;
    for (int block = 0; block < 30; block++) {
      double began = now();
      for (int i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        void *volatile p = malloc(sizes[kind] ? sizes[kind] : 16 + (seed >> 22));
        free(p);
      }
      double took = (now() - began) / 20000;
      if (took < best) best = took;
    }
    printf("%.2f ", best);
  }
  puts("");
}
"""
PYTHON = """
import time
kept = [None] * 64
def block(n):
    for i in range(n): kept[i & 63] = bytearray(700 + (i & 255))
block(2000)
best = 1e9
for _ in range(20):
    began = time.process_time()
    block(4000)
    best = min(best, (time.process_time() - began) / 4000 * 1e9)
print(best)
"""
CALLS = r"""
#include <stdio.h>
#include <time.h>
#ifdef WITH_CALIPER
#include <caliper/cali.h>
#define BEGIN CALI_MARK_BEGIN("small")
#define END CALI_MARK_END("small")
#else
#define BEGIN
#define END
#endif
#define PLAIN __attribute__((no_instrument_function))
PLAIN static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
__attribute__((noinline)) int small(int n) { BEGIN; int sum = n + 1; END; return sum; }
PLAIN int main(void) {
  double best = 1e9;
  volatile int sum = 0;
  for (int block = 0; block < 30; block++) {
    double began = now();
    for (int i = 0; i < 20000; i++) sum = small(sum);
    double took = (now() - began) / 20000;
    if (took < best) best = took;
  }
  printf("%.2f\n", best);
}
"""


def compiled(folder: Path, name: str, text: str, *flags: str, compiler: str = "cc") -> str:
    """Build a C program; its path."""
    (folder / f"{name}.c").write_text(text)
    path = folder / name
    command = [compiler, "-O1", "-w", f"{name}.c", *flags, "-o", path]
    subprocess.run(command, cwd=folder, check=True)
    return str(path)


def times(*argv: str, cwd: Path, **environment: str) -> list[float]:
    """The numbers that a program prints as its last line."""
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "INSITU_TABLES": str(cwd), **environment},
        check=False,
    )
    for line in reversed(done.stdout.splitlines()):
        words = line.split()
        if words and all(word.replace(".", "", 1).isdigit() for word in words):
            return [float(word) for word in words]
    raise SystemExit(f"{argv}: {done.stdout[-300:]} {done.stderr[-300:]}")


def ours(folder: Path, *argv: str) -> list[str]:
    """The command line that measures a program on one rank: no agent, and no throttling."""
    command = [
        sys.executable,
        "-m",
        "insitu.run",
        "-q",
        "-n",
        "1",
        "--agent",
        "off",
        "--budget",
        "off",
    ]
    return [*command, "--campaign", str(folder / "c.insitu"), "--", *argv]


def compiled_with_mpi(folder: Path, name: str, text: str, *flags: str) -> str:
    """Build a C program that is linked with MPI: insitu measures no other compiled programs."""
    mpicc = str(Path(sys.executable).with_name("mpicc"))
    return compiled(folder, name, text, *flags, "-Wl,--no-as-needed", compiler=mpicc)


def of_malloc(folder: Path, rounds: int) -> None:
    """A pair of malloc and free."""
    program = compiled(folder, "pairs", HEAP)
    measured = compiled_with_mpi(folder, "pairs-mpi", HEAP)
    tools = {"plain": [program], "insitu": []}
    if shutil.which("heaptrack"):
        tools["heaptrack"] = ["heaptrack", "-o", str(folder / "trace"), program]
    found: dict[str, list[list[float]]] = {name: [] for name in tools}
    for _ in range(rounds):
        for name, argv in tools.items():
            found[name].append(times(*(argv or ours(folder, measured)), cwd=folder))
    for kind, text in enumerate(("64 B", "4 KiB", "16 to 1039 B")):
        report(
            f"malloc and free, {text}",
            {name: [run[kind] for run in runs] for name, runs in found.items()},
        )


def of_bytearrays(folder: Path, rounds: int, memray: str) -> None:
    """Python's bytearrays, which are malloc's."""
    (folder / "blocks.py").write_text(PYTHON)
    found: dict[str, list[list[float]]] = {"plain": [], "insitu": []}
    if memray:
        found |= {"plain, memray's Python": [], "memray": []}
    for i in range(rounds):
        runs = {"plain": [sys.executable], "insitu": ours(folder)}
        if memray:
            trace = ["-m", "memray", "run", "-q", "-o", str(folder / f"trace-{i}")]
            runs |= {"plain, memray's Python": [memray], "memray": [memray, *trace]}
        for name, argv in runs.items():
            found[name].append(times(*argv, "blocks.py", cwd=folder))
    firsts = {name: [run[0] for run in runs] for name, runs in found.items()}
    report("bytearray of 700 to 955 B", firsts, {"memray": "plain, memray's Python"})


def of_functions(folder: Path, rounds: int, caliper: str) -> None:
    """A call and its return."""
    plain = compiled(folder, "calls", CALLS)
    marked = compiled(folder, "calls-marked", CALLS, "-finstrument-functions")
    measured = compiled_with_mpi(folder, "calls-mpi", CALLS, "-finstrument-functions")
    tools = {"plain": [plain], "absent": [marked], "insitu": []}  # without our library
    named = {}
    if caliper:
        at = Path(caliper).resolve()
        flags = [f"-I{at.parent / 'include'}", f"-I{at / 'include'}", f"-L{at / 'lib'}"]
        flags += [f"-L{at / 'src'}", "-DWITH_CALIPER", "-lcaliper"]
        flags += [f"-Wl,-rpath,{at / 'lib'}:{at / 'src'}"]
        tools["caliper"] = [compiled(folder, "calls-caliper", CALLS, *flags)]
        named = {"CALI_CONFIG": f"runtime-report,output={folder / 'report'}"}
    found: dict[str, list[float]] = {name: [] for name in tools}
    for _ in range(rounds):
        for name, argv in tools.items():
            more = named if name == "caliper" else {}
            found[name] += times(*(argv or ours(folder, measured)), cwd=folder, **more)
    report("call and return of a compiled function", found)


def report(what: str, found: dict[str, list[float]], bases: dict[str, str] | None = None) -> None:
    """What each tool adds, and ours as a share of each."""
    middle = {name: statistics.median(values) for name, values in found.items()}
    added = {
        name: value - middle[(bases or {}).get(name, "plain")] for name, value in middle.items()
    }
    print(f"{what}: plain {middle['plain']:.1f} ns")
    for name, value in added.items():
        if not name.startswith("plain"):
            is_peer = value > 0 and name not in ("insitu", "absent")
            share = f"  insitu / {name} = {added['insitu'] / value:.3f}" if is_peer else ""
            print(f"  {name:10} +{value:.1f} ns{share}")


def main() -> None:
    """Run the rounds of all three and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memray", default="")
    parser.add_argument("--caliper", default="")
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {options.rounds} rounds")
    with tempfile.TemporaryDirectory() as name:
        of_malloc(Path(name), options.rounds)
        of_bytearrays(Path(name), options.rounds, options.memray)
        of_functions(Path(name), options.rounds, options.caliper)


if __name__ == "__main__":
    main()
