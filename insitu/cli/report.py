"""`insitu report`: a campaign on one page."""

import click

from insitu.cli.options import DEFAULT_TARGET, campaign_argument
from insitu.cli.output import count_text
from insitu.workflows.report import write_report


@click.command(name="report")
@campaign_argument
@click.option(
    "-o",
    "--output",
    default="",
    metavar="FILE",
    help="Write to FILE: HTML, or Markdown (.md) (default: CAMPAIGN.html).",
)
@click.option(
    "-a",
    "--at",
    metavar="NAME=VALUE,...",
    help=f"The point to look ahead to, such as p=65536 ({DEFAULT_TARGET}).",
)
@click.option(
    "-e",
    "--expect",
    type=click.Path(),
    metavar="FILE",
    help="Expectations to judge, as for `insitu check` (default: expectations.toml of CAMPAIGN).",
)
def command(campaign: str, output: str, at: str | None, expect: str | None) -> None:
    """Write a report on CAMPAIGN: what grows, what will dominate the cost, which ranks differ.

    The report is a single file. It loads nothing from elsewhere, runs no scripts, and is suitable
    for printing.
    """
    report = write_report(campaign, output, at=at, expectations=expect)
    summary = report.summary
    models = count_text(len(summary.series), "model")
    click.echo(f"{report.file}: {models}, {count_text(len(summary.findings), 'finding')}")
