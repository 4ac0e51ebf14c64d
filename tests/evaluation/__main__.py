"""Measure how accurate insitu is, beside its peers.

python -m tests.evaluation [NAME [OPTIONS OF THAT SCRIPT]]
"""

import sys
from pathlib import Path

from tests.support.scripts import run_scripts

DEFAULT = (
    "growth",
    "several",
    "classes",
    "expectations",
    "limits",
    "healthy",
    "planted",
    "second_campaigns",
    "design",
    "stencils",
    "forecast",
    "noise",
    "tail",
    "class_shapes",
    "off_space",
    "off_space_several",
    "close_scales",
    "grid_changes",
    "first_zero",
    "sampled",
)
# These need files, other programs or a browser, or take long.
ON_REQUEST = (
    *("real", "newest_points", "deduced", "detection", "tables", "waiting", "file_counts"),
    *("plants", "held_out"),
)

if __name__ == "__main__":
    sys.exit(run_scripts(Path(__file__).parent, sys.argv[1:], DEFAULT, ON_REQUEST))
