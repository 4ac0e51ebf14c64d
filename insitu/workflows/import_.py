"""Importing measurements of other tools."""

import glob
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np

from insitu.analysis.deviation import find_deviations_from_models
from insitu.campaign.selection import are_imported
from insitu.campaign.store import SqliteStore, open_store
from insitu.entities import (
    TIME,
    TIME_EXCLUSIVE,
    CallPath,
    Configuration,
    RunKey,
    RunRecord,
    RunState,
)
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
from insitu.modeling.measurement import FloatArray, RunTable
from insitu.workflows.refit import refit_store


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The measurements of a file with its bad lines, and the models fitted afterwards.

    `models` is None if the file has no run; then it changed nothing. `program` is the region that
    contains the others, where the file has a flat list of them, and `longer` a call path whose time
    is longer than that of its caller. `keys` are those of the stored runs, of which `replaced` had
    other values before.
    """

    file: str
    measurements: ImportedRuns
    models: ModelSet | None
    program: str = ""
    longer: CallPath | None = None
    keys: tuple[RunKey, ...] = ()
    replaced: tuple[RunKey, ...] = ()


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
    (result,) = import_files(campaign, [source], form)
    return result


def import_files(
    campaign: str,
    sources: Sequence[str | BinaryIO],
    form: str | None = None,
    *,
    is_exclusive: bool = False,
) -> list[ImportResult]:
    """Import the runs of several files into a campaign, and refit its models once.

    A profile of one run (CUBE4, Caliper, Hatchet) whose name does not contain its repetition is a
    further repetition of the runs with its parameters that are from other files. A directory of
    `.cali` files stands for these.

    Args:
        campaign, form: as those of `import_measurements`.
        sources: the files.
        is_exclusive: `time` of the files does not include that of called functions.

    Returns:
        A result per file.

    Raises:
        CampaignError, UsageError: as `import_measurements`; if a file cannot be read, the campaign
            is unchanged.
    """
    from insitu.server.discovery import WriterLock

    files: list[tuple[str, ImportedRuns]] = []
    for source in _list_sources(sources):
        file = source if isinstance(source, str) else "-"
        with limit_memory(file) if isinstance(source, str) else nullcontext():
            measurements = _read(source, form)
        if is_exclusive:
            runs = tuple((key, _as_exclusive(table)) for key, table in measurements.runs)
            measurements = replace(measurements, runs=runs)
        files.append((file, measurements))
    if not any(measurements.runs for _, measurements in files):
        return [ImportResult(file, measurements, None) for file, measurements in files]

    with open_store(campaign, create=True) as store, WriterLock(campaign):
        results = [_store_runs(store, file, measurements) for file, measurements in files]
        models = refit_store(store)
    return [replace(result, models=models) if result.keys else result for result in results]


def _as_exclusive(table: RunTable) -> RunTable:
    """The table with `time` as time without called functions, where it has no such time."""
    if TIME.name not in table.values or TIME_EXCLUSIVE.name in table.values:
        return table
    metrics = tuple(TIME_EXCLUSIVE if item.name == TIME.name else item for item in table.metrics)
    names = {TIME.name: TIME_EXCLUSIVE.name}
    values = {names.get(name, name): array for name, array in table.values.items()}
    return replace(table, metrics=metrics, values=values)


def _list_sources(sources: Sequence[str | BinaryIO]) -> Iterator[str | BinaryIO]:
    """The sources, with the files of a directory that has `.cali` files and no CUBE4 files."""
    for source in sources:
        profiles: list[str] = []
        if isinstance(source, str) and os.path.isdir(source):
            names = sorted(name for _, _, names in os.walk(source) for name in names)
            if not any(name.endswith(".cubex") for name in names):
                profiles = glob.glob(
                    os.path.join(glob.escape(source), "**", "*.cali"), recursive=True
                )
        if profiles:
            yield from sorted(profiles)
        else:
            yield source


def _store_runs(store: SqliteStore, file: str, measurements: ImportedRuns) -> ImportResult:
    nesting = _choose_nesting(store, measurements)
    measurements = replace(measurements, runs=tuple(nest_regions(measurements.runs, nesting)))
    writer = _RunWriter.of(store, file)
    keys, replaced = [], []
    for key, table in measurements.runs:
        record = measurements.records.get(key)
        stored, is_replaced = writer.add(key, table, record, measurements.files.get(key, ""))
        keys.append(stored)
        if is_replaced:
            replaced.append(stored)

    return ImportResult(
        file,
        measurements,
        None,
        program=next((path.frames[0] for path in nesting.values()), ""),
        longer=None if nesting else find_longer_callee(measurements.runs),
        keys=tuple(keys),
        replaced=tuple(replaced),
    )


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

    def add(
        self, key: RunKey, table: RunTable, record: RunRecord | None, profile: str
    ) -> tuple[RunKey, bool]:
        """Store a run, merged with the values that an earlier import had for it.

        Args:
            key: of the run, as the file has it.
            table: its values.
            record: what the file says about it besides.
            profile: the file, if nothing says which repetition it is, else "".

        Returns:
            The key that it is stored with, and whether values of an earlier import changed.

        Raises:
            UsageError: the earlier import had another number of ranks.
        """
        identity = record.id if record else f"import {key}"
        if profile:
            identity = self._find_profile(key, table, os.path.realpath(profile)) or (
                f"import {key} {os.path.realpath(profile)}"
            )
        earlier = self.known.get(identity)
        is_replaced = False
        if earlier is not None:
            before = self.store.table(identity)
            is_replaced = _differ(before, table)
            table = merge_tables(before, table, key=key, file=self.file)
            key = earlier.key
        elif key in self.taken:
            key = RunKey(key.parameters, self.store.next_repetition(dict(key.parameters)))

        if record is None and earlier is not None:
            record = replace(earlier, findings=())
        elif record is None:
            deviations = find_deviations_from_models(self.models, table, key)
            record = replace(self._describe(identity, key, profile), findings=deviations)

        record = replace(record, key=key)
        self.store.add_run(record, table)
        self.known[identity] = record
        self.taken.add(key)
        return key, is_replaced

    def _find_profile(self, key: RunKey, table: RunTable, path: str) -> str:
        """The id of the stored run that a profile belongs to: its own, or one with other metrics.

        "" for a further repetition.
        """
        imported = [
            run
            for run in self.known.values()
            if run.key.parameters == key.parameters and run.configuration.get("imported")
        ]
        for run in imported:
            if run.configuration.get("profile") == path:
                return run.id
        for run in imported:
            if not _share_series(self.store.table(run.id), table):
                return run.id
        return ""

    def _describe(self, identity: str, key: RunKey, profile: str) -> RunRecord:
        """The record of a run if the file contains only its values."""
        now = time.time()
        values = {"imported": os.path.basename(self.file)}
        if profile:
            values = {"imported": os.path.basename(profile), "profile": os.path.realpath(profile)}
        return RunRecord(identity, key, RunState.COMPLETE, now, now, Configuration.of(values))


def _measured_rows(table: RunTable) -> dict[tuple[CallPath, str], FloatArray]:
    """The values of each call path and metric that has any."""
    return {
        (path, name): row
        for name, values in table.values.items()
        for path, row in zip(table.callpaths, values, strict=True)
        if not np.isnan(row).all()
    }


def _share_series(first: RunTable, second: RunTable) -> bool:
    return bool(_measured_rows(first).keys() & _measured_rows(second).keys())


def _differ(earlier: RunTable, later: RunTable) -> bool:
    """Whether a call path has a metric in both tables, with other values."""
    before = _measured_rows(earlier)
    return any(
        series in before and not np.array_equal(before[series], row, equal_nan=True)
        for series, row in _measured_rows(later).items()
    )


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
