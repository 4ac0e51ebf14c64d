"""`insitu watch` in a real pseudo-terminal, and without one, while real ranks are measured."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator

import pytest

from tests.system.conftest import WAIT_S, Bench, until

ESCAPE = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]")
COLOURS = re.compile(rb"[34]8;(?:5;(\d+)|2;(\d+);(\d+);(\d+))")
GREYS = {0, 7, 8, 15, 16, 231, *range(232, 256)}
APP = """\
    import os, sys, time

    def work():
        time.sleep(float(sys.argv[1]))

    for _ in range(40):
        work()
    while not os.path.exists(sys.argv[2]):
        work()
    """


class Screen:
    """A process in a terminal of 80 × 24, and what it has written."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.written = b""
        self.process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        )
        os.close(theirs)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                self.written += os.read(self._ours, 65536)
            except OSError:
                return

    def shows(self, text: str) -> bool:
        """Whether it has been on the screen since `forget`."""
        return text in ESCAPE.sub(b"", self.written).decode(errors="replace")

    def hues(self) -> set[tuple[bytes, ...]]:
        """Colours that are no shades of grey: of 256, or as red, green and blue."""
        found = set(COLOURS.findall(self.written))
        return {c for c in found if len(set(c[1:])) > 1 or (c[0] and int(c[0]) not in GREYS)}

    def forget(self) -> None:
        self.written = b""

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())


@pytest.fixture
def campaign(bench: Bench) -> Iterator[Bench]:
    """Four runs with their models."""
    bench.script(APP)
    (bench.folder / "at-once").touch()
    for ranks in (1, 2, 3, 4):
        words = ("-n", ranks, "--agent", "off", "--", "app.py", 0.005, "at-once")
        assert bench.run(*words).code == 0
    assert bench.insitu("ingest", bench.campaign).code == 0
    yield bench


@pytest.mark.full
@pytest.mark.mpi
@pytest.mark.native
def test_a_slow_run_is_marked_while_it_goes_on_in_greys_where_no_colour_is_wanted(
    campaign: Bench,
):
    bench = campaign
    watch = [str(bench.python), "-m", "insitu", "watch", str(bench.campaign)]
    quiet = {**bench.environment, "TERM": "xterm-256color", "NO_COLOR": "1"}
    screen = Screen(watch, quiet)
    until(lambda: screen.shows("measured: 1 to 4 ranks"))  # the diagnosis comes first
    screen.press("\x7f")
    until(lambda: screen.shows("p=4#0 complete"))
    printed = bench.folder / "printed"
    with printed.open("w") as out:
        lines = subprocess.Popen(watch, env=bench.environment, stdout=out)

    start = ("-n", 2, "--mpiexec", bench.mpiexec[0], "--")
    run = bench.start(bench.command(*start, "app.py", 0.2, "seen"))  # 40 times as slow
    until(lambda: screen.shows("p=2#0 measuring") or screen.shows("% done"))
    until(lambda: screen.shows("▲"))
    screen.forget()
    screen.press("r")
    until(lambda: screen.shows("▒ measuring"))
    (bench.folder / "seen").touch()
    assert run.wait(WAIT_S) == 0
    until(lambda: screen.shows("p=2#1"))
    assert not screen.hues()
    screen.press("q")

    assert screen.process.wait(WAIT_S) == 0
    until(lambda: "differ from the forecast" in printed.read_text())
    lines.send_signal(signal.SIGINT)
    lines.wait(WAIT_S)
    said = printed.read_text()
    assert "run p=4#0: complete, 4 of 4 ended" in said.splitlines()
    assert "run p=2#1: complete, 2 of 2 ended" in said.splitlines()
    assert any(line.startswith("run p=2#0: measuring") for line in said.splitlines())
    note = r"^note: run p=2#1: .* differ from the forecast .*work time\S* .* \(slower than"
    assert re.search(note, said, re.M)
    assert "\x1b" not in said
