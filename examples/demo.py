"""A program with three limits: found on 2 to 12 ranks, repaired, and checked.

    python3 bootstrap.py demo          sets everything up, then runs this file

Does what a person would type: `insitu run` for each run, `insitu diagnose`, the same runs with the
repaired program, and `insitu check` for both; each command is shown as it is to be typed. The
limits are memory, bytes and messages, which insitu counts exactly, so that a busy machine and ranks
that share cores change nothing.
"""

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

HERE = Path(__file__).resolve().parent
PROGRAM, EXPECTATIONS = HERE / "particles.py", HERE / "particles.toml"
# Not only powers of two: on 1, 2, 4 and 8 ranks, p - 1 also counts the neighbours in a block.
SCALES = (2, 3, 4, 6, 8, 12)
SETTINGS = 'target = "p=65536"\n'  # of campaign.toml: what every view looks ahead to
START_RANKS = 4  # the start of a run takes as long as so many ranks


def main(arguments: list[str]) -> int:
    """Measure, diagnose, repair, check; the exit code."""
    options = parse(arguments)
    console = Console(highlight=False)
    campaign = Path(options.campaign)
    repaired = campaign.with_stem(f"{campaign.stem}-repaired")
    for path in (campaign, repaired):
        move_away(path, console)
        path.mkdir(mode=0o700)
        (path / "campaign.toml").write_text(SETTINGS, encoding="utf-8")
    console.print(f"{campaign / 'campaign.toml'}: {SETTINGS}", end="")

    began_s = time.monotonic()
    with remaining_time(console, 2 * sum(START_RANKS + p for p in options.ranks)) as advance:
        measure(console, campaign, options.ranks, advance)
        insitu(console, "diagnose", campaign)
        console.print("\nThe repaired program keeps two neighbours, sums, and writes in pairs:")
        measure(console, repaired, options.ranks, advance, "--repaired")

    expectations = os.path.relpath(EXPECTATIONS)
    insitu(console, "check", campaign, expectations, allowed=(0, 1))
    insitu(console, "check", repaired, expectations)
    insitu(console, "diagnose", repaired)
    console.print(
        f"\n{2 * len(options.ranks)} runs, {time.monotonic() - began_s:.0f} s. Open the page of"
        " this campaign, or measure your own program:\n\n"
        "    source .venv/bin/activate\n"
        f"    insitu watch --web {campaign}\n"
        "    insitu run -n 4 --campaign mine.insitu -- ./your_program\n"
        "    insitu --help\n",
        soft_wrap=True,
    )
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="demo", description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--campaign", default="demo.insitu", help="where the runs go (default: demo.insitu)")
    add("--ranks", type=int, nargs="+", default=SCALES, metavar="P", help="the scales to run at")
    return parser.parse_args(arguments)


def move_away(path: Path, console: Console) -> None:
    """Rename an existing campaign: this demonstration begins with an empty one."""
    if not path.exists():
        return
    names = (path.with_stem(f"{path.stem}-{i}") for i in count(1))
    free = next(name for name in names if not name.exists())
    path.rename(free)
    console.print(f"{path} existed; it is {free} now")


@contextmanager
def remaining_time(console: Console, ranks: int) -> Iterator[Callable[[int], None]]:
    """Show the remaining time on a terminal, estimated from the ranks that are still to start.

    Yields:
        A function to call after each run, with its number of ranks.
    """
    columns = (TextColumn("  {task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("measuring", total=ranks, left="")
    began_s = time.monotonic()

    def advance(p: int) -> None:
        progress.advance(task, START_RANKS + p)
        done = progress.tasks[0].completed
        left_s = (time.monotonic() - began_s) * (ranks - done) / done
        progress.update(task, left=f"about {left_s:.0f} s left")

    if console.is_terminal:
        with progress:
            yield advance
    else:
        yield advance


def measure(
    console: Console,
    campaign: Path,
    scales: list[int],
    advance: Callable[[int], None],
    *arguments: str,
) -> None:
    """Run the program at each scale."""
    program = [os.path.relpath(PROGRAM), *arguments]
    show_command(console, ["run", "-q", "-n", "P", "--campaign", str(campaign), "--", *program])
    for p in scales:
        command = ["-q", "-n", str(p), "--campaign", str(campaign), "--", *program]
        done = subprocess.run(
            [sys.executable, "-m", "insitu.run", *command],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{done.stdout}{done.stderr}the run ended with {done.returncode}")
        advance(p)
        if not console.is_terminal:
            console.print(f"  p = {p}: measured")


def insitu(console: Console, *words: object, allowed: tuple[int, ...] = (0,)) -> None:
    """Show a command, then run it; `allowed`: exit codes that are no failure."""
    show_command(console, [str(word) for word in words])
    command = [sys.executable, "-m", "insitu", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    console.print(done.stdout, end="", markup=False, soft_wrap=True)
    if done.returncode not in allowed:
        raise SystemExit(f"{done.stderr}insitu {words[0]} failed")


def show_command(console: Console, words: list[str]) -> None:
    """Print a command as it is to be typed."""
    console.print(f"\n[bold]$ insitu {shlex.join(words)}", soft_wrap=True)
    console.file.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
