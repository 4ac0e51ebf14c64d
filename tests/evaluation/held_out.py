"""Limits planted in the ten programs of `plants/held_out`: what `insitu diagnose` says of each.

    python tests/evaluation/held_out.py [--only partition find_owner ...] [--keep DIRECTORY]

Each program runs as it is, with one limit, and with the argument `repaired`, without any. A plant
counts as named if a limit, a warning or an unclear statement is about its function, whatever its
kind. Every statement about a repaired program is listed. Needs MPICH in .venv, and gcc; a program
that cannot be compiled is left out, with its reason. docs/benchmarks/views.md has the table of the
day on which the programs were written.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from plants import SCALES, Statement, diagnose, function_of, make_command

SOURCES = Path(__file__).with_name("plants") / "held_out"
TARGET = "p=4096"
PLANTS = {  # what is planted, and the functions that may be named for it
    "partition.py": ("one rank owns 30 √p rows", ("sweep", "relax_row")),
    "reproducible_sum.py": ("allgather of all values", ("ordered_sum",)),
    "sample_sort.py": ("rank 0 sorts the keys of all", ("choose_splitters",)),
    "owners.py": ("p broadcasts in each step", ("share_blocks",)),
    "input_deck.py": ("rank 0 parses an input for all", ("read_loads", "parse_line")),
    "pair_costs.c": ("table of p² entries", ("build_costs",)),
    "sparse_exchange.c": ("all-to-all with two partners", ("exchange_all",)),
    "find_owner.c": ("linear search among p ranks", ("find_owner",)),
    "restart.c": ("each rank reads the blocks of all", ("read_restart",)),
    "ordered_exchange.f90": (  # which the compiler may have inlined
        "a barrier after each rank's message",
        ("exchange_ordered", "exchange_ordered.0", "MAIN__"),
    ),
}


def describe(statement: Statement) -> str:
    """A statement in a cell of the table: status, kind and function."""
    return f"{statement['status']} {statement['kind']} {function_of(statement)}"


def judge(program: str, planted: Sequence[Statement], repaired: Sequence[Statement]) -> str:
    """A row of the table."""
    text, functions = PLANTS[program]
    about = [i for i, its in enumerate(planted) if function_of(its) in functions]
    statement = planted[about[0]] if about else None
    cells = [
        program,
        text,
        describe(planted[0]) if planted else "nothing",
        f"statement {about[0] + 1}" if about else "no",
        (statement["law"] or "none") + (", exact" * statement["exact"]) if statement else "-",
        (statement["where"] or "-") if statement else "-",
        ", ".join(describe(its) for its in repaired) or "-",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="names without their endings")
    parser.add_argument("--scales", nargs="+", type=int, default=SCALES)
    parser.add_argument("--keep", help="directory for the campaigns; existing ones are used again")
    options = parser.parse_args()
    print("| program | planted | said first | named | law | where | of the repaired program |")
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
                print(f"| {program} | {PLANTS[program][0]} | not run: no compiler | | | | |")
                continue
            how = {"scales": options.scales, "target": TARGET}
            planted = diagnose(command, directory / f"{stem}.insitu", **how)
            words = [*command, "repaired"]
            repaired = diagnose(words, directory / f"{stem}-repaired.insitu", **how)
            print(judge(program, planted, repaired), flush=True)


if __name__ == "__main__":
    main()
