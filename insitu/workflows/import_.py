"""Importing measurements of other tools."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np

from insitu.analysis.deviation import find_deviations
from insitu.analysis.forecast import make_forecast
from insitu.campaign.store import SqliteStore, open_store
from insitu.entities import Configuration, RunKey, RunRecord, RunState
from insitu.errors import UsageError
from insitu.formats.base import SUFFIXES, ImportedRuns, load_importer
from insitu.formats.jsonl import JsonLines
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import RunTable
from insitu.workflows.refit import refit_store


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The measurements of a file with its bad lines, and the models fitted afterwards.

    `models` is None if the file has no run; then the campaign is unchanged.
    """

    file: str
    measurements: ImportedRuns
    models: ModelSet | None


def import_measurements(
    campaign: str, source: str | BinaryIO, form: str | None = None
) -> ImportResult:
    """Import the runs of a file into a campaign, and refit its models.

    Importing a run again replaces its values by those of the second file where both have one. The
    campaign is created if it does not exist. Bad lines are skipped and returned.

    Args:
        campaign: directory of the campaign.
        source: a file, a directory of CUBE4 files, or a stream of JSON lines.
        form: "jsonl" or one of `insitu.formats.base.IMPORTERS`; default: by the suffix.

    Raises:
        CampaignError: the campaign cannot be read, or an aggregator is writing to it.
        UsageError: the file cannot be read, or a run has another number of ranks than before.
    """
    from insitu.server.discovery import WriterLock

    file = source if isinstance(source, str) else "-"
    measurements = _read(source, form)
    if not measurements.runs:
        return ImportResult(file, measurements, None)

    with open_store(campaign, create=True) as store, WriterLock(campaign):
        known_keys = {run.id: run.key for run in store.runs()}
        models = store.models()
        for key, table in measurements.runs:
            _add_run(store, key, table, known_keys=known_keys, models=models, file=file)
        models = refit_store(store)
    return ImportResult(file, measurements, models)


def _read(source: str | BinaryIO, form: str | None) -> ImportedRuns:
    if not isinstance(source, str):
        return JsonLines().read(source)
    if form is None:
        suffix = os.path.splitext(source)[1].lower()
        form = "cube" if os.path.isdir(source) else SUFFIXES.get(suffix, "jsonl")
    if form != "jsonl":
        return JsonLines().take(load_importer(form).rows(source))

    try:
        with open(source, "rb") as lines:
            return JsonLines().read(line.rstrip(b"\r\n") for line in lines)
    except OSError as error:
        raise UsageError(f"{source}: cannot read: {error.strerror}") from error


def _add_run(
    store: SqliteStore,
    key: RunKey,
    table: RunTable,
    *,
    known_keys: Mapping[str, RunKey],
    models: ModelSet,
    file: str,
) -> None:
    """Store an imported run, merged with the values that an earlier import had for it.

    Args:
        store: the open campaign.
        key: of the run, as the file has it.
        table: its values.
        known_keys: the runs that the campaign had before, by id.
        models: the models of the campaign before the import.
        file: for errors.

    Raises:
        UsageError: the earlier import had another number of ranks.
    """
    identity = f"import {key}"
    is_known = identity in known_keys
    if is_known:
        table = _merge_tables(store.table(identity), table, key=key, file=file)
        key = known_keys[identity]
    elif key in known_keys.values():
        key = RunKey(key.parameters, store.next_repetition(dict(key.parameters)))

    now = time.time()
    configuration = Configuration.of({"imported": os.path.basename(file)})
    record = RunRecord(identity, key, RunState.COMPLETE, now, now, configuration)
    findings = () if is_known else find_deviations(make_forecast(models, key), table, key)
    store.add_run(replace(record, findings=findings), table)


def _merge_tables(earlier: RunTable, later: RunTable, *, key: RunKey, file: str) -> RunTable:
    """Return the values of both tables; where both have one, that of the later table."""
    n_ranks = max(earlier.size, later.size)
    if {earlier.size, later.size} - {1, n_ranks}:
        raise UsageError(
            f"{file}: run {key} has {later.size} ranks here, {earlier.size} in an earlier import;"
            " import it into another campaign"
        )

    callpaths = tuple(dict.fromkeys((*earlier.callpaths, *later.callpaths)))
    metrics = {metric.name: metric for metric in (*earlier.metrics, *later.metrics)}
    row_of = {path: row for row, path in enumerate(callpaths)}
    values = {name: np.full((len(callpaths), n_ranks), np.nan) for name in metrics}

    for table in (earlier, later):
        rows = np.array([row_of[path] for path in table.callpaths])
        for name, array in table.values.items():
            is_measured = ~np.isnan(array).all(axis=1)
            values[name][rows[is_measured]] = array[is_measured]

    return RunTable(callpaths, tuple(metrics.values()), values)
