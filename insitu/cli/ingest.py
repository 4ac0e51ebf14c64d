"""`insitu ingest`: ingest the tables of ranks that no aggregator received."""

import click

from insitu.cli.options import json_option
from insitu.cli.output import print_json
from insitu.errors import WireError
from insitu.text import printable
from insitu.workflows.ingest import IngestedRun, ingest_tables


@click.command(name="ingest")
@click.argument("campaign", type=click.Path(file_okay=False))
@click.argument("paths", nargs=-1, type=click.Path(exists=True, file_okay=False))
@json_option
def command(campaign: str, paths: tuple[str, ...], is_json: bool) -> None:
    """Bring the tables that ranks left behind into CAMPAIGN.

    Without PATHS, this takes all table directories of the campaign on this machine and in its
    spool. Tables that are safe in the campaign are removed. Ingesting twice does no harm.
    """

    def report(run: IngestedRun) -> None:
        if not is_json:
            click.echo(printable(f"{run.name}: {run.text}"))
            return
        row = {
            "place": run.name,
            "state": run.state,
            "text": run.text,
            "missing": list(run.missing),
        }
        print_json([row])

    result = ingest_tables(campaign, paths, report=report)
    if result.errors:
        raise WireError("not ingested: " + "; ".join(result.errors))
    if not result.has_directories and not is_json:
        click.echo(f"{campaign}: nothing to ingest on this machine")
