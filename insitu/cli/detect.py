"""`insitu detect`: which call path depends on which parameter, from counted pilot runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import click

from insitu.cli.output import Block, Column, json_option, print_blocks, print_json
from insitu.cli.pilots import Pilots
from insitu.design.blackbox import MainLoop, deduce_structure
from insitu.design.dependencies import Dependency, DependencyStatus, Structure, add_labels
from insitu.design.dependency_file import parse_derived
from insitu.design.levels import parse_levels
from insitu.design.pilot import far_configurations, pilot_configurations
from insitu.errors import UsageError
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


@dataclass(frozen=True, slots=True)
class Asked:
    """Three tiny values by parameter, values farther out, the number of ranks, what follows."""

    levels: dict[str, tuple[float, ...]]
    farther: dict[str, float]
    ranks: str
    derived: tuple[tuple[str, tuple[tuple[str, Fraction], ...]], ...]


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
    "--taint",
    "is_tainted",
    is_flag=True,
    help="Follow the parameters through one run of a Python program: what else may matter?",
)
@click.option(
    "--far",
    "far",
    multiple=True,
    metavar="NAME=VALUE",
    help="Try a parameter farther out, too; with --taint only where it is named and silent.",
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
    is_tainted: bool,
    far: tuple[str, ...],
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
    three parameters. A Python program counts by itself, a compiled one where it was built with
    --coverage (gcc) or -fprofile-instr-generate (clang); of others valgrind counts instructions.
    `insitu design` deduces the smallest experiment from the result.
    """
    levels = _levels(params)
    ranks = _rank_parameter(command_line, list(levels))
    asked = Asked(levels, _far(levels, far), ranks, tuple(map(parse_derived, derived)))
    structure, loop, seen = _detected(asked, Pilots(command_line, timeout), is_tainted)
    with open(output, "w", encoding="utf-8") as file:
        file.write(structure.to_json() + "\n")
    if is_json:
        print_json(map(_row, structure.dependencies))
        return
    _print(structure, loop)
    if is_tainted:
        _say_labels(structure, seen)
    click.echo(f"\nkept in {output}; next: insitu design {output} --levels {next(iter(levels))}=…")


def _detected(
    asked: Asked, pilots: Pilots, is_tainted: bool
) -> tuple[Structure, MainLoop | None, Collection[str]]:
    """What counts say, with what labels say besides; the main loop; the labels that were seen.

    Parameters are tried farther out where a label says they may matter and no count does; without
    labels wherever that is asked for.
    """
    ranks, derived, farther = asked.ranks, asked.derived, asked.farther
    configurations = pilot_configurations(asked.levels)
    labels = pilots.labels(configurations[0], ranks) if is_tainted else {}
    counts = pilots.count(configurations)
    structure, loop = deduce_structure(configurations, counts, ranks=ranks, derived=derived)
    if is_tainted:
        structure = add_labels(structure, labels)
        silent = {name for one in structure.dependencies for name in one.labelled}
        farther = {name: value for name, value in farther.items() if name in silent}
    if farther:
        configurations += far_configurations(asked.levels, farther)
        counts = pilots.count(configurations)
        structure, loop = deduce_structure(configurations, counts, ranks=ranks, derived=derived)
        structure = add_labels(structure, labels, farther)
    return structure, loop, frozenset().union(*labels.values())


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


def _far(levels: Mapping[str, Sequence[float]], far: Sequence[str]) -> dict[str, float]:
    """Values farther out by parameter.

    Raises:
        UsageError: not one value, or none that is farther out.
    """
    found = {}
    for text in far:
        name, values = parse_levels(text)
        if len(values) != 1:
            raise UsageError(f"--far {text}: one value, as in {name}=512")
        found[name] = values[0]
    far_configurations(levels, found)
    return found


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
        "labelled": list(one.labelled),
        "refuted": list(one.refuted),
    }


def _status(one: Dependency) -> str:
    """How it is known, and what an analysis names besides."""
    parts = [str(one.status)]
    if not one.nests and (one.labelled or one.refuted) and one.status is DependencyStatus.OBSERVED:
        parts = []
    for status, names in (
        (DependencyStatus.LABELLED, one.labelled),
        (DependencyStatus.REFUTED, one.refuted),
    ):
        if names:
            parts.append(f"{status}: {', '.join(names)}")
    return "; ".join(parts)


def _say_labels(structure: Structure, seen: Collection[str]) -> None:
    """What to try farther out, and what could not be followed."""
    click.echo()
    for name in structure.parameters:
        paths = [one.callpath for one in structure.dependencies if name in one.labelled]
        if name not in seen:
            click.echo(
                f"{name} was seen nowhere: nothing that ran asks for it, or it is neither read from"
                " the command line by int() or float() nor the number of ranks"
            )
        elif paths:
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            click.echo(
                f"{name} may matter in {paths[0]}{more}, though no count changed with it: try it"
                f" farther out, --far {name}=…"
            )


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
                    _status(one),
                )
            ],
        )
        for one in structure.dependencies
    ]
    print_blocks("work", COLUMNS, blocks)
    if loop is not None:
        kind, _, line = loop.site.partition(":")
        place = f"{'line' if kind == 'loop' else kind} {line}"
        click.echo(
            f"\nmain loop: {loop.callpath}, {place}, runs {loop.parameter} times and does"
            f" {percent(loop.share)} of the work: {loop.parameter} need not be varied"
        )
