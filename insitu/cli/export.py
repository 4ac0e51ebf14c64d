"""`insitu export`: write a campaign for other tools."""

import os
import sys

import click

from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.cli.output import campaign_argument
from insitu.errors import UsageError
from insitu.formats.base import EXPORTERS, load_exporter, load_exporter_for


@click.command(name="export")
@campaign_argument
@click.option(
    "--to",
    "form",
    type=click.Choice(list(EXPORTERS)),
    metavar="FORMAT",
    help="The format; without it by the suffix of FILE.",
)
@click.option(
    "-o", "--output", metavar="FILE", help="Write into FILE; without it to standard output."
)
def command(campaign: str, form: str | None, output: str | None) -> None:
    """Write CAMPAIGN for other tools.

    \b
    json           Extra-P's JSON: points, repetitions, per class; with models
    jsonl          every rank's value; `insitu import` reads it
    csv            a row per measured point with its model, for spreadsheets
    extra-p        Extra-P's experiment (.extra-p)
    extra-p-text   Extra-P's text (.txt)
    extra-p-jsonl  Extra-P's JSON Lines (.extra-p.jsonl)
    parquet        every rank's value, for pandas, polars, DuckDB
    hatchet        the largest run as Hatchet's GraphFrame (.hatchet.json)
    thicket        all runs as a Thicket (.thicket.json)
    python         a module with a function per model (.py)
    c              a header with a function per model (.h)
    sympy          an expression per model, for SymPy (.sympy.jsonl)
    latex          a table of models (.tex)
    openmetrics    predictions and errors for Prometheus (.prom)
    speedscope     the largest run as a profile (.speedscope.json)
    folded         the same as folded stacks, for flame graphs
    scorep-filter  functions too short to be instrumented (.filter)
    """
    chosen = load_exporter(form) if form else load_exporter_for(output or "-")
    with open_store(campaign) as store:
        experiment, models = load_experiment(store), store.models()
    if output is None or output == "-":
        chosen.write(experiment, models, sys.stdout.buffer)
        return
    unfinished = f"{output}.part"
    try:
        with open(unfinished, "wb") as file:
            chosen.write(experiment, models, file)
        os.replace(unfinished, output)
    except OSError as error:
        raise UsageError(
            f"{output}: cannot be written: {error.strerror}; name another FILE"
        ) from error
