"""Ingesting tables that ranks left behind without an aggregator."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from insitu.errors import CampaignError, WireError


@dataclass(frozen=True, slots=True)
class IngestedRun:
    """What became of a run or, if its ranks are still running, of a table directory.

    Attributes:
        name: of the run, or the table directory.
        state: state of the run, or "running".
        text: a sentence for people.
        missing: ranks without a complete table.
    """

    name: str
    state: str
    text: str
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The ingested runs, and why table directories could not be read."""

    runs: tuple[IngestedRun, ...]
    errors: tuple[str, ...]
    has_directories: bool  # whether there was anything to ingest


def ingest_tables(
    campaign: str,
    directories: Sequence[str] = (),
    *,
    report: Callable[[IngestedRun], None] = lambda run: None,
) -> IngestResult:
    """Bring the tables that ranks left behind into a campaign.

    What is safe in the campaign is removed from its table directory. Ingesting twice does no harm.

    Args:
        campaign: directory of the campaign.
        directories: table directories; default: all of the campaign on this machine and in its
            spool.
        report: called with each run as soon as it is known.

    Raises:
        CampaignError: there is neither a campaign nor a table for it, or it cannot be written.
    """
    from insitu.collectors import leftovers
    from insitu.server.ingest import Ingestion

    paths = [os.path.abspath(path) for path in directories] or leftovers.find_leftovers(campaign)
    if not paths and not os.path.isdir(campaign):
        raise CampaignError(f"{campaign}: no such campaign, and no tables for it on this machine")

    runs: list[IngestedRun] = []
    errors: list[str] = []

    def add(run: IngestedRun) -> None:
        runs.append(run)
        report(run)

    with Ingestion(campaign, now=time.time()) as ingestion:
        for path in paths:
            if leftovers.has_live_ranks(path):
                text = "its ranks are still running; ingest it again when they have ended"
                add(IngestedRun(path, "running", text))
                continue
            try:
                is_safe = ingestion.take(path, leftovers.read_messages(path))
            except WireError as error:
                errors.append(str(error))
                continue
            if is_safe:
                leftovers.remove(path)
        for run in ingestion.finish():
            add(IngestedRun(run.name, run.state.value, run.text, run.missing))
    return IngestResult(tuple(runs), tuple(errors), bool(paths))
