"""`insitu detect`: which call path depends on which parameter, from counted pilot runs."""

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise

import click
import numpy as np

import insitu
from insitu.cli.output import Block, Column, json_option, print_blocks, print_json
from insitu.design.blackbox import MainLoop, Site, deduce_structure
from insitu.design.dependencies import Dependency, Structure, parse_derived
from insitu.design.levels import parse_levels
from insitu.design.pilot import pilot_configurations
from insitu.errors import LaunchError, UsageError
from insitu.formats.counts import read_counts
from insitu.launch.pilots import fill, program_at, run_pilot
from insitu.units import percent

OUTPUT = "dependencies.json"
TIMEOUT_S = 60.0
RANK_OPTIONS = ("-n", "-np", "--ntasks", "--n", "-c")
RANK_NAMES = ("p", "procs", "ranks", "nprocs", "np")
COLUMNS = (
    Column("depends on"),
    Column("how", is_wide=True),
    Column("status"),
)


@click.command(name="detect")
@click.option(
    "--param",
    "params",
    multiple=True,
    required=True,
    metavar="NAME=A,B,C",
    help="A parameter with three tiny values, the base first; may be repeated.",
)
@click.option(
    "--derived",
    multiple=True,
    metavar="NAME=PRODUCT",
    help="A parameter that follows from others, as in spacing=vol/cubes.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="The longest that a pilot run may take.",
)
@click.option(
    "-o", "--output", default=OUTPUT, show_default=True, help="Where to keep what was found."
)
@json_option
@click.argument("command_line", nargs=-1, required=True, metavar="-- COMMAND...")
def command(
    *,
    params: tuple[str, ...],
    derived: tuple[str, ...],
    timeout: float,
    output: str,
    is_json: bool,
    command_line: tuple[str, ...],
) -> None:
    """Learn what each call path depends on, from exact counts of tiny runs.

    COMMAND is the program with its launcher; {NAME} stands for the value of a parameter:

    \b
    insitu detect --param p=2,4,8 --param n=32,64,96 --param iters=10,20,30 \\
        -- mpiexec -n {p} python app.py {n} {iters}

    Runs the base twice, two alternatives per parameter, every pair, and all together: 12 runs for
    three parameters. A Python program counts by itself; of a compiled one valgrind counts
    instructions. `insitu design` deduces the smallest experiment from the result.
    """
    levels = _levels(params)
    found = tuple(map(parse_derived, derived))
    configurations = pilot_configurations(levels)
    filled = [fill(command_line, at) for at in configurations]
    prepared = [_counting(words) for words in filled]
    columns = [
        _pilot(words, environment, timeout, f"{i} of {len(prepared)}")
        for i, (words, environment) in enumerate(prepared, start=1)
    ]
    sites: set[Site] = set().union(*columns)
    if not sites:
        raise LaunchError("the pilot runs counted nothing: did they end by os._exit or a signal?")
    counts = {site: np.array([column.get(site, 0.0) for column in columns]) for site in sites}
    ranks = _rank_parameter(command_line, list(levels))
    structure, loop = deduce_structure(configurations, counts, ranks=ranks, derived=found)
    with open(output, "w", encoding="utf-8") as file:
        file.write(structure.to_json() + "\n")
    if is_json:
        print_json(map(_row, structure.dependencies))
        return
    _print(structure, loop)
    click.echo(f"\nkept in {output}; next: insitu design {output} --levels {next(iter(levels))}=…")


def _levels(params: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Values by parameter in the order in which they were given; the first is the base."""
    found: dict[str, tuple[float, ...]] = {}
    for text in params:
        name, values = parse_levels(text)
        if name in found:
            raise UsageError(f"--param {text}: '{name}' stands there twice")
        first = float(text.partition("=")[2].split(",")[0].split("..")[0])
        found[name] = (first, *(value for value in values if value != first))
    return found


def _counting(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command and the environment in which the program counts."""
    at = program_at(words)
    program = words[at]
    is_python = program.endswith(".py") or os.path.basename(program).startswith("python")
    if program.endswith(".py"):
        words = [*words[:at], sys.executable, *words[at:]]
    elif not is_python:
        if shutil.which("valgrind") is None:
            raise LaunchError(
                f"{program} is no Python program, and there is no valgrind to count its"
                " instructions; load or install it (apt-get install valgrind)"
            )
        valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file={directory}/%p.callgrind"]
        return [*words[:at], *valgrind, *words[at:]], {}
    home = os.path.dirname(os.path.dirname(os.path.abspath(insitu.__file__)))
    collectors = os.path.join(os.path.dirname(os.path.abspath(insitu.__file__)), "collectors")
    original = os.environ.get("PYTHONPATH", "")
    path = [os.path.join(collectors, "counting", "site"), home, original]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    return words, environment | ({"INSITU_PYTHONPATH": original} if original else {})


def _pilot(
    words: list[str], environment: dict[str, str], timeout: float, progress: str
) -> dict[Site, float]:
    """Run it, and read what it counted."""
    with tempfile.TemporaryDirectory(prefix="insitu-pilot-") as directory:
        shown = sys.stderr.isatty()
        if shown:
            click.echo(f"\rpilot run {progress} ", err=True, nl=False)
        command_line = [word.replace("{directory}", directory) for word in words]
        run_pilot(command_line, environment | {"INSITU_COUNTS": directory}, timeout)
        if shown:
            click.echo("\r" + " " * 40 + "\r", err=True, nl=False)
        return read_counts(directory)


def _rank_parameter(template: Sequence[str], names: Sequence[str]) -> str:
    """The parameter that is the number of ranks: behind -n of the launcher, or by its name."""
    for option, value in pairwise(template):
        if option in RANK_OPTIONS and value.strip("{}") in names:
            return value.strip("{}")
    return next((name for name in names if name in RANK_NAMES), "")


def _row(one: Dependency) -> dict[str, object]:
    return {
        "callpath": one.callpath,
        "share": one.share,
        "parameters": sorted(one.parameters),
        "nests": [
            {name: None if power is None else str(power) for name, power in nest.factors}
            for nest in one.nests
        ],
        "status": str(one.status),
    }


def _print(structure: Structure, loop: MainLoop | None) -> None:
    """One block per call path, dearest first; then the main loop."""
    blocks = [
        Block(
            percent(one.share),
            one.callpath,
            [
                (
                    ", ".join(sorted(one.parameters)) or "–",
                    " + ".join(map(str, one.nests)) or "constant",
                    str(one.status),
                )
            ],
        )
        for one in structure.dependencies
    ]
    print_blocks("work", COLUMNS, blocks)
    if loop is not None:
        line = loop.site.partition(":")[2]
        click.echo(
            f"\nmain loop: {loop.callpath}, line {line}, runs {loop.parameter} times and does"
            f" {percent(loop.share)} of the work: {loop.parameter} need not be varied"
        )
