"""A first campaign: the stencil at several scales, its models, its classes of ranks, a picture.

    python3 bootstrap.py demo          sets everything up, then runs this file

Does what a person would type: `insitu serve` for the campaign, `insitu run` for each run, and then
`insitu models`, `insitu classes` and `insitu plot`; each command is shown as it is to be typed.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from insitu.analysis.board import Board, make_board
from insitu.analysis.callpaths import last_frames
from insitu.campaign.store import open_store
from insitu.entities import number
from insitu.errors import InsituError
from insitu.units import quantity

STENCIL = Path(__file__).resolve().with_name("stencil2d.py")
# At 8 ranks the grid has corners and edges, at 16 an inside too: classes are born on the way.
SCALES = (1, 2, 4, 8, 16)
REPETITIONS = 3
SHOWN_ROWS = 8
NAME_WIDTH, VALUE_WIDTH, MODEL_WIDTH = 26, 10, 36  # columns of the growing table
START_S = 30.0  # for the aggregator to say where it listens


@dataclass
class Campaign:
    """The campaign of the demo, and the models that were shown last."""

    path: Path
    console: Console
    board: Board = field(default_factory=Board)

    def look(self) -> None:
        """Read the models that the aggregator has fitted so far."""
        with open_store(str(self.path)) as store:
            self.board = make_board(store.runs(), store.models())


def main(arguments: list[str]) -> int:
    """Measure, show the models, and print what to try next; return the exit code."""
    options = parse(arguments)
    console = Console(highlight=False)
    path = Path(options.campaign)
    if path.exists():
        kept = next(
            name for i in count(1) if not (name := path.with_stem(f"{path.stem}-{i}")).exists()
        )
        path.rename(kept)
        console.print(f"{path} is there already: it is called {kept} from now on")
    path.mkdir(mode=0o700)
    began_s = time.monotonic()
    measure(Campaign(path, console), options.ranks, options.repetitions)
    measured_s = time.monotonic() - began_s
    picture = path.with_suffix(".png")
    insitu(console, "models", path, "--metric", "time", "--top", "8")
    insitu(console, "classes", path, "--metric", "visits", "--callpath", "MPI_Sendrecv")
    insitu(console, "plot", path, "-o", picture)
    console.print(
        f"\n{len(options.ranks) * options.repetitions} runs in {measured_s:.0f} s are in "
        f"[bold]{path}[/], their picture is [bold]{picture}[/]. Try next:\n\n"
        "    source .venv/bin/activate\n"
        f"    insitu predict {path} --at p=1024\n"
        f"    insitu classes {path} --callpath boundary --metric visits\n"
        f"    insitu run -n 6 --campaign {path} -- examples/stencil2d.py\n"
        f"    insitu watch {path}\n"
        "    insitu --help\n",
        soft_wrap=True,
    )
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="demo", description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--campaign", default="demo.insitu", help="where the runs go (default: demo.insitu)")
    add("--ranks", type=int, nargs="+", default=SCALES, metavar="P", help="the scales to run at")
    add("--repetitions", type=int, default=REPETITIONS, metavar="N", help="runs at each scale")
    return parser.parse_args(arguments)


def measure(campaign: Campaign, scales: list[int], repetitions: int) -> None:
    """Run the stencil at each scale, round by round, and show the models as they grow."""
    command = ["-q", "-n", "P", "--campaign", str(campaign.path), "--", os.path.relpath(STENCIL)]
    show_command(campaign.console, ["serve", str(campaign.path)])
    show_command(campaign.console, ["run", *command])
    progress = Progress(
        TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )
    task = progress.add_task("starting", total=len(scales) * repetitions)
    with serving(campaign), watched(campaign, progress):
        for repetition in range(repetitions):
            for ranks in scales:
                progress.update(task, description=f"p = {ranks}, round {repetition + 1}")
                said = run([str(ranks) if word == "P" else word for word in command])
                campaign.look()
                progress.advance(task)
                if not campaign.console.is_terminal:
                    campaign.console.print(f"  {said}")
        progress.update(task, description="measured")


def run(options: list[str]) -> str:
    """Run the stencil once and return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "insitu.run", *options], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}the run ended with {done.returncode}")
    return done.stdout.strip()


@contextmanager
def serving(campaign: Campaign) -> Iterator[None]:
    """Run an aggregator for the campaign until the end of the block."""
    log = campaign.path / "logs" / "demo.log"
    log.parent.mkdir(mode=0o700)
    with log.open("wb") as file:
        command = [sys.executable, "-m", "insitu", "serve", str(campaign.path)]
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + START_S
        while not (campaign.path / "aggregator.json").exists():
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"insitu serve did not start:\n{log.read_text(encoding='utf-8')}")
            time.sleep(0.02)
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


@contextmanager
def watched(campaign: Campaign, progress: Progress) -> Iterator[None]:
    """Show progress and models on a terminal; without one, print nothing that is redrawn."""
    if not campaign.console.is_terminal:
        yield
        return

    def screen() -> Group:
        return Group("", progress, "", growth(campaign.board, campaign.console.width))

    with Live(get_renderable=screen, console=campaign.console, refresh_per_second=8):
        yield


def growth(board: Board, width: int) -> Table:
    """Return the most expensive call paths: mean time per rank at large scales, and models."""
    rows = [row for row in board.series if row.metric == "time"]
    scales = sorted({at[0] for row in rows for at, _ in row.points})
    scales = scales[-max((width - NAME_WIDTH - MODEL_WIDTH) // VALUE_WIDTH, 1) :]
    table = Table(box=None, padding=(0, 1), header_style="dim")
    heading = "costliest call paths" if rows else "models come with the third scale"
    table.add_column(heading, no_wrap=True, width=NAME_WIDTH if rows else None)
    for scale in scales:
        table.add_column(f"p={number(scale)}", justify="right", no_wrap=True)
    if rows:
        table.add_column("class", no_wrap=True)
        table.add_column("model of the time", no_wrap=True)
    for row in rows[:SHOWN_ROWS]:
        values = {at[0]: value for at, value in row.points}
        cells = [quantity(values[at], row.unit) if at in values else "" for at in scales]
        name = last_frames(row.callpath, NAME_WIDTH)
        table.add_row(name, *cells, row.behaviour, row.text)
    return table


def insitu(console: Console, *words: object) -> None:
    """Print a command, then run it."""
    show_command(console, [str(word) for word in words])
    command = [sys.executable, "-m", "insitu", *map(str, words)]
    if subprocess.call(command):
        raise SystemExit(f"insitu {words[0]} failed")


def show_command(console: Console, words: list[str]) -> None:
    """Print a command as the user would type it."""
    console.print(f"\n[bold]$ insitu {shlex.join(words)}", soft_wrap=True)
    console.file.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except InsituError as error:
        sys.exit(f"insitu: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
