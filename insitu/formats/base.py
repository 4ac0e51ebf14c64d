"""What a format can do, which formats there are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO, Protocol

from insitu.entities import RunKey
from insitu.errors import UsageError
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, RunTable


class Exporter(Protocol):
    """Writes a campaign in a format that other tools read."""

    name: str
    suffix: str

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """Write everything of the campaign that the format can say."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be read, counted from 1, and why."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class ImportedRuns:
    """What an importer found: runs with their values, and the lines it could not read."""

    runs: tuple[tuple[RunKey, RunTable], ...]
    bad: tuple[BadLine, ...]
    lines: int


class Importer(Protocol):
    """Reads the measurements of another tool."""

    name: str

    def rows(self, file: str) -> Iterator[Mapping[str, Any]]:  # Any: JSON
        """What a file or directory says, as the lines that `insitu import` takes (jsonl.py).

        Raises:
            UsageError: it cannot be read, or is of another format.
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
    "folded": "insitu.formats.flame:Folded",
    "scorep-filter": "insitu.formats.filters:ScorepFilter",
}
IMPORTERS = {
    "json": "insitu.formats.extrap_in:ExtrapJsonReader",
    "extra-p": "insitu.formats.extrap_in:ExtrapExperimentReader",
    "extra-p-text": "insitu.formats.extrap_in:ExtrapTextReader",
    "cube": "insitu.formats.cube:Cube",
    "caliper-json": "insitu.formats.caliper:CaliperJson",
    "caliper": "insitu.formats.caliper:Caliper",
    "hatchet": "insitu.formats.hatchet:HatchetReader",
}
SUFFIXES = {
    ".json": "json",
    ".extra-p": "extra-p",
    ".txt": "extra-p-text",
    ".cubex": "cube",
    ".cali": "caliper",
}  # what `insitu import` takes a file for; all others are JSON Lines


def load_exporter(name: str) -> Exporter:
    """The exporter of a format.

    Raises:
        UsageError: there is no such format.
    """
    if name not in EXPORTERS:
        raise UsageError(f"no format '{name}' to export; there are {', '.join(EXPORTERS)}")
    found: Exporter = _made(EXPORTERS[name])
    return found


def load_importer(name: str) -> Importer:
    """The importer of a format of other tools.

    Raises:
        UsageError: there is no such format.
    """
    if name not in IMPORTERS:
        raise UsageError(f"no format '{name}' to import; there are jsonl, {', '.join(IMPORTERS)}")
    found: Importer = _made(IMPORTERS[name])
    return found


def _made(place: str) -> Any:  # Any: an exporter or an importer
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)()


def load_exporter_for(file: str) -> Exporter:
    """The exporter whose files end as this one does.

    Raises:
        UsageError: no format is written into such files.
    """
    known = [load_exporter(name) for name in EXPORTERS]
    for one in sorted(known, key=lambda one: -len(one.suffix)):
        if file.lower().endswith(one.suffix):
            return one
    suffixes = ", ".join(one.suffix for one in known)
    raise UsageError(
        f"{file}: which format? Say --to {'|'.join(EXPORTERS)}, or end it in one of {suffixes}"
    )
