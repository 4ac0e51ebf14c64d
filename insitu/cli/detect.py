"""`insitu detect`: which call path depends on which parameter, from pilot runs that count."""

import sys
from collections.abc import Sequence

import click

from insitu.cli.options import json_option
from insitu.cli.output import Block, OutputColumn, print_blocks, print_json
from insitu.design.dependencies import Dependency, DependencyStatus, Structure
from insitu.design.dependency_file import parse_derived
from insitu.design.levels import parse_levels
from insitu.errors import UsageError
from insitu.text import list_some
from insitu.units import percent
from insitu.workflows.detect import TIMEOUT_S, Detection, DetectOptions, detect_dependencies

OUTPUT = "dependencies.json"
COLUMNS = (
    OutputColumn("depends on"),
    OutputColumn("how", is_wide=True),
    OutputColumn("status"),
)

MANY_CALLPATHS = 20  # are listed, however little they do
LEAST_SHARE = 0.001  # of the work, of further call paths that are listed


@click.command(name="detect")
@click.option(
    "-p",
    "--param",
    "params",
    multiple=True,
    required=True,
    metavar="NAME=A,B,C",
    help="A parameter with three small values, the base first; may be repeated.",
)
@click.option(
    "--derived",
    multiple=True,
    metavar="NAME=PRODUCT",
    help="A parameter that follows from others, such as spacing=vol/cubes; may be repeated.",
)
@click.option(
    "--taint",
    "uses_labels",
    is_flag=True,
    help="Also follow the parameters through one run of a Python program, to find further call"
    " paths that may depend on them.",
)
@click.option(
    "--taint-program",
    default="",
    metavar="FILE",
    help="The same for a compiled program: FILE is the program as clang -fsanitize=dataflow builds"
    " it with insitu_taint.c.",
)
@click.option(
    "--far",
    "far",
    multiple=True,
    metavar="NAME=VALUE",
    help="Also try this larger value; with --taint, only if the parameter has a label and no effect"
    " on any count; may be repeated.",
)
@click.option(
    "--iteration",
    default="",
    metavar="NAME",
    help="The parameter that is the number of iterations of the main loop, where the counts show no"
    " loops, as those of valgrind; all work must be proportional to it.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a pilot run.",
)
@click.option(
    "-o",
    "--output",
    default=OUTPUT,
    show_default=True,
    metavar="FILE",
    help="Write the dependencies to FILE.",
)
@json_option
@click.argument("command_line", nargs=-1, required=True, metavar="-- COMMAND...")
def command(
    *,
    params: tuple[str, ...],
    derived: tuple[str, ...],
    uses_labels: bool,
    taint_program: str,
    far: tuple[str, ...],
    iteration: str,
    timeout_s: float,
    output: str,
    is_json: bool,
    command_line: tuple[str, ...],
) -> None:
    """Detect what each call path depends on, from exact counts of small runs.

    COMMAND is the program with its launcher; {NAME} stands for the value of a parameter:

    \b
    insitu detect --param p=2,4,8 --param n=32,64,96 --param iters=10,20,30 \\
        -- mpiexec -n {p} python app.py {n} {iters}

    This runs the base twice, two alternatives per parameter, every pair, and all together twice: 13
    runs for three parameters. A Python program counts by itself, a compiled one if it was built
    with --coverage (gcc) or -fprofile-instr-generate (clang); otherwise valgrind counts
    instructions. What compiled programs pass to MPI is counted as well. COMMAND may be a script
    that starts such a program, though not under valgrind. `insitu design` deduces the smallest
    experiment from the result.
    """
    levels = _parse_params(params)
    options = DetectOptions(
        derived=tuple(map(parse_derived, derived)),
        far=_parse_far(far),
        uses_labels=uses_labels or bool(taint_program),
        timeout_s=timeout_s,
        iteration=iteration,
        taint_program=taint_program,
    )
    detection = detect_dependencies(command_line, levels, options, _print_progress)

    with open(output, "w", encoding="utf-8") as file:
        file.write(detection.structure.to_json() + "\n")

    if is_json:
        print_json(map(_row, detection.structure.dependencies))
        return

    _print_structure(detection.structure)
    _print_main_loop(detection)
    if options.uses_labels:
        _print_label_advice(detection)

    first = next(iter(levels))
    click.echo(f"\nwritten to {output}; next: insitu design {output} --levels {first}=…")


