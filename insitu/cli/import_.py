"""`insitu import`: import measurements of other tools."""

import sys
from collections.abc import Sequence

import click

from insitu.cli.messages import print_error, print_note
from insitu.cli.options import json_option, named_campaign_argument
from insitu.cli.output import count_text, print_findings, print_json
from insitu.cli.refit import model_sentence
from insitu.entities import RunKey
from insitu.errors import UsageError
from insitu.formats.base import IMPORTERS
from insitu.modeling.measurement import RunTable
from insitu.text import list_some, printable
from insitu.workflows.import_ import ImportResult, import_files

SHOWN_LINES = 100  # bad lines that are printed
SHOWN_OF_NONE = 3  # where no line can be read: the file has another format
SHOWN_RUNS = 4  # whose values were replaced


@click.command(name="import")
@named_campaign_argument
@click.argument("files", type=click.Path(), metavar="FILE...", nargs=-1, required=True)
@click.option(
    "-f",
    "--from",
    "form",
    type=click.Choice(["jsonl", *IMPORTERS]),
    metavar="FORMAT",  # the choices are wider than a terminal
    help=f"{', '.join(['jsonl', *IMPORTERS])} (default: by the suffix of FILE, else jsonl).",
)
@click.option(
    "-x",
    "--exclusive",
    "is_exclusive",
    is_flag=True,
    help="Times in the files do not include those of called functions.",
)
@json_option
def command(
    campaign: str, files: tuple[str, ...], form: str | None, is_exclusive: bool, is_json: bool
) -> None:
    """Import the measurements of each FILE into CAMPAIGN; - is standard input.

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
    .cali, a directory      Caliper: a file such as heat.p16.cali is a run
    caliper-json            Caliper's json-split
    hatchet                 output of GraphFrame.to_json(): HPCToolkit, TAU …
    .parquet                a table of `insitu export`

    A profile (CUBE4, Caliper, Hatchet) whose name has no repetition, as r2 in heat.p16.r2.cali, is
    one more repetition, unless the same file was imported before.
    """
    is_lines = form in (None, "jsonl")
    sources = [sys.stdin.buffer if file == "-" and is_lines else file for file in files]
    results = import_files(campaign, sources, form, is_exclusive=is_exclusive)

    for result in results:
        _print_bad_lines(result)
    empty = [result for result in results if result.models is None]
    imported = [result for result in results if result.models is not None]
    if not imported:
        raise UsageError(
            f"{empty[0].file}: {_why_empty(empty[0])}; nothing was imported,"
            " see `insitu import --help`"
        )
    models = imported[0].models
    assert models is not None

    print_findings(models.findings, is_json=is_json)
    _print_notes(imported)
    if is_json:
        for result in imported:
            tables = [table for _, table in result.measurements.runs]
            print_json(map(_row, result.keys, tables))
    else:
        n_runs = len({key for result in imported for key in result.keys})
        runs = count_text(n_runs, "run")
        click.echo(f"{campaign}: {runs} imported; {model_sentence(models)}")
    for result in empty:
        raise UsageError(f"{result.file}: {_why_empty(result)}; the other files were imported")
    for result in imported:
        bad = result.measurements.bad
        if bad:
            raise UsageError(
                f"{result.file}: {len(bad)} of {result.measurements.lines} lines were skipped, see"
                " above; correct them and import the file again"
            )


def _print_bad_lines(result: ImportResult) -> None:
    bad = result.measurements.bad
    shown = SHOWN_OF_NONE if result.models is None else SHOWN_LINES
    for line in bad[:shown]:
        print_error(f"{result.file}: line {line.number}: {line.reason}")
    if len(bad) > shown:
        print_error(f"{result.file}: {len(bad) - shown} more such lines")


def _print_notes(results: Sequence[ImportResult]) -> None:
    """What the import made of the files besides storing their values."""
    programs = dict.fromkeys(result.program for result in results if result.program)
    for program in map(printable, programs):
        print_note(f"by its times, {program} contains the other regions: they are below it now")

    longer = next((result.longer for result in results if result.longer is not None), None)
    if longer is not None and longer.parent is not None:
        path, caller = printable(longer.name), printable(longer.parent.name)
        print_note(
            f"the time of {path} is longer than that of its caller {caller}; if times are without"
            " those of called functions, import them with --exclusive into a campaign of their own"
        )

    replaced = [str(key) for result in results for key in result.replaced]
    if replaced:
        verb = "was" if len(replaced) == 1 else "were"
        print_note(
            f"{list_some(replaced, SHOWN_RUNS)} {verb} imported before, with other values, which"
            ' are replaced; for a further repetition, give its number as "repetition"'
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
