"""`insitu watch`: see a campaign grow."""

import sys
from collections.abc import Iterator

import click

from insitu.analysis.board import Board
from insitu.analysis.progress import Agenda
from insitu.cli.output import (
    Block,
    Column,
    campaign_argument,
    few_of,
    headlines,
    json_option,
    print_blocks,
    print_json,
)
from insitu.cli.webpage import page_options, refuse_without_page, serve_page
from insitu.errors import UsageError
from insitu.text import printable
from insitu.units import percent
from insitu.views.text import (
    describe_first_run,
    describe_ranks,
    list_agenda_changes,
    list_changes,
    point_values,
    rank_bar,
    sparkline,
)
from insitu.workflows.boards import BoardClient

BEAT_S = 1.0
FIRST_S = 1.5  # for an aggregator that runs to be heard before the files are asked
SPARK_WIDTH = 10
COLUMNS = (
    Column("metric"),
    Column("class"),
    Column("points"),
    Column("model", is_wide=True),
    Column("error", is_right=True),
)


@click.command(name="watch")
@campaign_argument
@click.option("--once", is_flag=True, help="Print what there is to see, then end.")
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
    once: bool,
    web: bool,
    port: int | None,
    token_file: str | None,
    parent: int,
    is_json: bool,
) -> None:
    """Watch CAMPAIGN: its runs and ranks, call paths by cost, their models as they grow.

    In a terminal: arrow keys choose a call path, Enter shows its model with picture, candidates and
    residuals; p predicts all call paths at a scale that arrow keys or the mouse move; / searches, s
    sorts, m and c choose metric and class, r shows all runs with their ranks, f what is noted, q
    ends. Where standard output is no terminal, a line for everything that is new.

    With --web a page in a browser, at the address that is printed; only who has that address is
    let in, and only from this machine. From elsewhere: ssh -L N:127.0.0.1:N, with --port N. There
    /metrics is for Prometheus, which sends the secret of --token-file as its bearer token.
    """
    if web and (once or is_json):
        raise UsageError("--web shows a page; without --once and --json")
    refuse_without_page(web, port=port, token_file=token_file)
    if web:
        serve_page(campaign, port or 0, token_file, parent=parent)
        return
    if once:
        with BoardClient(campaign) as client:
            board = client.newest(FIRST_S) or client.read_stored() or Board()
            if is_json:
                print_json([board.to_dict()])
            else:
                _print_plan(client.agenda(), board, campaign)
                _print(board)
        return
    if is_json:
        print_json(board.to_dict() for board in boards(campaign))
        return
    if not sys.stdout.isatty():
        _print_news(campaign)
        return
    from insitu.views.terminal.app import Watch

    with BoardClient(campaign) as client:
        app = Watch(client, campaign)
        app.run()
    if app.trouble is not None:
        raise app.trouble


def _print_news(campaign: str) -> None:
    """A line for everything that is new, without end."""
    before: Board | None = None
    planned: Agenda | None = None
    with BoardClient(campaign) as client:
        while True:
            board, agenda = client.newest(BEAT_S), client.agenda()
            if before is None and board is not None and not board.runs:
                click.echo(printable(describe_first_run(campaign, agenda)))
            for line in list_agenda_changes(planned, agenda):
                click.echo(line)
            planned = agenda
            if board is not None:
                for line in list_changes(before, board):
                    click.echo(line)
                before = board


def _print_plan(agenda: Agenda | None, board: Board, campaign: str) -> None:
    """How far the campaign is, and what to do where it has not begun."""
    if not board.runs:
        click.echo(printable(describe_first_run(campaign, agenda)))
    for line in list_agenda_changes(None, agenda):
        click.echo(line)


def boards(campaign: str) -> Iterator[Board]:
    """All boards of a campaign as they come, without end."""
    with BoardClient(campaign) as client:
        while True:
            board = client.newest(BEAT_S)
            if board is not None:
                yield board


def _print(board: Board) -> None:
    for run in board.runs:
        name = printable(run.name)
        click.echo(f"{name:<24} {run.state:<10} {rank_bar(run, 12)} {describe_ranks(run)}")
    blocks: dict[str, Block] = {}
    asked = [(row.callpath, row.metric, row.text) for row in board.series]
    for row, is_shown in zip(board.series, headlines(asked), strict=True):
        if not is_shown:
            continue
        cells = (
            row.metric,
            row.behaviour,
            sparkline(point_values(row), SPARK_WIDTH),
            row.text,
            "" if row.smape is None else percent(row.smape / 100),
        )
        head = blocks.setdefault(row.callpath, Block(percent(row.share), row.callpath, []))
        blocks[row.callpath] = Block(head.mark, head.heading, [*head.rows, cells])
    if blocks:
        click.echo()
        print_blocks("share", COLUMNS, list(blocks.values()))
    if board.omitted:
        click.echo(f"{board.omitted} more; `insitu models` shows all")
    for line in few_of(board.findings):
        click.echo(f"note: {printable(line)}")
