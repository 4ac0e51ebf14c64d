"""Importing measurements of other tools."""

import os
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np

from insitu.analysis.deviation import find_deviations_from_models
from insitu.campaign.selection import are_imported
from insitu.campaign.store import SqliteStore, open_store
from insitu.entities import CallPath, Configuration, RunKey, RunRecord, RunState
from insitu.errors import UsageError
from insitu.formats.base import SUFFIXES, ImportedRuns, load_importer
from insitu.formats.jsonl import JsonLines
from insitu.formats.nested_regions import (
    Nesting,
    find_longer_callee,
    find_nesting,
    follow_nesting,
    nest_regions,
)
from insitu.formats.reading import limit_memory
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import RunTable
from insitu.workflows.refit import refit_store


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The measurements of a file with its bad lines, and the models fitted afterwards.

    `models` is None if the file has no run; then the campaign is unchanged. `program` is the region
    that contains the others, where the file has a flat list of them, and `longer` a call path whose
    time is longer than that of its caller.
    """

    file: str
    measurements: ImportedRuns
    models: ModelSet | None
    program: str = ""
    longer: CallPath | None = None


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
    with limit_memory(file) if isinstance(source, str) else nullcontext():
        measurements = _read(source, form)
    if not measurements.runs:
        return ImportResult(file, measurements, None)

    with open_store(campaign, create=True) as store, WriterLock(campaign):
        nesting = _choose_nesting(store, measurements)
        measurements = replace(measurements, runs=tuple(nest_regions(measurements.runs, nesting)))
        writer = _RunWriter.of(store, file)
        for key, table in measurements.runs:
            writer.add(key, table, measurements.records.get(key))
        models = refit_store(store)
    program = next((path.frames[0] for path in nesting.values()), "")
    longer = None if nesting else find_longer_callee(measurements.runs)
    return ImportResult(file, measurements, models, program, longer)


def _choose_nesting(store: SqliteStore, measurements: ImportedRuns) -> Nesting:
    """Which regions of a flat list contain which, as in the first import into the campaign.

    Only files with values and no more than these are changed, not those that insitu exported.
    """
    if measurements.records:
        return {}
    runs = store.runs()
    if not runs:
        return find_nesting(measurements.runs)
    if not are_imported(runs):
        return {}
    stored = dict.fromkeys(path for run in runs for path in store.callpaths(run.id))
    return follow_nesting(measurements.runs, tuple(stored))


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


@dataclass(frozen=True, slots=True)
class _RunWriter:
    """Stores imported runs.

    file: for messages; models: before the import; known: all runs, by id; taken: their keys.
    """

    store: SqliteStore
    file: str
    models: ModelSet
    known: dict[str, RunRecord]
    taken: set[RunKey]

    @classmethod
    def of(cls, store: SqliteStore, file: str) -> "_RunWriter":
        """A writer for an open campaign; the name of the file is for messages."""
        known = {run.id: run for run in store.runs()}
        return cls(store, file, store.models(), known, {run.key for run in known.values()})

    def add(self, key: RunKey, table: RunTable, record: RunRecord | None) -> None:
        """Store a run, merged with the values that an earlier import had for it.

        Args:
            key: of the run, as the file has it.
            table: its values.
            record: what the file says about it besides.

        Raises:
            UsageError: the earlier import had another number of ranks.
        """
        identity = record.id if record else f"import {key}"
        earlier = self.known.get(identity)
        if earlier is not None:
            table = merge_tables(self.store.table(identity), table, key=key, file=self.file)
            key = earlier.key
        elif key in self.taken:
            key = RunKey(key.parameters, self.store.next_repetition(dict(key.parameters)))

        if record is None and earlier is not None:
            record = replace(earlier, findings=())
        elif record is None:
            deviations = find_deviations_from_models(self.models, table, key)
            record = replace(self._describe(identity, key), findings=deviations)

        record = replace(record, key=key)
        self.store.add_run(record, table)
        self.known[identity] = record
        self.taken.add(key)

    def _describe(self, identity: str, key: RunKey) -> RunRecord:
        """The record of a run if the file contains only its values."""
        now = time.time()
        configuration = Configuration.of({"imported": os.path.basename(self.file)})
        return RunRecord(identity, key, RunState.COMPLETE, now, now, configuration)


def merge_tables(earlier: RunTable, later: RunTable, *, key: RunKey, file: str) -> RunTable:
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

    sites = {**earlier.sites, **later.sites}
    return RunTable(callpaths, tuple(metrics.values()), values, sites)
