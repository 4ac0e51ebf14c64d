"""`insitu design`: the fewest runs that show how a program scales."""

import click

from insitu.campaign.catalogue import open_catalogue
from insitu.cli.campaign_names import list_campaigns
from insitu.cli.messages import print_note
from insitu.cli.options import json_option
from insitu.cli.output import print_json
from insitu.design.deduce import Pairing, Rule
from insitu.design.dependency_file import parse_derived
from insitu.design.factorial import ExperimentDesign, Point
from insitu.design.levels import parse_levels
from insitu.design.mainloop import LoopVerdict, iterations_for
from insitu.entities import RANKS, Finding, number
from insitu.errors import InsituError, UsageError
from insitu.workflows.design import (
    CheckPointComparison,
    DesignOptions,
    Method,
    add_interactions,
    compare_check_points,
    judge_main_loop,
    load_dependencies,
    make_design,
    write_dependencies,
)
from insitu.workflows.rank_levels import choose_rank_levels

NO_CAMPAIGN = "-"  # of --ranks-from
CROWDED = Finding(
    "ranks-crowded",
    "ranks had to wait for processor cores, so times depend on which of them waited;"
    " the numbers of calls are compared instead",
)


@click.command(name="design")
@click.argument("dependencies", type=click.Path(), metavar="DEPENDENCIES.json")
@click.option(
    "-l",
    "--levels",
    "levels",
    multiple=True,
    required=True,
    metavar="NAME=VALUES",
    help="The values of a parameter, as in n=32,64,96 or p=8..128:5; may be repeated.",
)
@click.option(
    "--derived",
    multiple=True,
    metavar="NAME=PRODUCT",
    help="A parameter that follows from others, as in spacing=vol/cubes; may be repeated.",
)
@click.option(
    "--iteration",
    default="",
    metavar="NAME",
    help="The number of iterations of the main loop, if DEPENDENCIES.json does not name it, as"
    " profiles of a taint analysis; --compare examines whether its iterations cost the same.",
)
@click.option(
    "-m",
    "--method",
    type=click.Choice(["deduced", "full", "sparse"]),
    default="deduced",
    show_default=True,
    help="How to choose the runs; full and sparse are the classical designs, for comparison.",
)
@click.option(
    "--rule",
    type=click.Choice(["additive", "paper"]),
    default="additive",
    show_default=True,
    help="With paper, a full grid over all parameters of a call path, even those that add up.",
)
@click.option(
    "--pairing",
    type=click.Choice(["ascending", "cheapest", "mixed"]),
    default="ascending",
    show_default=True,
    help="Order of the values of parameters that are varied together.",
)
@click.option(
    "--variation",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="CV",
    help="Coefficient of variation of the main loop's iterations, which determines how many "
    "iterations a run needs.",
)
@click.option(
    "--ranks-from",
    type=click.Path(),
    metavar="CAMPAIGN",
    help="Only numbers of ranks that the program accepts as far as CAMPAIGN shows (cubes, squares, "
    "powers, multiples), and those that its behaviour classes need to exist at five of them. "
    "Default without --compare: the only one in the current directory; - for none.",
)
@click.option(
    "-c",
    "--compare",
    type=click.Path(),
    metavar="CAMPAIGN",
    help="Compare the check points measured in CAMPAIGN with its other runs, and extend the "
    "design by the interactions that they show.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="Write the dependencies, including the interactions that --compare shows.",
)
@json_option
def command(
    *,
    dependencies: str,
    levels: tuple[str, ...],
    derived: tuple[str, ...],
    iteration: str,
    method: Method,
    rule: Rule,
    pairing: Pairing,
    variation: float,
    ranks_from: str | None,
    compare: str | None,
    output: str | None,
    is_json: bool,
) -> None:
    """Print the configurations to run, the cheapest first.

    DEPENDENCIES.json is a file of `insitu detect` or the profile of a taint analysis: it says which
    call path depends on which parameter. Parameters that never act in the same call path are varied
    together; a parameter that acts through the main loop is not varied. At the check points,
    parameters that are otherwise varied together move apart: run these too, and --compare shows
    where parameters act together although no count shows it.
    """
    values = _parse_all_levels(levels)
    declared = [parse_derived(text) for text in derived]
    structure = load_dependencies(dependencies, declared, iteration)
    ranks = structure.ranks or RANKS
    if ranks_from is None and compare is None and ranks in values:
        ranks_from = _only_measured_campaign()
    if ranks_from not in (None, NO_CAMPAIGN):
        values = _with_rank_levels(values, ranks, ranks_from)

    loop = None
    if compare is not None and structure.iteration:
        loop = judge_main_loop(compare)
    iterations = max(iterations_for(variation), loop.iterations if loop else 0)
    options = DesignOptions(method, rule, pairing, iterations=iterations)
    design = make_design(structure, values, options)

    if loop is not None:
        _print_loop(loop, structure.iteration, is_json=is_json)
    if compare is not None and (design.checks or loop is None):
        noise = loop.noise if loop else 0.0
        comparison = compare_check_points(structure, design, compare, noise=noise)
        _print_comparison(comparison, is_json=is_json)
        structure = add_interactions(structure, comparison.interactions)
        design = make_design(structure, values, options)

    if output is not None:
        write_dependencies(structure, output)
    if is_json:
        print_json(_row(point, design, is_check=False) for point in design.points)
        print_json(_row(point, design, is_check=True) for point in design.checks)
    else:
        _print_design(design)


