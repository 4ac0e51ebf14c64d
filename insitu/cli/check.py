"""`insitu check`: whether a campaign grows as expected, for people and for tests."""

from collections.abc import Iterator, Sequence

import click

from insitu.cli.campaign_names import only_campaign
from insitu.cli.messages import print_error, print_note
from insitu.cli.options import campaign_argument, json_option
from insitu.cli.output import Block, OutputColumn, print_blocks, print_json
from insitu.errors import UsageError
from insitu.expectations.result import Result, Status
from insitu.formats.verdicts import (
    MARKS,
    OPEN,
    annotations,
    describe,
    describe_reason,
    result_row,
    sentence,
    table_cells,
)
from insitu.text import printable
from insitu.workflows.accept import Acceptance, accept_campaign
from insitu.workflows.check import check_expectations

COLOURS = {
    MARKS[Status.MET]: "green",
    MARKS[Status.NEAR]: "yellow",
    MARKS[Status.VIOLATED]: "red",
    MARKS[Status.UNSETTLED]: "cyan",
    MARKS[Status.UNJUDGED]: "cyan",
}
COLUMNS = (
    OutputColumn("", colours=COLOURS),
    OutputColumn("metric"),
    OutputColumn("class"),
    OutputColumn("expected"),
    OutputColumn("found", is_wide=True),
    OutputColumn("δ"),
    OutputColumn("R²", is_right=True),
    OutputColumn("sure", is_right=True),
)
VIOLATED_EXIT_CODE = 1
LISTED_UNDECIDED = 10  # of many
MAX_ROWS = 15  # of a table that shows what is met, too


@click.command(name="check")
@campaign_argument
@click.argument("expectations", type=click.Path(), required=False, metavar="[EXPECTATIONS.toml]")
@click.option(
    "-b",
    "--baseline",
    type=click.Path(),
    metavar="CAMPAIGN",
    help="An accepted campaign: nothing may grow faster than there.",
)
@click.option(
    "-a",
    "--accept",
    type=click.Path(),
    metavar="FILE.toml",
    help="Write the growth of CAMPAIGN to FILE.toml as expectations, and judge nothing.",
)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Also write the results to FILE: JUnit .xml, .sarif or Markdown .md; may be repeated.",
)
@click.option(
    "-g", "--github", "is_github", is_flag=True, help="Print GitHub annotations instead of a table."
)
@click.option("-A", "--all", "is_all", is_flag=True, help="Show a row for each expectation.")
@json_option
def command(
    campaign: str,
    expectations: str | None,
    *,
    baseline: str | None,
    accept: str | None,
    outputs: tuple[str, ...],
    is_github: bool,
    is_all: bool,
    is_json: bool,
) -> None:
    """Check whether CAMPAIGN grows as EXPECTATIONS.toml says, or no faster than --baseline.

    The exit code is 0 if everything is as expected or the measurements do not decide yet, 1 if an
    expectation is violated, and 2 if an expectation cannot be judged, such as one about a function
    that was not measured; the others are judged all the same. If the measurements do not decide,
    the output names the point to measure next. Times of runs whose ranks had to wait for
    processor cores, because of other ranks or other processes, are not judged.
    """
    if expectations is None and campaign.endswith(".toml"):
        campaign, expectations = only_campaign(), campaign
    if accept is not None:
        if expectations or baseline or outputs:
            raise UsageError("--accept writes expectations and judges none; give it alone")
        _print_acceptance(accept_campaign(campaign, accept), accept, is_all=is_all)
        return

    outcome = check_expectations(campaign, expectations, baseline=baseline, outputs=outputs)
    if is_json:
        print_json(map(result_row, outcome.results))
    elif is_github:
        for line in annotations(outcome.report):
            click.echo(line)
    else:
        _print_table(outcome.results, is_all=is_all)
        click.echo(sentence(outcome.results, len(outcome.unjudged)))

    for note in outcome.notes:
        print_note(note)
    for reason in outcome.unjudged:
        print_error(f"not judged: {reason}")

    if outcome.is_violated:
        raise click.exceptions.Exit(VIOLATED_EXIT_CODE)
    if outcome.unjudged:
        raise click.exceptions.Exit(UsageError.exit_code)


def _print_acceptance(acceptance: Acceptance, file: str, *, is_all: bool) -> None:
    click.echo(f"{acceptance.accepted} expectations written to {file}")
    is_short = len(acceptance.omitted) > MAX_ROWS and not is_all
    for _, text in _sentences(acceptance.omitted, is_short=is_short):
        print_note(f"no expectation: {text}")
    if is_short:
        print_note("--all lists each of them")


def _print_table(results: Sequence[Result], *, is_all: bool) -> None:
    """Print a table of results, then a sentence for each that is violated or undecided.

    Of many, as a baseline makes, only those that are violated or met approximately have a row.
    """
    is_short = len(results) > MAX_ROWS and not is_all
    rows: dict[str, list[tuple[str, ...]]] = {}
    for result in results:
        if not is_short or result.status in (Status.VIOLATED, Status.NEAR):
            rows.setdefault(result.subject, []).append(table_cells(result))
    if rows:
        print_blocks("", COLUMNS, [Block("", subject, lines) for subject, lines in rows.items()])

    for status, text in _sentences(results, is_short=is_short):
        mark = click.style(MARKS[status], fg=COLOURS[MARKS[status]])
        click.echo(f"{mark} {printable(text)}")
    if is_short:
        print_note("--all shows a row for each expectation")


def _sentences(results: Sequence[Result], *, is_short: bool) -> Iterator[tuple[Status, str]]:
    """A sentence for each result that is violated, undecided or not judged.

    Of many, what is violated comes first, some of those that are undecided stand for all, and those
    that cannot be judged for the same reason share a sentence.
    """
    open_results = [result for result in results if result.status in OPEN]
    if not is_short:
        yield from ((result.status, describe(result)) for result in open_results)
        return

    unjudged: dict[str, list[Result]] = {}
    undecided = []
    for result in open_results:
        if result.status is Status.VIOLATED:
            yield result.status, describe(result)
        elif result.status is Status.UNJUDGED:
            unjudged.setdefault(describe_reason(result), []).append(result)
        else:
            undecided.append(result)

    yield from ((result.status, describe(result)) for result in undecided[:LISTED_UNDECIDED])
    rest = undecided[LISTED_UNDECIDED:]
    if rest:
        yield rest[0].status, f"{len(rest)} more undecided ({_metrics(rest)})"
    for reason, alike in unjudged.items():
        yield Status.UNJUDGED, f"{len(alike)} series ({_metrics(alike)}): {reason}"


def _metrics(results: Sequence[Result]) -> str:
    return ", ".join(dict.fromkeys(result.metric for result in results))
