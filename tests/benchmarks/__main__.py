"""All benchmarks, or the named one with its options; a few only run when they are named.

python -m tests.benchmarks [NAME [OPTIONS OF THAT ONE]]
"""

import subprocess
import sys
from pathlib import Path

NAMES = (
    *("overhead", "heap_cost", "calls", "mpi_cost", "growth", "several", "classes"),
    *("expectations", "limits", "design", "stencils", "forecast", "watch", "load"),
)
# Want files, other programs or a browser, or take long.
ASKED_FOR = ("real", "programs", "deduced", "unreachable", "page", "refit", "load_tree", "fuzz")


def main(arguments: list[str]) -> int:
    """Run them one after the other; the exit code of the first that fails."""
    if arguments and arguments[0] not in NAMES + ASKED_FOR:
        print(__doc__)
        return 2
    for name in arguments[:1] or NAMES:
        print(f"\n== {name}", flush=True)
        program = Path(__file__).with_name(f"{name}.py")
        code = subprocess.call([sys.executable, str(program), *arguments[1:]])
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
