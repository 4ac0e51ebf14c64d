"""What a format can do, which formats there are."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import BinaryIO, Protocol

from insitu.entities import RunKey
from insitu.errors import UsageError
from insitu.measurement import Experiment, RunTable
from insitu.modeling.base import ModelSet


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
class Imported:
    """What an importer found: runs with their values, and the lines it could not read."""

    runs: tuple[tuple[RunKey, RunTable], ...]
    bad: tuple[BadLine, ...]
    lines: int


class Importer(Protocol):
    """Reads the measurements of another tool."""

    name: str

    def read(self, lines: Iterable[bytes]) -> Imported:
        """Read what can be read; what cannot is told line by line."""


EXPORTERS = {
    "json": "insitu.formats.extrap:ExtrapJson",
    "jsonl": "insitu.formats.jsonl:JsonLines",
    "csv": "insitu.formats.table:Csv",
}


def exporter(name: str) -> Exporter:
    """The exporter of a format.

    Raises:
        UsageError: there is no such format.
    """
    if name not in EXPORTERS:
        raise UsageError(f"no format '{name}' to export; there are {', '.join(EXPORTERS)}")
    module, _, attribute = EXPORTERS[name].partition(":")
    found: Exporter = getattr(import_module(module), attribute)()
    return found


def exporter_of(file: str) -> Exporter:
    """The exporter whose files end as this one does.

    Raises:
        UsageError: no format is written into such files.
    """
    known = [exporter(name) for name in EXPORTERS]
    for one in known:
        if file.lower().endswith(one.suffix):
            return one
    suffixes = ", ".join(one.suffix for one in known)
    raise UsageError(f"{file}: say --to {'|'.join(EXPORTERS)}, or end it in one of {suffixes}")