def _parse_params(params: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Return the values of each parameter, the base first."""
    levels: dict[str, tuple[float, ...]] = {}
    for text in params:
        name, values = parse_levels(text)
        if name in levels:
            raise UsageError(f"--param {text}: '{name}' is given twice")
        # parse_levels returns ascending values, but the base is the first value of the text.
        base = float(text.partition("=")[2].split(",")[0].split("..")[0])
        levels[name] = (base, *(value for value in values if value != base))
    return levels


def _parse_far(texts: Sequence[str]) -> dict[str, float]:
    far = {}
    for text in texts:
        name, values = parse_levels(text)
        if len(values) != 1:
            raise UsageError(f"--far {text}: expected one value, such as {name}=512")
        far[name] = values[0]
    return far


def _print_progress(progress: str) -> None:
    """Show which run is made in the last line of a terminal; clear the line if there is none."""
    if sys.stderr.isatty():
        text = f"\rpilot run {progress} " if progress else "\r" + " " * 40 + "\r"
        click.echo(text, err=True, nl=False)


def _row(dependency: Dependency) -> dict[str, object]:
    nests = []
    for nest in dependency.nests:
        powers = {name: None if power is None else str(power) for name, power in nest.factors}
        nests.append(powers)
    return {
        "callpath": dependency.callpath,
        "share": dependency.share,
        "parameters": sorted(dependency.parameters),
        "nests": nests,
        "status": str(dependency.status),
        "labelled": list(dependency.labelled),
        "refuted": list(dependency.refuted),
    }


def _print_structure(structure: Structure) -> None:
    """Print a block per call path, the most expensive first, without many that do little."""
    shown: list[Dependency] = []
    hidden: list[Dependency] = []
    for dependency in structure.dependencies:
        is_named = dependency.share >= LEAST_SHARE or dependency.labelled or dependency.refuted
        (shown if is_named or len(shown) < MANY_CALLPATHS else hidden).append(dependency)

    blocks = []
    for dependency in shown:
        row = (
            ", ".join(sorted(dependency.parameters)) or "–",
            " + ".join(map(str, dependency.nests)) or "constant",
            _status_text(dependency),
        )
        blocks.append(Block(percent(dependency.share), dependency.callpath, [row]))

    print_blocks("work", COLUMNS, blocks)
    if hidden:
        click.echo(
            f"\n{len(hidden)} further call paths with less than {percent(LEAST_SHARE)} of the work"
            " each; --json lists them"
        )


def _print_main_loop(detection: Detection) -> None:
    """Print the main loop, or which parameters may be its number of iterations."""
    loop = detection.main_loop
    if loop is not None:
        kind, _, line = loop.site.partition(":")
        site = f"{'line' if kind == 'loop' else kind} {line}"
        where = f"the loop over {loop.parameter}"
        if line:
            where = f"{loop.callpath}, {site}, runs {loop.parameter} times and"
        click.echo(
            f"\nmain loop: {where} contains {percent(loop.share)} of the work:"
            f" {loop.parameter} need not be varied"
        )
        return

    for name in detection.loop_candidates:
        click.echo(
            f"\nno main loop is visible in these counts; if {name} is the number of its"
            f" iterations, give --iteration {name}, and it need not be varied"
        )


def _status_text(dependency: Dependency) -> str:
    """Return how the dependency is known, and the parameters that only labels name."""
    texts = [str(dependency.status)]
    is_label_only = not dependency.nests and (dependency.labelled or dependency.refuted)
    if is_label_only and dependency.status is DependencyStatus.OBSERVED:
        texts = []

    for status, names in (
        (DependencyStatus.LABELLED, dependency.labelled),
        (DependencyStatus.REFUTED, dependency.refuted),
    ):
        if names:
            texts.append(f"{status}: {', '.join(names)}")
    return "; ".join(texts)


def _print_label_advice(detection: Detection) -> None:
    """Print which parameters to try farther out, and which could not be followed."""
    click.echo()
    structure = detection.structure
    for name in structure.parameters:
        paths = [entry.callpath for entry in structure.dependencies if name in entry.labelled]
        if name not in detection.labelled_parameters:
            click.echo(
                f"{name} could not be followed: the program does not use it, or it neither reads it"
                " from the command line with int() or float() nor is it the number of ranks"
            )
        elif paths:
            where = list_some([str(path) for path in paths], 1)
            click.echo(
                f"{name} may matter in {where}, though no count changed with it; try a"
                f" larger value with --far {name}=…"
            )
