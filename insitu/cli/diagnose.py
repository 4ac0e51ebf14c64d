"""`insitu diagnose`: what will limit a program on more ranks, most important first."""

import click

from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.analysis.diagnosis.lines import diagnosis_lines
from insitu.analysis.diagnosis.rows import statement_row, summary_row
from insitu.cli.options import DEFAULT_TARGET, campaign_argument, json_option
from insitu.cli.output import print_json, table_width
from insitu.entities import SCALINGS
from insitu.workflows.diagnosis import diagnose

COLOURS = {"✘": "red", "!": "yellow", "✔": "green"}


@click.command(name="diagnose")
@campaign_argument
@json_option
@click.option(
    "-a",
    "--at",
    metavar="NAME=VALUE,...",
    help=f"The target, such as p=65536 ({DEFAULT_TARGET}).",
)
@click.option(
    "-M",
    "--machine",
    default="",
    metavar="NAME=VALUE,...",
    help="The target machine: latency (s), bandwidth (B/s), memory (B), ranks_per_node, and the"
    " runtime (s) of a production run.",
)
@click.option(
    "-s",
    "--scaling",
    type=click.Choice(SCALINGS),
    help="Whether the work of each rank stays the same, or the total work; default: as the"
    " measurements show. `scaling` and `machine` in campaign.toml hold for all views.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["limit"]),
    help="Exit with 1 if there is a limit, for tests.",
)
def command(
    campaign: str,
    *,
    is_json: bool,
    at: str | None,
    machine: str,
    scaling: str | None,
    fail_on: str | None,
) -> None:
    """Say what will limit the program of CAMPAIGN on more ranks, most important first.

    One run gives a profile, two runs give ratios, and runs at three scales or more give laws: exact
    ones of memory, messages, bytes and visits, which hold however busy the machine was, and
    intervals of times. Laws need repeatable counts; six scales, some of them no powers of two, tell
    them from the neighbours of a grid.
    """
    diagnosis = diagnose(campaign, at=at, machine=machine, scaling=scaling or "")
    if is_json:
        _print_json(diagnosis)
    else:
        for line in diagnosis_lines(diagnosis, table_width()):
            click.secho(line, fg=COLOURS.get(line[:1]))
    if fail_on == "limit" and diagnosis.limits:
        click.get_current_context().exit(1)


def _print_json(diagnosis: Diagnosis) -> None:
    """Print the summary, then a line for each statement in order."""
    print_json([summary_row(diagnosis)])
    statements = diagnosis.all_statements()
    print_json(statement_row(rank, entry) for rank, entry in enumerate(statements, 1))
