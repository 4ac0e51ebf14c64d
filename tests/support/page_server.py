"""The server of a page as a process, and a client for it."""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 90


@dataclass(frozen=True)
class Page:
    """The address of a server, and the token that opens it."""

    port: int
    token: str
    campaign: str
    pid: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
        with closing(self.connect()) as connection:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, names, answer.read().decode()

    def ask(self, path: str) -> tuple[int, dict[str, str], str]:
        sign = "&" if "?" in path else "?"
        return self.get(f"{path}{sign}token={self.token}")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    @contextmanager
    def events(self) -> Iterator[Iterator[tuple[str, dict]]]:
        with closing(self.connect()) as connection:
            connection.request("GET", f"/events?token={self.token}")
            answer = connection.getresponse()
            assert answer.getheader("content-type", "").startswith("text/event-stream")
            lines = (line.decode().strip() for line in iter(answer.readline, b""))
            pairs = ((line, next(lines)) for line in lines if line.startswith("event: "))
            yield ((kind[7:], json.loads(data[6:])) for kind, data in pairs)


def page_at(line: str, campaign: str, pid: int) -> Page:
    """The page whose server printed its address."""
    address = urlsplit(line.strip())
    assert address.hostname == "127.0.0.1" and address.port, line
    return Page(address.port, address.query.removeprefix("token="), campaign, pid)


def child_of(pid: int) -> int:
    """The only process that a process has started."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


@contextmanager
def served(campaign: str, *options: str) -> Iterator[Page]:
    """The page of a campaign, served by its own process."""
    command = [sys.executable, "-m", "insitu", "watch", "--web", campaign, *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        try:
            assert process.stdout is not None
            yield page_at(process.stdout.readline(), campaign, process.pid)
        finally:
            process.terminate()
            assert process.communicate(timeout=WAIT_S)[1] == ""
