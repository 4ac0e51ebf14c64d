"""Faults with real processes, counted: kills, a bad network, ways to end, scarce resources.

    python tests/benchmarks/chaos.py [KIND]... [--length short|long|N]

Kinds are kills, network, exits, limits, hostile; without names, all of them. The length is the
number of kills of each kind, the hundreds of messages that go through the bad network, the tens of
connections that are cut, and the thousands of messages of a hostile client. Prints what was done
and what was lost or wrong; ends with 1 where anything was.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.chaos_exits import exits, limits
from tests.benchmarks.chaos_hostile import hostile
from tests.benchmarks.chaos_kills import kills
from tests.benchmarks.chaos_network import network

LENGTHS = {"short": 5, "long": 1000}
Counts = dict[str, int]
KINDS: dict[str, Callable[[Path, int], Counts]] = {
    "kills": kills,
    "network": network,
    "exits": exits,
    "limits": limits,
    "hostile": hostile,
}
BAD = ("lost", "wrong", "torn", "unmarked", "harmed", "unfinished")


def main(arguments: list[str]) -> int:
    """Run the named kinds of faults and print their counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND")
    parser.add_argument("--length", default="100", help="short, long, or a number")
    options = parser.parse_args(arguments)
    length = LENGTHS.get(options.length) or int(options.length)
    harm = 0
    for kind in options.kinds or KINDS:
        with tempfile.TemporaryDirectory(prefix="insitu-chaos-") as folder:
            counts = KINDS[kind](Path(folder), length)
        print(f"{kind}: " + ", ".join(f"{what} {n:,}" for what, n in counts.items()), flush=True)
        harm += sum(n for what, n in counts.items() if what.split()[-1] in BAD)
    print("nothing lost, nothing wrong" if not harm else f"{harm} faults of insitu", flush=True)
    return int(harm > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
