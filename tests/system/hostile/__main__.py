"""Hostile programs, each bare and measured, with every MPI and every Python of this machine.

    python -m tests.system.hostile [--only TEXT] [--mpi mpich] [--python 3.12] [--part 1/8]
    python -m tests.system.hostile --install      optional packages, into environments of their own

Prints a table: a line for each program and MPI, a column for each Python. `=` is no difference,
`-` could not run here, `!` differs; below is what differs, and the state of the stored run. The
exit code is 1 if something differs. A program that initialises MPI runs once more with a tool that
counts its calls, messages and bytes, which are compared with what insitu measured. It takes about
half an hour on two idle cores; `--part 1/8` takes every eighth program.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.support.interpreters import VERSIONS, find_python
from tests.system.conftest import BINARIES, Bench
from tests.system.hostile.catalogue import PROGRAMS
from tests.system.hostile.matrix import (
    Combination,
    Result,
    cache_folder,
    in_folder,
    interpreter,
    run,
)
from tests.system.hostile.program import Program

PACKAGES = (
    *("mpi4py", "mpich", "numpy", "scipy", "pandas", "dask", "joblib", "gevent", "greenlet"),
    *("trio", "numba", "cython", "pybind11", "setuptools", "nbclient", "ipykernel", "uvicorn"),
    *("pyinstaller", "pytest", "coverage", "petsc4py", "mpi4py-fft", "pip"),
    "torch --index-url https://download.pytorch.org/whl/cpu",
)
LIBRARIES = ("libjemalloc2", "libtcmalloc-minimal4")


def main(arguments: list[str]) -> int:
    """Run the programs; the exit code is 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose name contains this text")
    parser.add_argument("--mpi", choices=[*BINARIES], action="append")
    parser.add_argument("--python", choices=VERSIONS, action="append")
    parser.add_argument("--part", default="1/1", help="as 3/8: the third of eight parts")
    parser.add_argument("--options", default="", help="of `insitu run`, as '--heap mmap'")
    parser.add_argument("--install", action="store_true", help="install optional packages")
    options = parser.parse_args(arguments)
    if options.install:
        install(options.python or ["3.11", "3.12", "3.13"])
        return 0

    more = tuple(options.options.split())
    part, parts = map(int, options.part.split("/"))
    selected = [
        replace(program, options=(*program.options, *more))
        for program in PROGRAMS
        if options.only in program.name
    ]
    versions = [v for v in options.python or VERSIONS if interpreter(v)]
    columns = "".join(f"{version:>6}" for version in versions)
    print(f"{'program':34}{'MPI':9}{columns}")

    has_differences = False
    for program in selected[part - 1 :: parts]:
        for mpi in options.mpi or BINARIES:
            results = run_versions(program, mpi, versions)
            cells = "".join(f"{symbol(results[v]):>6}" for v in versions if v in results)
            print(f"{program.name:34}{mpi:9}{cells}")
            details = describe(program, mpi, results)
            print("\n".join(f"    {line}" for line in details), flush=True)
            has_differences |= any(" differs " in line for line in details)
    return int(has_differences)


def run_versions(program: Program, mpi: str, versions: list[str]) -> dict[str, Result]:
    """Run a program with every interpreter that it runs with; compiled programs run once."""
    results = {}
    for version in versions if program.is_python else versions[:1]:
        if program.versions and version not in program.versions:
            results[version] = Result(skipped=f"not with Python {version}")
            continue
        with tempfile.TemporaryDirectory(prefix="hostile") as name:
            bench = Bench(Path(name), mpi, Path(name) / "tables", fits=True)
            combination = in_folder(Combination(program, bench, interpreter(version)), Path(name))
            try:
                results[version] = run(combination, has_tallies=True)
            except (subprocess.TimeoutExpired, RuntimeError) as error:
                results[version] = Result(skipped=f"bare: {str(error)[:200]}")
    return results


def symbol(result: Result) -> str:
    """The cell of the table."""
    if result.skipped:
        return "-"
    return "!" if result.differences else "="


def describe(program: Program, mpi: str, results: dict[str, Result]) -> list[str]:
    """A line for each interpreter: what differs, or why it did not run, and what was stored."""
    lines = []
    for version, result in results.items():
        where = f"{program.name}, {mpi}, {version}"
        if result.skipped:
            lines.append(f"{where}: not run: {result.skipped}")
        else:
            findings = " ".join(result.findings)
            verb = "differs" if result.differences else "as bare"
            lines.append(f"{where} {verb} [{result.state} {findings}]".rstrip())
            lines += [f"    {line[:300]}" for line in result.differences[:12]]
    return lines


def install(versions: list[str]) -> None:
    """Install optional packages into environments of their own, and unpack libraries."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for version in versions:
        own = folder / f"py{version}"
        if not own.exists() and find_python(version):
            # That of Debian has no pip of its own.
            make = [find_python(version), "-m", "venv", "--without-pip", str(own)]
            subprocess.run(make, check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(own / "bin" / "python"), "install"]
        pip += ["-q", "--only-binary", ":all:"]
        for package in PACKAGES:
            subprocess.run([*pip, *package.split()], check=False)  # new Pythons have few wheels
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*pip, "mpi4py==4.1.2", "-d", str(folder / "src")], check=False)
    for archive in (folder / "src").glob("*.tar.gz"):
        shutil.unpack_archive(archive, folder / "src", filter="data")
    libraries = folder / "debs"
    libraries.mkdir(exist_ok=True)
    subprocess.run(["apt-get", "download", *LIBRARIES], cwd=libraries, check=False)
    for package in libraries.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(libraries / "root")], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
