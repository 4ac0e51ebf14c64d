"""`insitu export`: write a campaign for other tools."""

import os
import sys

import click

from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.cli.output import campaign_argument
from insitu.errors import UsageError
from insitu.formats.base import EXPORTERS, exporter, exporter_of


@click.command(name="export")
@campaign_argument
@click.option(
    "--to",
    "form",
    type=click.Choice(list(EXPORTERS)),
    help="The format; without it by the suffix of FILE.",
)
@click.option(
    "-o", "--output", metavar="FILE", help="Write into FILE; without it to standard output."
)
def command(campaign: str, form: str | None, output: str | None) -> None:
    """Write CAMPAIGN for other tools.

    \b
    json   Extra-P's JSON: points with repetitions, per class; models beside them
    jsonl  every rank's value per run, call path, metric; `insitu import` reads it
    csv    a row per measured point with its model, for spreadsheets and pandas
    """
    chosen = exporter(form) if form else exporter_of(output or "-")
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
