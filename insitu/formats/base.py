"""The protocols of exporters and importers, and the formats that exist."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, BinaryIO, Protocol, runtime_checkable

from insitu.entities import RunKey, RunRecord
from insitu.errors import UsageError
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, RunTable


class Exporter(Protocol):
    """Writes a campaign in a format that other tools read."""

    name: str
    suffix: str

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """Write everything of the campaign that the format can hold."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be read, counted from 1, and why."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class ImportedRuns:
    """Imported runs with their values, and the lines that could not be read.

    records: what else is known about runs, by their key in `runs`; files: the profile that a run is
    from, if neither its name nor its content says which repetition it is.
    """

    runs: tuple[tuple[RunKey, RunTable], ...]
    bad: tuple[BadLine, ...]
    lines: int
    records: Mapping[RunKey, RunRecord] = field(default_factory=dict)
    files: Mapping[RunKey, str] = field(default_factory=dict)


@runtime_checkable
class ArchiveExporter(Protocol):
    """An exporter whose files hold all runs, so that their import gives the same campaign."""

    def write_archive(
        self, records: Sequence[RunRecord], load_table: Callable[[str], RunTable], out: BinaryIO
    ) -> None:
        """Write all runs, with what the campaign stores about them besides their values.

        Args:
            records: the runs.
            load_table: returns the values of a run by its id.
            out: the file.
        """


class Importer(Protocol):
    """Reads the measurements of another tool."""

    name: str

    def rows(self, file: str) -> Iterator[Mapping[str, Any]]:  # Any: JSON
        """Yield the measurements of a file or directory, as rows of JSON Lines (jsonl.py).

        Raises:
            UsageError: the file cannot be read, or has another format.
        """


EXPORTERS = {
    "json": "insitu.formats.extrap:ExtrapJson",
    "jsonl": "insitu.formats.jsonl:JsonLines",
    "csv": "insitu.formats.table:Csv",
    "extra-p": "insitu.formats.extrap_files:ExtrapExperiment",
    "extra-p-text": "insitu.formats.extrap_files:ExtrapText",
    "extra-p-jsonl": "insitu.formats.extrap_files:ExtrapLines",
    "parquet": "insitu.formats.parquet:Parquet",
    "hatchet": "insitu.formats.hatchet:Hatchet",
    "thicket": "insitu.formats.hatchet:Thicket",
    "python": "insitu.formats.functions:PythonModule",
    "c": "insitu.formats.functions:CHeader",
    "sympy": "insitu.formats.functions:Sympy",
    "latex": "insitu.formats.functions:Latex",
    "openmetrics": "insitu.formats.openmetrics:OpenMetrics",
    "speedscope": "insitu.formats.flame:Speedscope",
    "folded": "insitu.formats.flame:FoldedStacks",
    "scorep-filter": "insitu.formats.filters:ScorepFilter",
    "gcc-filter": "insitu.formats.filters:GccFilter",
}
IMPORTERS = {
    "json": "insitu.formats.extrap_in:ExtrapJsonReader",
    "extra-p": "insitu.formats.extrap_in:ExtrapExperimentReader",
    "extra-p-text": "insitu.formats.extrap_in:ExtrapTextReader",
    "cube": "insitu.formats.cube:Cube",
    "caliper-json": "insitu.formats.caliper:CaliperJson",
    "caliper": "insitu.formats.caliper:Caliper",
    "hatchet": "insitu.formats.hatchet:HatchetReader",
    "parquet": "insitu.formats.parquet:ParquetReader",
}
SUFFIXES = {
    ".json": "json",
    ".extra-p": "extra-p",
    ".txt": "extra-p-text",
    ".cubex": "cube",
    ".cali": "caliper",
    ".parquet": "parquet",
}  # format of a file by its suffix; all others are JSON Lines


def load_exporter(name: str) -> Exporter:
    """Return the exporter of a format.

    Raises:
        UsageError: there is no such format.
    """
    if name not in EXPORTERS:
        raise UsageError(f"no format '{name}' to export; the formats are {', '.join(EXPORTERS)}")
    exporter: Exporter = _load(EXPORTERS[name])
    return exporter


def load_importer(name: str) -> Importer:
    """Return the importer of a format of another tool.

    Raises:
        UsageError: there is no such format.
    """
    if name not in IMPORTERS:
        raise UsageError(
            f"no format '{name}' to import; the formats are jsonl, {', '.join(IMPORTERS)}"
        )
    importer: Importer = _load(IMPORTERS[name])
    return importer


def load_exporter_for(file: str) -> Exporter:
    """Return the exporter whose suffix a file has.

    Raises:
        UsageError: no format has this suffix.
    """
    exporters = [load_exporter(name) for name in EXPORTERS]

    for exporter in sorted(exporters, key=lambda exporter: -len(exporter.suffix)):
        if file.lower().endswith(exporter.suffix):
            return exporter

    suffixes = ", ".join(exporter.suffix for exporter in exporters)
    raise UsageError(
        f"{file}: the suffix does not determine the format; give --to {'|'.join(EXPORTERS)}, or"
        f" use one of the suffixes {suffixes}"
    )


def _load(path: str) -> Any:  # Any: an exporter or an importer
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)()
