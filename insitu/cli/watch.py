"""`insitu watch`: see a campaign grow."""

import os
import re
import secrets
import socket
import sys
from collections.abc import Iterator

import click

from insitu.cli.output import (
    Block,
    Column,
    campaign_argument,
    json_option,
    print_blocks,
    print_json,
)
from insitu.errors import UsageError
from insitu.monitor.board import Board
from insitu.monitor.client import BoardClient
from insitu.monitor.names import printable
from insitu.monitor.trend import bar, news, points_of, ranks_of, spark
from insitu.units import percent

BEAT_S = 1.0
FIRST_S = 1.5  # for an aggregator that runs to be heard before the files are asked
SPARK_WIDTH = 10
HOST = "127.0.0.1"  # other machines come through `ssh -L`
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,200}")
LEAVE_S = 5  # for pages to be told that it ends
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
@click.option("--web", is_flag=True, help="Show it in a browser of this machine.")
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="N", help="Of the page; a free one otherwise."
)
@click.option(
    "--token-file",
    type=click.Path(),
    metavar="FILE",
    help="Keep the secret of the page's address in FILE, for every start the same.",
)
@json_option
def command(
    *,
    campaign: str,
    once: bool,
    web: bool,
    port: int | None,
    token_file: str | None,
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
    if port is not None and not web:
        raise UsageError("--port is that of the page; add --web")
    if token_file is not None and not web:
        raise UsageError("--token-file is for the page; add --web")
    if web:
        _serve(campaign, port or 0, token_file)
        return
    if once:
        with BoardClient(campaign) as client:
            board = client.newest(FIRST_S) or client.kept() or Board()
        if is_json:
            print_json([board.to_dict()])
        else:
            _print(board)
        return
    if is_json:
        print_json(board.to_dict() for board in boards(campaign))
        return
    if not sys.stdout.isatty():
        before = None
        for board in boards(campaign):
            for line in news(before, board):
                click.echo(line)
            before = board
        return
    from insitu.monitor.terminal import Watch

    with BoardClient(campaign) as client:
        app = Watch(client, campaign)
        app.run()
    if app.trouble is not None:
        raise app.trouble


def _token(file: str | None) -> str:
    """The secret that opens the page: a new one, or that of a file, which is made if need be.

    Raises:
        UsageError: the file is no secret, or cannot be read or made.
    """
    token = secrets.token_urlsafe(24)
    if file is None:
        return token
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
            made.write(token)
        return token
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(f"{file}: cannot be made: {error.strerror}; name another file") from error
    try:
        with open(file, encoding="ascii") as kept:
            token = kept.read().strip()
            is_open = os.fstat(kept.fileno()).st_mode & 0o077
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read as a secret: {error}") from error
    if is_open:
        raise UsageError(f"{file}: others may read it; chmod 600 {file}")
    if not TOKEN.fullmatch(token):
        raise UsageError(
            f"{file}: no secret of 16 letters, digits, - or _ and more; remove it, and one is made"
        )
    return token


def _serve(campaign: str, port: int, token_file: str | None) -> None:
    """Serve the page until a signal."""
    try:
        import uvicorn

        from insitu.monitor.web import app_of
    except ImportError as error:
        raise UsageError(
            f"a page needs Starlette and uvicorn ({error}); pip install 'insitu[web]'"
        ) from error
    with BoardClient(campaign):
        pass  # what is no campaign is refused before anything is served
    token = _token(token_file)
    config = uvicorn.Config(
        app_of(campaign, token, lambda: server.should_exit),
        lifespan="on",
        ws="none",
        log_level="warning",
        access_log=False,  # its lines would hold the token
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=LEAVE_S,
    )
    server = uvicorn.Server(config)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be used ({error}); choose another --port, or none"
            ) from error
        listening.listen()  # who reads the address may come at once
        click.echo(f"http://{HOST}:{listening.getsockname()[1]}/?token={token}")
        sys.stdout.flush()
        server.run(sockets=[listening])


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
        click.echo(f"{name:<24} {run.state:<10} {bar(run, 12)} {ranks_of(run)}")
    blocks: dict[str, Block] = {}
    for row in board.series:
        cells = (
            row.metric,
            row.behaviour,
            spark(points_of(row), SPARK_WIDTH),
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
    for finding in board.findings:
        click.echo(f"note: {printable(finding.text)}")