def _only_measured_campaign() -> str | None:
    """The only campaign in the current directory, if it has runs."""
    campaigns = list_campaigns()
    if len(campaigns) != 1:
        return None
    try:
        with open_catalogue(campaigns[0]) as catalogue:
            return campaigns[0] if catalogue.runs() else None
    except InsituError:
        return None


def _parse_all_levels(texts: tuple[str, ...]) -> dict[str, tuple[float, ...]]:
    levels: dict[str, tuple[float, ...]] = {}
    for text in texts:
        name, values = parse_levels(text)
        if name in levels:
            raise UsageError(f"--levels {text}: '{name}' is given twice")
        levels[name] = values
    return levels


def _with_rank_levels(
    levels: dict[str, tuple[float, ...]], name: str, campaign: str
) -> dict[str, tuple[float, ...]]:
    """Replace the levels of the number of ranks by those that a campaign suggests."""
    chosen = choose_rank_levels(campaign, levels.get(name, ()))
    for level in chosen.refused:
        print_note(
            f"{name}={number(level)} is left out: all measured numbers of ranks have a property"
            " (cubes, squares, powers, multiples) that it lacks; --ranks-from - keeps it"
        )
    for size, reason in chosen.added.items():
        print_note(f"{name}={size} is added: {reason}")
    return levels | {name: chosen.levels}


def _print_loop(loop: LoopVerdict, parameter: str, *, is_json: bool) -> None:
    finding = Finding("iterations-drift", loop.reason, parameter)
    if is_json:
        if not loop.is_linear:
            row = {"finding": finding.code, "parameter": finding.where, "text": finding.text}
            print_json([row])
    elif loop.is_linear:
        click.echo(f"main loop over {parameter}: {loop.reason}")
    else:
        click.echo(f"{finding.code}: {finding.where}: {finding.text}; vary it as well")


def _print_comparison(comparison: CheckPointComparison, *, is_json: bool) -> None:
    findings = [
        interaction.finding(is_counted=comparison.is_counted)
        for interaction in comparison.interactions
    ]
    if is_json:
        if comparison.is_counted:
            print_json([{"finding": CROWDED.code, "text": CROWDED.text}])
        for interaction, finding in zip(comparison.interactions, findings, strict=True):
            row = {
                "finding": finding.code,
                "callpath": finding.where,
                "pair": interaction.pair,
                "text": finding.text,
            }
            print_json([row])
        return

    if comparison.is_counted:
        click.echo(f"{CROWDED.code}: {CROWDED.text}")

    for finding in findings:
        click.echo(f"{finding.code}: {finding.where} {finding.text}")

    if not findings:
        click.echo("the check points agree with the other runs")

    click.echo()


def _row(point: Point, design: ExperimentDesign, *, is_check: bool) -> dict[str, object]:
    return {
        "params": dict(point.values),
        "repetitions": design.repetitions,
        "iterations": design.iterations or None,
        "check": is_check,
    }


def _print_design(design: ExperimentDesign) -> None:
    """Print the configurations as a table, then the number of runs and the reasons for it."""
    names = [name for name, _ in design.points[0].values]
    points = [[number(value) for _, value in point.values] for point in design.points]
    checks = [[number(value) for _, value in point.values] for point in design.checks]
    columns = zip(names, *points, *checks, strict=True)
    widths = [max(map(len, column)) for column in columns]

    def line(cells: list[str]) -> str:
        return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))

    click.secho(line(names), dim=True)
    for cells in points:
        click.echo(line(cells))
    for cells in checks:
        click.echo(f"{line(cells)}  check point: parameters varied together move apart")

    times = "once" if design.repetitions == 1 else f"{design.repetitions} times"
    loop = f", with at least {design.iterations} iterations" if design.iterations else ""
    saved = f" instead of {design.full_runs}" if design.runs != design.full_runs else ""
    click.echo(
        f"\n{len(design.points)} configurations, each {times}{loop}: {design.runs} runs{saved}"
    )
    for text in design.insights:
        click.echo(f"- {text}")
