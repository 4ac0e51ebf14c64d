"""`insitu import`: bring in measurements of other tools."""

import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

import click
import numpy as np

from insitu.analysis.deviation import find_deviations
from insitu.analysis.forecast import make_forecast
from insitu.campaign.store import SqliteStore, open_store
from insitu.cli.output import (
    campaign_argument,
    counted,
    json_option,
    print_findings,
    print_json,
)
from insitu.cli.refit import grow, sentence
from insitu.entities import Configuration, RunKey, RunRecord, RunState
from insitu.errors import UsageError
from insitu.formats.base import IMPORTERS, SUFFIXES, ImportedRuns, load_importer
from insitu.formats.jsonl import JsonLines
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import RunTable

SHOWN_LINES = 100


@click.command(name="import")
@campaign_argument
@click.argument("file", type=click.Path(), metavar="FILE")
@click.option(
    "--from",
    "form",
    type=click.Choice(["jsonl", *IMPORTERS]),
    help="The format; without it by the suffix of FILE, else jsonl.",
)
@json_option
def command(campaign: str, file: str, form: str | None, is_json: bool) -> None:
    """Bring the measurements of FILE (- is standard input) into CAMPAIGN.

    The campaign is made where there is none; classes and models are made anew afterwards. One line
    of the file is

    \b
    {"callpath": "main->solve", "metric": "time", "unit": "s",
     "params": {"p": 64}, "repetition": 0, "ranks": [0.1, 0.2]}

    with one value per rank, or `"value": x` in the place of `"ranks"`. Lines with the same params
    and repetition make a run; a run that does not say p has as many ranks as values. Other formats:

    \b
    .json .txt .extra-p     Extra-P's JSON, text or Talpas, experiment
    .cubex, a directory     Score-P: CUBE4 files as in heat.p16.r1/profile.cubex
    .cali, caliper-json     Caliper: a file as in heat.p16.cali is a run
    hatchet                 what GraphFrame.to_json() writes: HPCToolkit, TAU …
    """
    from insitu.server.discovery import WriterLock

    found = _read(file, form)
    for bad in found.bad[:SHOWN_LINES]:
        click.echo(f"insitu: {file}: line {bad.number}: {bad.reason}", err=True)
    if len(found.bad) > SHOWN_LINES:
        click.echo(f"insitu: {file}: {len(found.bad) - SHOWN_LINES} more such lines", err=True)
    if not found.runs:
        what = "no line that can be read" if found.lines else "is empty"
        if file.lower().endswith((".csv", ".tsv")):
            what = "CSV is not read: make a line of JSON of each row"
        raise UsageError(f"{file}: {what}; nothing was imported, see `insitu import --help`")
    with open_store(campaign, create=True) as store, WriterLock(campaign):
        known = {run.id: run.key for run in store.runs()}
        models = store.models()
        for key, table in found.runs:
            keep(store, key, table, known=known, models=models, file=file)
        models = grow(store)
    print_findings(models.findings, is_json=is_json)
    if is_json:
        print_json(_row(key, table) for key, table in found.runs)
    else:
        click.echo(f"{campaign}: {counted(len(found.runs), 'run')} imported; {sentence(models)}")
    if found.bad:
        raise UsageError(
            f"{file}: {len(found.bad)} of {found.lines} lines were left out, see above; mend them"
            " and import the file again"
        )


def keep(
    store: SqliteStore,
    key: RunKey,
    table: RunTable,
    *,
    known: Mapping[str, RunKey],
    models: ModelSet,
    file: str,
) -> None:
    """Seal an imported run; what an earlier import said of the same run is kept beside it.

    Args:
        store: where to.
        key: of the run, as the file says it.
        table: its values.
        known: the runs that the campaign had before, by id.
        models: of these.
        file: for errors.

    Raises:
        UsageError: the earlier import had another number of ranks.
    """
    identity = f"import {key}"
    if identity in known:
        table = _joined(store.table(identity), table, key=key, file=file)
        key = known[identity]
    elif key in known.values():
        key = RunKey(key.parameters, store.next_repetition(dict(key.parameters)))
    now = time.time()
    configuration = Configuration.of({"imported": os.path.basename(file)})
    record = RunRecord(identity, key, RunState.COMPLETE, now, now, configuration)
    off = find_deviations(make_forecast(models, key), table, key) if identity not in known else ()
    store.add_run(replace(record, findings=off), table)


def _joined(before: RunTable, table: RunTable, *, key: RunKey, file: str) -> RunTable:
    """Both tables; where both have a value, the second one's."""
    size = max(before.size, table.size)
    if {before.size, table.size} - {1, size}:
        raise UsageError(
            f"{file}: run {key} has {table.size} ranks here, {before.size} in an earlier import;"
            " import it into another campaign"
        )
    callpaths = tuple(dict.fromkeys((*before.callpaths, *table.callpaths)))
    metrics = {metric.name: metric for metric in (*before.metrics, *table.metrics)}
    rows = {path: row for row, path in enumerate(callpaths)}
    values = {name: np.full((len(callpaths), size), np.nan) for name in metrics}
    for one in (before, table):
        targets = [rows[path] for path in one.callpaths]
        for name, array in one.values.items():
            present = ~np.isnan(array).all(axis=1)
            values[name][np.array(targets)[present]] = array[present]
    return RunTable(callpaths, tuple(metrics.values()), values)


def _read(file: str, form: str | None) -> ImportedRuns:
    if form is None and file != "-":
        suffix = os.path.splitext(file)[1].lower()
        form = "cube" if os.path.isdir(file) else SUFFIXES.get(suffix, "jsonl")
    if form not in (None, "jsonl"):
        return JsonLines().take(load_importer(form).rows(file))
    if file == "-":
        return JsonLines().read(sys.stdin.buffer)
    try:
        with open(file, "rb") as lines:
            return JsonLines().read(_without_end(lines))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error


def _without_end(lines: Iterable[bytes]) -> Iterable[bytes]:
    return (line.rstrip(b"\r\n") for line in lines)


def _row(key: RunKey, table: RunTable) -> dict[str, object]:
    return {
        "run": str(key),
        "params": dict(key.parameters),
        "repetition": key.repetition,
        "callpaths": len(table.callpaths),
        "metrics": [metric.name for metric in table.metrics],
        "ranks": table.size,
    }
