"""How many branches of each room tests take: `python3 bootstrap.py coverage [ROOM...]`.

Runs the tests of each room below `tests/` under coverage.py, processes that they start included,
and prints the share of branches of the modules of this room. Without a name, all tests are run as
well: commands, and code that runs in ranks or under an aggregator, are reached by `tests/system`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOP_LEVEL = ("collectors", "server")  # rooms that insitu/ links
SETTINGS = """
[run]
branch = true
parallel = true
patch = subprocess, _exit
sigterm = true
data_file = {folder}/data
source =
    {source}
"""


@dataclass
class Branches:
    """How many branches there are, and how many of them are taken."""

    taken: int = 0
    known: int = 0

    def add(self, summary: dict[str, int]) -> None:
        """Add those of one file, as coverage.py reports them."""
        self.taken += summary["covered_branches"]
        self.known += summary["num_branches"]

    def __str__(self) -> str:
        return f"{self.taken / self.known:.1%}" if self.known else "-"


def main(arguments: list[str]) -> int:
    """Run the tests of the rooms, print a line for each; 1 if a test failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rooms", nargs="*", help="folders below insitu/ (default: all)")
    options = parser.parse_args(arguments)
    rooms = options.rooms or find_rooms()

    has_failed = False
    of_all: dict[str, Branches] = {}
    if not options.rooms:
        folders = ("insitu", *TOP_LEVEL)
        of_all, has_failed = count_branches(["-n", "3", "tests"], [ROOT / n for n in folders])

    print("room          branches by its own tests  by all tests")
    for room in rooms:
        own = Branches()
        if (ROOT / "tests" / room).is_dir():
            source = ROOT / room if room in TOP_LEVEL else ROOT / "insitu" / room
            found, fails = count_branches([f"tests/{room}"], [source])
            own = found[room]
            has_failed |= fails
        print(f"{room:12}  {own!s:>25}  {of_all.get(room, '')!s:>12}", flush=True)
    return int(has_failed)


def find_rooms() -> list[str]:
    """The folders with code below insitu/."""
    return sorted(path.parent.name for path in (ROOT / "insitu").glob("*/__init__.py"))


def count_branches(tests: list[str], source: list[Path]) -> tuple[dict[str, Branches], bool]:
    """The branches of the rooms in these folders that tests take, and whether a test failed."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "coveragerc"
        sources = "\n    ".join(map(str, source))
        settings.write_text(SETTINGS.format(folder=folder, source=sources), encoding="utf-8")
        coverage = [sys.executable, "-m", "coverage"]
        options = [f"--rcfile={settings}"]
        pytest = ["run", *options, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(
            [*coverage, *pytest], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(done.stdout[-3000:], file=sys.stderr)

        report = Path(folder) / "report.json"
        for words in (["combine"], ["json", "-o", str(report)]):
            command = [*coverage, *words, *options, "-q"]
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        files = json.loads(report.read_text(encoding="utf-8"))["files"]

    rooms: dict[str, Branches] = defaultdict(Branches)
    for path, counts in files.items():
        rooms[room_of(path)].add(counts["summary"])
    return rooms, done.returncode != 0


def room_of(path: str) -> str:
    """The room of a file of the checkout, `insitu` for those above all rooms."""
    parts = Path(path).parts
    if parts[0] in TOP_LEVEL:
        return parts[0]
    return parts[1] if len(parts) > 2 else parts[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
