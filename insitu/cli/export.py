"""`insitu export`: write a campaign for other tools."""

import sys

import click

from insitu.cli.options import campaign_argument
from insitu.errors import UsageError
from insitu.formats.base import EXPORTERS
from insitu.workflows.export import export_campaign

BINARY = ("extra-p", "parquet")


@click.command(name="export")
@campaign_argument
@click.option(
    "-t",
    "--to",
    "form",
    type=click.Choice(list(EXPORTERS)),
    metavar="FORMAT",
    help="The format (default: by the suffix of FILE).",
)
@click.option(
    "-o", "--output", default="-", metavar="FILE", help="Write to FILE (default: standard output)."
)
def command(campaign: str, form: str | None, output: str) -> None:
    """Write CAMPAIGN for other tools.

    \b
    json           Extra-P's JSON: points, repetitions and models per class
    jsonl          all runs; `insitu import` makes the same campaign
    csv            a row per measured point with its model, for spreadsheets
    extra-p        Extra-P's experiment (.extra-p)
    extra-p-text   Extra-P's text (.txt)
    extra-p-jsonl  Extra-P's JSON Lines (.extra-p.jsonl)
    parquet        all runs, as jsonl; for pandas, polars, DuckDB
    hatchet        the largest run as Hatchet's GraphFrame (.hatchet.json)
    thicket        all runs as a Thicket (.thicket.json)
    python         a module with a function per model (.py)
    c              a header with a function per model (.h)
    sympy          an expression per model, for SymPy (.sympy.jsonl)
    latex          a table of models (.tex)
    openmetrics    predictions and errors for Prometheus (.prom)
    speedscope     the largest run as a profile (.speedscope.json)
    folded         the largest run as folded stacks, for flame graphs
    scorep-filter  functions too short to be instrumented, for Score-P (.filter)
    gcc-filter     the same, as an option for GCC (.gcc)
    """
    if output == "-" and form in BINARY and sys.stdout.isatty():
        raise UsageError(f"{form} is no text for a terminal; name a file with -o FILE")
    export_campaign(campaign, sys.stdout.buffer if output == "-" else output, form)
