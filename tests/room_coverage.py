"""How many branches of each room its own tests take: `python3 bootstrap.py coverage [ROOM...]`.

Runs the tests of each room below `tests/` under coverage.py, processes that they start included,
and prints the share of branches of the modules of this room. A room whose code mostly runs in
ranks, or under an aggregator, is reached by `tests/system` as well: name it after the rooms, as in
`bootstrap.py coverage collectors server --with system`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOP_LEVEL = ("collectors", "server")  # rooms that insitu/ links
SETTINGS = """
[run]
branch = true
parallel = true
patch = subprocess
data_file = {folder}/data
source =
    {source}
"""


def main(arguments: list[str]) -> int:
    """Run the tests of the rooms, print a line for each; 1 if a test failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rooms", nargs="*", help="folders below insitu/ (default: all with tests)")
    parser.add_argument(
        "--with", dest="also", nargs="+", default=[], help="further folders of tests"
    )
    options = parser.parse_args(arguments)
    rooms = options.rooms or [room for room in find_rooms() if (ROOT / "tests" / room).is_dir()]

    has_failed = False
    print("room          branches  lines and branches")
    for room in rooms:
        with tempfile.TemporaryDirectory() as folder:
            tests = [f"tests/{name}" for name in (room, *options.also)]
            has_failed |= not run_tests(Path(folder), room, tests)
            totals = read_totals(Path(folder))
        branches = totals["covered_branches"] / max(totals["num_branches"], 1)
        print(f"{room:12}  {branches:8.1%}  {totals['percent_covered'] / 100:.1%}", flush=True)
    return int(has_failed)


def find_rooms() -> list[str]:
    """The folders with code below insitu/."""
    return sorted(path.parent.name for path in (ROOT / "insitu").glob("*/__init__.py"))


def run_tests(folder: Path, room: str, tests: list[str]) -> bool:
    """Run tests with the branches of one room counted; whether all passed."""
    source = ROOT / room if room in TOP_LEVEL else ROOT / "insitu" / room
    settings = folder / "coveragerc"
    settings.write_text(SETTINGS.format(folder=folder, source=source), encoding="utf-8")
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest"]
    done = subprocess.run(
        [*command, "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout[-3000:], file=sys.stderr)
    return done.returncode == 0


def read_totals(folder: Path) -> dict[str, float]:
    """The totals that coverage.py counts, from the data of all processes."""
    options = [f"--rcfile={folder / 'coveragerc'}", "-q"]
    for words in (["combine"], ["json", "-o", str(folder / "report.json")]):
        command = [sys.executable, "-m", "coverage", *words, *options]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return dict(report["totals"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
