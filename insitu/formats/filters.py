"""A filter for Score-P that excludes functions too short and too frequent to instrument."""

from typing import BinaryIO

import numpy as np

from insitu.entities import TIME_EXCLUSIVE, VISITS
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment

SHORT_S = 2e-6  # exclusive time per call below which instrumentation distorts the time
FREQUENT = 10_000  # calls per rank below which instrumentation costs nothing noticeable


class ScorepFilter:
    """A file for SCOREP_FILTERING_FILE, with the reason after each name."""

    name = "scorep-filter"
    suffix = ".filter"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        calls: dict[str, float] = {}
        seconds: dict[str, float] = {}
        for _, table in experiment.runs:
            if not {VISITS.name, TIME_EXCLUSIVE.name} <= table.values.keys():
                continue
            visits, times = table.values[VISITS.name], table.values[TIME_EXCLUSIVE.name]

            # Add up the call paths of each function in this run: calls and seconds.
            of_run: dict[str, tuple[float, float]] = {}
            for row, path in enumerate(table.callpaths):
                count, spent = (float(np.nansum(values[row])) for values in (visits, times))
                before = of_run.get(path.name, (0.0, 0.0))
                of_run[path.name] = (before[0] + count, before[1] + spent)

            # Keep the run with the most calls per rank.
            for name, (count, spent) in of_run.items():
                if count / table.size > calls.get(name, 0.0):
                    calls[name], seconds[name] = count / table.size, spent / max(count, 1.0)

        out.write(b"SCOREP_REGION_NAMES_BEGIN\n")

        for name in sorted(calls, key=lambda name: (-calls[name], name)):
            is_mpi = name.startswith(("MPI_", "PMPI_"))
            if calls[name] >= FREQUENT and seconds[name] < SHORT_S and not is_mpi:
                reason = f"{calls[name]:.0f} calls per rank of {seconds[name] * 1e6:.2g} us"
                out.write(f"  EXCLUDE {_pattern(name)} # {reason}\n".encode("utf-8", "replace"))

        out.write(b"SCOREP_REGION_NAMES_END\n")


def _pattern(name: str) -> str:
    """Return a shell pattern that matches only this name."""
    safe = (f"\\{c}" if c in "*?[]\\# " else c if c.isprintable() else "?" for c in name)
    return "".join(safe)
