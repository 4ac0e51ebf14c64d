"""`insitu import`: import measurements of other tools."""

import sys

import click

from insitu.cli.messages import print_error, print_note
from insitu.cli.options import json_option, named_campaign_argument
from insitu.cli.output import count_text, print_findings, print_json
from insitu.cli.refit import model_sentence
from insitu.entities import RunKey
from insitu.errors import UsageError
from insitu.formats.base import IMPORTERS
from insitu.modeling.measurement import RunTable
from insitu.text import printable
from insitu.workflows.import_ import ImportResult, import_measurements

SHOWN_LINES = 100  # bad lines that are printed
SHOWN_OF_NONE = 3  # where no line can be read: the file has another format


@click.command(name="import")
@named_campaign_argument
@click.argument("file", type=click.Path(), metavar="FILE")
@click.option(
    "-f",
    "--from",
    "form",
    type=click.Choice(["jsonl", *IMPORTERS]),
    metavar="FORMAT",  # the choices are wider than a terminal
    help=f"{', '.join(['jsonl', *IMPORTERS])} (default: by the suffix of FILE, else jsonl).",
)
@json_option
def command(campaign: str, file: str, form: str | None, is_json: bool) -> None:
    """Import the measurements of FILE into CAMPAIGN; - is standard input.

    Creates the campaign if it does not exist, and fits classes and models afterwards. A line of
    the file is

    \b
    {"callpath": "main->solve", "metric": "time", "unit": "s",
     "params": {"p": 64}, "repetition": 0, "ranks": [0.1, 0.2]}

    with one value per rank, or with `"value": x` instead of `"ranks"`. Lines with the same params
    and repetition belong to the same run. A run without p has as many ranks as values. Other
    formats:

    \b
    .json .txt .extra-p     Extra-P's JSON, text or Talpas, experiment
    .cubex, a directory     Score-P: CUBE4 files such as heat.p16.r1/profile.cubex
    .cali, caliper-json     Caliper: a file such as heat.p16.cali is a run
    hatchet                 output of GraphFrame.to_json(): HPCToolkit, TAU …
    .parquet                a table of `insitu export`
    """
    is_stream = file == "-" and form in (None, "jsonl")
    result = import_measurements(campaign, sys.stdin.buffer if is_stream else file, form)

    measurements = result.measurements
    shown = SHOWN_OF_NONE if result.models is None else SHOWN_LINES
    for bad in measurements.bad[:shown]:
        print_error(f"{file}: line {bad.number}: {bad.reason}")
    if len(measurements.bad) > shown:
        print_error(f"{file}: {len(measurements.bad) - shown} more such lines")
    if result.models is None:
        raise UsageError(
            f"{file}: {_why_empty(result)}; nothing was imported, see `insitu import --help`"
        )

    print_findings(result.models.findings, is_json=is_json)
    if result.program:
        program = printable(result.program)
        print_note(f"by its times, {program} contains the other regions: they are below it now")
    longer = result.longer
    if longer is not None and longer.parent is not None:
        path, caller = printable(longer.name), printable(longer.parent.name)
        print_note(
            f"the time of {path} is longer than that of its caller {caller}; if times are without"
            " those of called functions, import them as time_exclusive"
        )
    if is_json:
        print_json(_row(key, table) for key, table in measurements.runs)
    else:
        runs = count_text(len(measurements.runs), "run")
        click.echo(f"{campaign}: {runs} imported; {model_sentence(result.models)}")
    if measurements.bad:
        raise UsageError(
            f"{file}: {len(measurements.bad)} of {measurements.lines} lines were skipped, see"
            " above; correct them and import the file again"
        )


def _why_empty(result: ImportResult) -> str:
    if result.file.lower().endswith((".csv", ".tsv")):
        return "cannot import CSV; convert each row to a line of JSON"
    return "has no line that can be read" if result.measurements.lines else "is empty"


def _row(key: RunKey, table: RunTable) -> dict[str, object]:
    return {
        "run": str(key),
        "params": dict(key.parameters),
        "repetition": key.repetition,
        "callpaths": len(table.callpaths),
        "metrics": [metric.name for metric in table.metrics],
        "ranks": table.size,
    }
