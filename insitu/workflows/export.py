"""Writing a campaign in a format of another tool."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import BinaryIO

from insitu.campaign.load import load_experiment
from insitu.campaign.store import SqliteStore, open_store
from insitu.errors import CampaignError, UsageError
from insitu.formats.base import ArchiveExporter, load_exporter, load_exporter_for
from insitu.modeling.measurement import RunTable
from insitu.whole_files import write_whole_file
from insitu.workflows.selection import explain_missing_models

OF_MODELS = ("csv", "python", "c", "sympy", "latex")  # formats without anything else


def export_campaign(campaign: str, output: str | BinaryIO, form: str | None = None) -> None:
    """Write the measurements and models of a campaign.

    Args:
        campaign: directory of the campaign.
        output: a file name, or a stream of bytes. A file is complete or unchanged.
        form: name of the format, see `insitu.formats.base.EXPORTERS`; default: by the suffix of
            the file.

    Raises:
        CampaignError: there is no campaign, it cannot be read, or it lacks models that the format
            is for.
        UsageError: no such format, or the file cannot be written.
    """
    name = output if isinstance(output, str) else "-"
    chosen = load_exporter(form) if form else load_exporter_for(name)
    with open_store(campaign) as store:
        if isinstance(chosen, ArchiveExporter):
            _write(partial(chosen.write_archive, store.runs(), _load_with_sites(store)), output)
        else:
            models = store.models()
            missing = explain_missing_models(store, models) if chosen.name in OF_MODELS else ""
            if missing:
                raise CampaignError(f"{missing}; {chosen.name} holds models only")
            _write(partial(chosen.write, load_experiment(store), models), output)


def _load_with_sites(store: SqliteStore) -> Callable[[str], RunTable]:
    """A function that reads a run; each site comes with the first run that has its call path."""
    remaining = store.sites()

    def load(run_id: str) -> RunTable:
        table = store.table(run_id)
        paths = [path for path in table.callpaths if path in remaining]
        return replace(table, sites={path: remaining.pop(path) for path in paths})

    return load


def _write(write: Callable[[BinaryIO], None], output: str | BinaryIO) -> None:
    """Write to a stream, or to a file that is complete or unchanged."""
    if not isinstance(output, str):
        write(output)
        return

    try:
        write_whole_file(output, write)
    except OSError as error:
        raise UsageError(f"{output}: cannot write: {error.strerror}; name another FILE") from error
