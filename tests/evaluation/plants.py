"""Limits planted in six programs, and four programs without any: what `insitu diagnose` names.

    python tests/evaluation/plants.py [--only tables turns ...] [--keep DIRECTORY]

The programs in `plants/held_out` are not among them: `held_out.py` runs those.

Each program runs on 2, 3, 4, 6, 8 and 12 ranks and is diagnosed for 65,536. A plant counts as named
if a limit, a warning or an unclear statement has its kind and its function; each further limit in a
program is listed as unplanned. Needs MPICH in .venv, and gcc.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".venv/bin"
SOURCES = Path(__file__).with_name("plants")
SCALES = (2, 3, 4, 6, 8, 12)
TARGET = "p=65536"
STATUSES = ("limit", "warning", "unclear")
COMPILERS = {".c": "mpicc", ".cpp": "mpicxx", ".f90": "mpifort"}
OPEN_MPI = {  # more ranks than cores, also as root
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
PLANTS = {  # kind and function of each plant
    "tables.py": (
        *(("memory", "remember"), ("memory", "route_table"), ("compute", "neighbour_search")),
        *(("serial", "checkpoint"), ("files", "checkpoint")),
    ),
    "boundaries.py": (
        *(("imbalance", "assemble_boundary"), ("memory", "__init__"), ("bytes", "transpose")),
        ("messages", "pair_communicators"),
    ),
    "turns.py": (
        *(("messages", "ordered_print"), ("bytes", "share_all"), ("serial", "rank_particles")),
        ("files", "dump"),
    ),
    "iterations.py": (("messages", "ring_allgather"), ("messages", "solve")),
    "compiled_tables.c": (
        *(("memory", "make_peers"), ("memory", "allocate_window"), ("messages", "split_levels")),
        *(("bytes", "shuffle"), ("compute", "search"), ("serial", "collect")),
    ),
    "compiled_turns.c": (
        *(("files", "own_file"), ("messages", "in_turn"), ("serial", "gather_write")),
        *(("files", "gather_write"), ("messages", "solve"), ("serial", "broadcast_by_hand")),
    ),
    "healthy_grid.py": (),
    "healthy_strong.py": (),
    "healthy_cube.py": (),
    "healthy_compiled.c": (),
}
FURTHER = {  # true, though not planted: a buffer of p blocks, and data of all ranks
    "tables.py": {("bytes", "main")},
    "boundaries.py": {("memory", "transpose")},
}


Statement = dict[str, Any]  # Any: JSON


def make_command(source: Path, directory: Path) -> list[str] | None:
    """The words that start a program, compiled with -g; None if there is no compiler for it."""
    if source.suffix == ".py":
        return [str(source)]
    compiler = find_compiler(source.suffix)
    if compiler is None:
        return None
    binary = directory / source.stem
    if binary.exists() and binary.stat().st_mtime > source.stat().st_mtime:
        return [str(binary)]  # which campaigns in this directory have measured
    options = ["-g", "-O2", "-fopenmp", f"-J{directory}"]
    if source.suffix != ".f90":
        options.pop()
    subprocess.run([compiler, *options, "-o", binary, source, "-lm"], check=True)
    return [str(binary)]


def find_compiler(suffix: str) -> str | None:
    """MPI's compiler in .venv, else that of the system."""
    name = COMPILERS[suffix]
    return shutil.which(BIN / name) or shutil.which(name)


def diagnose(
    command: Sequence[str],
    campaign: Path,
    *,
    scales: Sequence[int],
    target: str,
    parameter: str = "",
    sizes: Sequence[int] = (0,),
) -> list[Statement]:
    """The statements of the kinds in STATUSES about call paths of a program, in their order.

    It is measured, in the directory of the campaign, unless it was before. With a parameter, at
    each of its sizes, which are the first argument.
    """
    directory = campaign.parent
    source = next(SOURCES.rglob(f"{Path(command[0]).stem}.*"))
    compiler = find_compiler(source.suffix) if source.suffix in COMPILERS else None
    launcher = [] if compiler is None else ["--mpiexec", Path(compiler).with_name("mpiexec")]
    path = f"{BIN}:{os.environ['PATH']}"
    environment = {**os.environ, **OPEN_MPI, "PATH": path, "TMPDIR": str(directory)}
    if not campaign.exists():
        for ranks, size in product(scales, sizes):
            words = [BIN / "insitu", "run", "-n", str(ranks), "--quiet", *launcher]
            words += ["--param", f"{parameter}={size}"] if parameter else []
            sized = [command[0], str(size), *command[1:]] if parameter else command
            words += ["--campaign", campaign, "--", *sized]
            subprocess.run(
                words, env=environment, check=True, stdout=subprocess.DEVNULL, cwd=directory
            )
    words = [BIN / "insitu", "diagnose", campaign, "--at", target, "--json"]
    lines = subprocess.run(words, env=environment, check=True, capture_output=True).stdout
    statements = [json.loads(line) for line in lines.splitlines()][1:]
    return [its for its in statements if its["status"] in STATUSES and its["callpath"]]


def function_of(statement: Statement) -> str:
    """The function that a statement is about, without its class."""
    callpath: str = statement["callpath"]
    return re.split(r"->|\.|::", callpath)[-1]


def judge(program, statements):
    """A row of the table, and how many plants were named."""
    named, further = {}, []
    for statement in statements:
        key = statement["kind"], function_of(statement)
        if key in PLANTS[program]:
            named.setdefault(key, statement)
        elif statement["status"] == "limit" and key not in FURTHER.get(program, ()):
            further.append(key)

    missed = [key for key in PLANTS[program] if key not in named]
    has_line = sum(statement["where"] is not None for statement in named.values())
    exact = sum(statement["exact"] for statement in named.values())
    cells = (
        *(program, len(PLANTS[program]), len(named), exact, has_line),
        ", ".join(" ".join(key) for key in missed) or "-",
        ", ".join(" ".join(key) for key in further) or "-",
    )
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--keep", help="directory for the campaigns; existing ones are used again")
    options = parser.parse_args()
    print("| program | plants | named | exact law | file:line | missed | unplanned limits |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(options.keep or temporary).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        for program in PLANTS:
            stem = Path(program).stem
            if options.only and stem not in options.only:
                continue
            command = make_command(SOURCES / program, directory)
            if command is None:
                print(f"| {program} | not run: no compiler | | | | | |")
                continue
            campaign = directory / f"{stem}.insitu"
            statements = diagnose(command, campaign, scales=SCALES, target=TARGET)
            print(judge(program, statements), flush=True)


if __name__ == "__main__":
    main()
