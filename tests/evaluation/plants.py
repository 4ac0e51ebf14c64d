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
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".venv/bin"
SOURCES = Path(__file__).with_name("plants")
SCALES = (2, 3, 4, 6, 8, 12)
TARGET = "p=65536"
STATUSES = ("limit", "warning", "unclear")
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


def make_command(program, directory):
    """The words that start a program; compiled ones are compiled with -g."""
    source = SOURCES / program
    if source.suffix == ".py":
        return [str(source)]
    binary = Path(directory) / source.stem
    subprocess.run([BIN / "mpicc", "-g", "-O2", "-o", binary, source, "-lm"], check=True)
    return [str(binary)]


def diagnose(program, directory):
    """The statements about a program, each a line of the JSON output."""
    campaign = Path(directory) / f"{Path(program).stem}.insitu"
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TMPDIR": directory}
    if not campaign.exists():
        command = make_command(program, directory)
        for ranks in SCALES:
            words = [BIN / "insitu", "run", "-n", str(ranks), "--files", "on", "--quiet"]
            words += ["--campaign", str(campaign), "--", *command]
            subprocess.run(
                words, env=environment, check=True, stdout=subprocess.DEVNULL, cwd=directory
            )
    words = [BIN / "insitu", "diagnose", str(campaign), "--at", TARGET, "--json"]
    lines = subprocess.run(words, env=environment, check=True, capture_output=True).stdout
    return [json.loads(line) for line in lines.splitlines()][1:]


def judge(program, statements):
    """A row of the table, and how many plants were named."""
    named, further = {}, []
    for statement in statements:
        if statement["status"] not in STATUSES or not statement["callpath"]:
            continue
        key = statement["kind"], statement["callpath"].rpartition("->")[2].rpartition(".")[2]
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
        directory = options.keep or temporary
        Path(directory).mkdir(parents=True, exist_ok=True)
        for program in PLANTS:
            if not options.only or Path(program).stem in options.only:
                print(judge(program, diagnose(program, directory)), flush=True)


if __name__ == "__main__":
    main()
