"""Faults with real processes, counted: kills, a bad network, ways to end, scarce resources.

    python tests/stress/chaos.py [KIND]... [--length short|long|N]

Kinds are aggregators, agents, ranks and relays, which are killed, messages and cuts on a bad
network, exits, limits, and hostile; without names, all of them. The length is the number of kills,
the hundreds of messages that go through the bad network, half the number of connections that are
cut, and the thousands of messages of a hostile client. Prints what was done and what was lost or
wrong; ends with 1 where anything was.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.stress.chaos_exits import exits, limits
from tests.stress.chaos_hostile import hostile
from tests.stress.chaos_kills import agents, aggregators, kill, ranks, relays
from tests.stress.chaos_network import cuts, messages

LENGTHS = {"short": 5, "long": 1000}
KINDS: dict[str, Callable[[Path, int], Counter[str]]] = {
    "aggregators": partial(kill, kind=aggregators),
    "agents": partial(kill, kind=agents),
    "ranks": partial(kill, kind=ranks),
    "relays": partial(kill, kind=relays),
    "messages": messages,
    "cuts": cuts,
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
