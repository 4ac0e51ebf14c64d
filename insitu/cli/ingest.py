"""`insitu ingest`: bring in the tables of ranks that no aggregator heard."""

import json
import os
import time

import click

from insitu.errors import CampaignError, WireError
from insitu.text import printable


@click.command(name="ingest")
@click.argument("campaign", type=click.Path(file_okay=False))
@click.argument("paths", nargs=-1, type=click.Path(exists=True, file_okay=False))
@click.option("--json", "is_json", is_flag=True, help="Print JSON lines only.")
def command(campaign: str, paths: tuple[str, ...], is_json: bool) -> None:
    """Bring the tables that ranks left behind into CAMPAIGN.

    Without PATHS, all run directories of the campaign on this machine and in its spool are taken.
    What is safe in the campaign is removed from them; to ingest twice does no harm.
    """
    from insitu.collectors import leftovers
    from insitu.server.ingest import Ingestion

    directories = [os.path.abspath(path) for path in paths] or leftovers.find_leftovers(campaign)
    if not directories and not os.path.isdir(campaign):
        raise CampaignError(f"{campaign}: no such campaign, and no tables for it on this machine")
    unreadable = []
    with Ingestion(campaign, now=time.time()) as ingestion:
        for directory in directories:
            if leftovers.has_live_ranks(directory):
                _show(
                    directory, "running", "its ranks are running; ingest when they ended", is_json
                )
                continue
            try:
                is_safe = ingestion.take(directory, leftovers.read_messages(directory))
            except WireError as error:
                unreadable.append(str(error))
                continue
            if is_safe:
                leftovers.remove(directory)
        for run in ingestion.finish():
            _show(run.name, run.state.value, run.text, is_json, run.missing)
    if unreadable:
        raise WireError("not brought in: " + "; ".join(unreadable))
    if not directories and not is_json:
        click.echo(f"{campaign}: nothing to bring in on this machine")


def _show(place: str, state: str, text: str, is_json: bool, missing: tuple[int, ...] = ()) -> None:
    line = {"place": place, "state": state, "text": text, "missing": list(missing)}
    click.echo(json.dumps(line) if is_json else printable(f"{place}: {text}"))
