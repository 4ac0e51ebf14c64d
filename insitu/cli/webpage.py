"""The page of a campaign as a process: its options, its secret, its life beside an aggregator."""

import os
import re
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Self

import click

from insitu.errors import UsageError
from insitu.run.supervise import importable

Command = Callable[..., None]
HOST = "127.0.0.1"  # other machines come through `ssh -L`
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,200}")
LEAVE_S = 5  # for pages to be told that it ends
LOOK_S = 1.0  # between two looks at whether the parent is there


def page_options(function: Command) -> Command:
    """`--web`, `--port` and `--token-file`, given as `web`, `port` and `token_file`."""
    web = click.option("--web", is_flag=True, help="Show it in a browser of this machine.")
    port = click.option(
        "--port",
        type=click.IntRange(0, 65535),
        metavar="N",
        help="Of the page; a free one otherwise.",
    )
    token_file = click.option(
        "--token-file",
        type=click.Path(),
        metavar="FILE",
        help="Keep the secret of the page's address in FILE, for every start the same.",
    )
    return web(port(token_file(function)))


def refuse_without_page(web: bool, *, port: int | None, token_file: str | None) -> None:
    """Refuse options of the page where there is none.

    Raises:
        UsageError: one was given.
    """
    if port is not None and not web:
        raise UsageError("--port is that of the page; add --web")
    if token_file is not None and not web:
        raise UsageError("--token-file is for the page; add --web")


def serve_page(campaign: str, port: int, token_file: str | None, *, parent: int = 0) -> None:
    """Serve the page until a signal, or until `parent` is not the parent of this process any more.

    Raises:
        CampaignError: there is no campaign, or it cannot be read.
        UsageError: the port or the file cannot be used, or what a page needs is not installed.
    """
    try:
        import uvicorn

        from insitu.views.web.app import make_app
        from insitu.workflows.boards import BoardClient
    except ImportError as error:
        raise UsageError(
            f"a page needs Starlette and uvicorn ({error}); pip install 'insitu[web]'"
        ) from error
    with BoardClient(campaign):
        pass  # what is no campaign is refused before anything is served
    token = _token(token_file)

    async def look() -> None:
        if parent and os.getppid() != parent:
            server.should_exit = True

    config = uvicorn.Config(
        make_app(
            campaign,
            token,
            is_ending=lambda: server.should_exit,
            open_source=lambda: BoardClient(campaign),
        ),
        lifespan="on",
        ws="none",
        log_level="warning",
        access_log=False,  # its lines would hold the token
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=LEAVE_S,
        callback_notify=look,
        timeout_notify=int(LOOK_S),
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


class PageBeside:
    """The page as a process beside the aggregator, which goes on whatever becomes of it.

    It prints its address, and what is wrong, where this process prints.
    """

    def __init__(self, campaign: str, options: tuple[str, ...], say: Callable[[str], None]) -> None:
        self._command = [sys.executable, "-m", "insitu", "watch", campaign, "--web", *options]
        self._campaign = campaign
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ending = False

    def start(self) -> None:
        """Start it; where that cannot be, say so."""
        parent = ("--parent", str(os.getpid()))
        try:
            self._process = subprocess.Popen(
                [*self._command, *parent],
                stdin=subprocess.DEVNULL,
                env=importable(os.environ),
                start_new_session=True,  # Ctrl-C ends it after what is sealed then has been seen
            )
        except OSError as error:
            self._say(f"the page cannot be started: {error.strerror}; {self._way()}")
            return
        threading.Thread(target=self._await, args=(self._process,), daemon=True).start()

    def _await(self, process: "subprocess.Popen[bytes]") -> None:
        code = process.wait()
        if not self._is_ending:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            self._say(f"the page {how}; {self._way()}")

    def _way(self) -> str:
        return f"runs are gathered without it; insitu watch --web {self._campaign} shows it again"

    def __enter__(self) -> Self:
        """End it at the end of the block."""
        return self

    def __exit__(self, *error: object) -> None:
        """End it."""
        self._is_ending = True
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(2 * LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
