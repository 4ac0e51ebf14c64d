"""Serving the web page of a campaign: in this process, or as a process beside an aggregator."""

import os
import re
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Self

from insitu.errors import UsageError
from insitu.run.aggregator import own_process_environment

HOST = "127.0.0.1"  # other machines connect through `ssh -L`
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,200}")
SHUTDOWN_S = 5  # for browsers to receive that the page ends
PARENT_CHECK_S = 1.0  # between two checks whether the parent process is still there


def serve_page(
    campaign: str,
    *,
    port: int = 0,
    token_file: str | None = None,
    parent: int = 0,
    report: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the page of a campaign until a signal, or until its parent process is gone.

    Args:
        campaign: directory of the campaign.
        port: 0 for any free port.
        token_file: file that keeps the secret of the address; default: a new secret.
        parent: process id; end when this is no longer the parent process. 0 for none.
        report: called with the address, including the secret, when the page can be opened.

    Raises:
        CampaignError: there is no campaign, or it cannot be read.
        UsageError: the port or the file cannot be used, or a package that the page needs is not
            installed.
    """
    try:
        import uvicorn

        from insitu.views.web.app import make_app
        from insitu.views.web.limits import MAX_HEADER_BYTES, LimitedProtocol
        from insitu.workflows.boards import BoardClient
    except ImportError as error:
        from insitu.extras import install_command

        raise UsageError(
            f"the page needs Starlette and uvicorn ({error}); {install_command('web')}"
        ) from error

    with BoardClient(campaign):
        pass  # raises an error for a directory that is no campaign, before anything is served
    token = load_token(token_file)

    async def end_with_parent() -> None:
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
        http=LimitedProtocol,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        ws="none",
        log_level="warning",
        access_log=False,  # its lines would contain the secret
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
        callback_notify=end_with_parent,
        timeout_notify=int(PARENT_CHECK_S),
    )
    server = uvicorn.Server(config)

    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be used ({error}); choose another --port, or none"
            ) from error
        listener.listen()  # before the address is reported: a browser may connect at once
        report(f"http://{HOST}:{listener.getsockname()[1]}/?token={token}")
        server.run(sockets=[listener])


def load_token(file: str | None) -> str:
    """Return the secret that opens the page, creating the file that keeps it if necessary.

    Args:
        file: contains the secret, readable only by its owner; None for a new secret.

    Raises:
        UsageError: the file cannot be created or read, others may read it, or it has no secret.
    """
    token = secrets.token_urlsafe(24)
    if file is None:
        return token

    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as created:
            created.write(token)
        return token
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(f"{file}: cannot create: {error.strerror}; name another file") from error

    try:
        with open(file, encoding="ascii") as existing:
            token = existing.read().strip()
            is_readable_by_others = os.fstat(existing.fileno()).st_mode & 0o077
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot read the secret: {error}") from error

    if is_readable_by_others:
        raise UsageError(f"{file}: other users have access; run chmod 600 {file}")
    if not TOKEN.fullmatch(token):
        raise UsageError(
            f"{file}: does not contain a secret of at least 16 letters, digits, - or _; remove"
            " the file to create a new one"
        )
    return token


class PageProcess:
    """The page as a process beside the aggregator, which continues if the page fails.

    The process prints its address and its errors where this process prints.
    """

    def __init__(
        self,
        campaign: str,
        port: int = 0,
        token_file: str | None = None,
        *,
        report: Callable[[str], None],
    ) -> None:
        self._campaign = campaign
        self._command = [sys.executable, "-m", "insitu", "watch", campaign, "--web"]
        self._command += ["--port", str(port)]
        if token_file:
            self._command += ["--token-file", token_file]

        self._report = report
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ending = False

    def start(self) -> None:
        """Start the process; report it if that fails."""
        try:
            self._process = subprocess.Popen(
                [*self._command, "--parent", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                env=own_process_environment(),
                # Ctrl-C must not end the page before it has shown the runs that are completed then.
                start_new_session=True,
            )
        except OSError as error:
            self._report(f"the page cannot be started: {error.strerror}; {self._advice()}")
            return
        threading.Thread(target=self._await_end, args=(self._process,), daemon=True).start()

    def _await_end(self, process: "subprocess.Popen[bytes]") -> None:
        code = process.wait()
        if not self._is_ending:
            reason = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            self._report(f"the page {reason}; {self._advice()}")

    def _advice(self) -> str:
        return (
            "runs are still collected; start the page again with"
            f" `insitu watch --web {self._campaign}`"
        )

    def __enter__(self) -> Self:
        """End the process at the end of the block."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the process."""
        self._is_ending = True
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(2 * SHUTDOWN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
