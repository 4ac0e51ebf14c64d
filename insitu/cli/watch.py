"""`insitu watch`: watch a campaign as it is measured."""

import os
import sys

import click

from insitu.analysis.board import Board
from insitu.analysis.progress import Agenda
from insitu.cli.options import campaign_argument, json_option, page_options, refuse_page_options
from insitu.cli.output import (
    Block,
    OutputColumn,
    print_blocks,
    print_json,
    summarise_findings,
)
from insitu.text import printable
from insitu.units import percent
from insitu.views.text import (
    describe_first_run,
    describe_ranks,
    describe_state,
    list_agenda_changes,
    list_changes,
    point_values,
    rank_bar,
    sparkline,
)
from insitu.workflows.boards import BoardClient
from insitu.workflows.page import serve_page
from insitu.workflows.selection import headline_rows
from insitu.workflows.watch import follow_boards, follow_campaign, load_state

SPARK_WIDTH = 10
COLUMNS = (
    OutputColumn("metric"),
    OutputColumn("class"),
    OutputColumn("points"),
    OutputColumn("model", is_wide=True),
    OutputColumn("error", is_right=True),
)


PLAIN_TERMINALS = ("dumb", "unknown")  # that cannot move their cursor; they get lines


@click.command(name="watch")
@campaign_argument
@click.option("-1", "--once", "is_once", is_flag=True, help="Print the current state and exit.")
@page_options
@click.option(
    "--parent",
    type=int,
    default=0,
    metavar="PID",
    hidden=True,
    help="End the page when this process, which started it, is gone.",
)
@json_option
def command(
    *,
    campaign: str,
    is_once: bool,
    is_web: bool,
    port: int | None,
    token_file: str | None,
    parent: int,
    is_json: bool,
) -> None:
    """Watch CAMPAIGN: its runs and ranks, its call paths by cost, and their models.

    In a terminal, the arrow keys choose a call path, Enter shows its model with a picture,
    candidates and residuals, p predicts all call paths at a scale that arrow keys or the mouse
    change, / searches, s sorts, m and c choose the metric and the class, r lists all runs with
    their ranks, f lists the findings, and q quits. If standard output is not a terminal, or
    one that cannot move its cursor (TERM=dumb), each change is printed as a line.

    With --web, a page in a browser shows the same. Only the printed address opens it, and only from
    this machine; to open it from another one, choose --port N and use ssh -L N:127.0.0.1:N. The
    page has /metrics for Prometheus, which sends the secret in --token-file as its bearer token.
    """
    if is_web and (is_once or is_json):
        raise click.UsageError("--web excludes --once and --json")

    refuse_page_options(is_web=is_web, port=port, token_file=token_file)

    if is_web:
        serve_page(
            campaign, port=port or 0, token_file=token_file, parent=parent, report=_print_address
        )
    elif is_once:
        _print_state(campaign, is_json=is_json)
    elif is_json:
        print_json(board.to_dict() for board in follow_boards(campaign))
    elif sys.stdout.isatty() and os.environ.get("TERM", "") not in PLAIN_TERMINALS:
        _show_terminal(campaign)
    else:
        _print_news(campaign)


def _print_address(address: str) -> None:
    click.echo(address)
    sys.stdout.flush()  # whoever started this process with a pipe waits for the address


def _show_terminal(campaign: str) -> None:
    from insitu.views.terminal.app import Watch

    with BoardClient(campaign) as client:
        app = Watch(client, campaign, opens_diagnosis=True)
        app.run()
    if app.trouble is not None:
        raise app.trouble


def _print_news(campaign: str) -> None:
    """Print a line for each change, without end."""
    previous_board: Board | None = None
    previous_agenda: Agenda | None = None
    for state in follow_campaign(campaign):
        board, agenda = state.board, state.agenda
        if previous_board is None and board is not None and not board.runs:
            click.echo(printable(describe_first_run(campaign, agenda)))

        for line in list_agenda_changes(previous_agenda, agenda):
            click.echo(line)
        previous_agenda = agenda

        if board is not None:
            for line in list_changes(previous_board, board):
                click.echo(line)
            previous_board = board


def _print_state(campaign: str, *, is_json: bool) -> None:
    state = load_state(campaign)
    board = state.board or Board()
    if is_json:
        print_json([board.to_dict()])
        return

    if not board.runs:
        click.echo(printable(describe_first_run(campaign, state.agenda)))
    for line in list_agenda_changes(None, state.agenda):
        click.echo(line)
    _print_board(board)


def _print_board(board: Board) -> None:
    for run in board.runs:
        name = printable(run.name)
        click.echo(
            f"{name:<24} {describe_state(run):<10} {rank_bar(run, 12)} {describe_ranks(run)}"
        )

    blocks = _series_blocks(board)
    if blocks:
        click.echo()
        print_blocks("share", COLUMNS, blocks)
    if board.omitted:
        click.echo(f"{board.omitted} more; `insitu models` shows all")
    for line in summarise_findings(board.findings):
        click.echo(f"note: {printable(line)}")


def _series_blocks(board: Board) -> list[Block]:
    """Return a block per call path with a line per metric of an overview."""
    headlines = headline_rows([(row.callpath, row.metric, row.text) for row in board.series])
    lines: dict[str, list[tuple[str, ...]]] = {}
    shares: dict[str, float] = {}
    for row, is_headline in zip(board.series, headlines, strict=True):
        if not is_headline:
            continue
        shares.setdefault(row.callpath, row.share)
        line = (
            row.metric,
            row.shown_class,
            sparkline(point_values(row), SPARK_WIDTH),
            row.text,
            "" if row.smape is None else percent(row.smape / 100),
        )
        lines.setdefault(row.callpath, []).append(line)

    return [Block(percent(shares[path]), path, rows) for path, rows in lines.items()]
