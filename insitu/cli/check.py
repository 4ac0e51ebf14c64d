"""`insitu check`: whether a campaign grows as expected, for people and for tests."""

import click

from insitu.campaign.load import load_experiment
from insitu.campaign.store import SqliteStore, open_store
from insitu.cli.output import (
    Block,
    Column,
    campaign_argument,
    json_option,
    print_blocks,
    print_json,
    why_none,
)
from insitu.errors import CampaignError, UsageError
from insitu.expectations.assess import Result, Status, assess
from insitu.expectations.baseline import bounds_from_baseline
from insitu.expectations.entries import load_entries
from insitu.formats.verdicts import (
    MARKS,
    OPEN,
    Report,
    annotations,
    describe,
    result_row,
    sentence,
    table_cells,
    write_report,
)
from insitu.modeling.base import ModelSet
from insitu.text import printable

COLOURS = {
    MARKS[Status.MET]: "green",
    MARKS[Status.NEAR]: "yellow",
    MARKS[Status.VIOLATED]: "red",
    MARKS[Status.UNSETTLED]: "cyan",
}
COLUMNS = (
    Column("", colours=COLOURS),
    Column("metric"),
    Column("class"),
    Column("expected"),
    Column("found", is_wide=True),
    Column("δ"),
    Column("R²", is_right=True),
    Column("sure", is_right=True),
)
VIOLATED = 1


@click.command(name="check")
@campaign_argument
@click.argument("expectations", type=click.Path(), required=False, metavar="[EXPECTATIONS.toml]")
@click.option(
    "--baseline",
    type=click.Path(),
    metavar="CAMPAIGN",
    help="An accepted campaign: nothing may grow faster than there.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Also write FILE: JUnit .xml, .sarif or Markdown .md; may be given several times.",
)
@click.option("--github", is_flag=True, help="Print annotations for GitHub instead of a table.")
@json_option
def command(
    campaign: str,
    expectations: str | None,
    *,
    baseline: str | None,
    outputs: tuple[str, ...],
    github: bool,
    is_json: bool,
) -> None:
    """Judge whether CAMPAIGN grows as EXPECTATIONS.toml says, or no faster than --baseline.

    Exit code 0: as expected, or too early to tell; 1: an expectation is violated; 2: the
    expectations make no sense. A doubt names the point that would settle it.
    """
    if expectations is None and baseline is None:
        raise UsageError("name a file of expectations, or an accepted campaign with --baseline")
    entries = load_entries(expectations) if expectations else []
    notes: list[str] = []
    with open_store(campaign) as store:
        models = _models(store)
        experiment = load_experiment(store)
    if baseline is not None:
        with open_store(baseline) as store:
            bounds, notes = bounds_from_baseline(_models(store), models, entries)
        entries = [*entries, *bounds]
    results = assess(entries, experiment, models)
    report = Report(campaign, expectations or "", tuple(results))
    for output in outputs:
        write_report(report, output)
    if is_json:
        print_json(result_row(one) for one in results)
    elif github:
        for line in annotations(report):
            click.echo(line)
    else:
        _print(results)
        click.echo(sentence(results))
    for note in notes:
        click.echo(f"note: {printable(note)}", err=True)
    if any(one.status is Status.VIOLATED for one in results):
        raise click.exceptions.Exit(VIOLATED)


def _models(store: SqliteStore) -> ModelSet:
    models = store.models()
    if not models.models:
        raise CampaignError(why_none(store, models))
    return models


def _print(results: list[Result]) -> None:
    blocks: dict[str, list[tuple[str, ...]]] = {}
    for one in results:
        blocks.setdefault(one.subject, []).append(table_cells(one))
    print_blocks("", COLUMNS, [Block("", subject, rows) for subject, rows in blocks.items()])
    for one in results:
        if one.status in OPEN:
            mark = click.style(MARKS[one.status], fg=COLOURS[MARKS[one.status]])
            click.echo(f"{mark} {printable(describe(one))}")
