"""Measure what insitu costs, beside its peers.

python -m tests.benchmarks [NAME [OPTIONS OF THAT SCRIPT]]
"""

import sys
from pathlib import Path

from tests.support.scripts import run_scripts

DEFAULT = ("overhead", "heap_cost", "calls", "mpi_cost", "watch", "load")
# These need files, other programs or a browser, or take long.
ON_REQUEST = ("programs", "unreachable", "page", "refit", "load_tree")

if __name__ == "__main__":
    sys.exit(run_scripts(Path(__file__).parent, sys.argv[1:], DEFAULT, ON_REQUEST))
