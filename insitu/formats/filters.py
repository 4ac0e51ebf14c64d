"""Filters that exclude functions too short and too frequent to instrument: for Score-P and GCC."""

import re
from typing import BinaryIO, NamedTuple

import numpy as np

from insitu.entities import TIME_EXCLUSIVE, VISITS
from insitu.function_names import split_function_name
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment

SHORT_S = 2e-6  # exclusive time per call below which instrumentation distorts the time
FREQUENT = 10_000  # calls per rank below which instrumentation costs nothing noticeable

# A name that GCC compares: a list is separated by commas, and the shell must not read it.
PLAIN_NAME = re.compile(r"[A-Za-z_~][A-Za-z0-9_:~]*")


class FunctionCost(NamedTuple):
    """Calls of a function per rank, and its exclusive time per call, in the run with most calls."""

    calls: float
    seconds: float

    @property
    def is_excluded(self) -> bool:
        """Whether instrumenting the function costs more than it shows."""
        return self.calls >= FREQUENT and self.seconds < SHORT_S


class ScorepFilter:
    """A file for SCOREP_FILTERING_FILE, with the reason after each name."""

    name = "scorep-filter"
    suffix = ".filter"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        costs = _cost_by_function(experiment)
        out.write(b"SCOREP_REGION_NAMES_BEGIN\n")

        for name in _by_calls(costs):
            calls, seconds = costs[name]
            if costs[name].is_excluded:
                reason = f"{calls:.0f} calls per rank of {seconds * 1e6:.2g} us"
                out.write(f"  EXCLUDE {_patterns(name)} # {reason}\n".encode("utf-8", "replace"))

        out.write(b"SCOREP_REGION_NAMES_END\n")


class GccFilter:
    """An option for GCC that instruments all functions but those.

    GCC excludes every function whose name contains one of the list. A name that is also part of the
    name of a function to be measured is left out.
    """

    name = "gcc-filter"
    suffix = ".gcc"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        costs = _cost_by_function(experiment)
        kept = [name for name, cost in costs.items() if not cost.is_excluded]
        excluded: list[str] = []
        for name in _by_calls(costs):
            short = split_function_name(name).name
            if not costs[name].is_excluded or short in excluded or not PLAIN_NAME.fullmatch(short):
                continue
            if not any(short in other for other in kept):
                excluded.append(short)

        if excluded:
            option = f"-finstrument-functions-exclude-function-list={','.join(excluded)}\n"
            out.write(option.encode("ascii"))


def _cost_by_function(experiment: Experiment) -> dict[str, FunctionCost]:
    """The cost of each function but those of MPI, by name."""
    costs: dict[str, FunctionCost] = {}
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
            calls = count / table.size
            is_mpi = name.startswith(("MPI_", "PMPI_"))
            if not is_mpi and (name not in costs or calls > costs[name].calls):
                costs[name] = FunctionCost(calls, spent / max(count, 1.0))
    return costs


def _by_calls(costs: dict[str, FunctionCost]) -> list[str]:
    return sorted(costs, key=lambda name: (-costs[name].calls, name))


def _patterns(name: str) -> str:
    """The patterns of a function: for Score-P, one of C++ has its list of arguments in its name."""
    pattern = _pattern(name)
    return pattern if name.endswith(")") else f"{pattern} {pattern}(*"


def _pattern(name: str) -> str:
    """Return a shell pattern that matches only this name."""
    safe = (f"\\{c}" if c in "*?[]\\# " else c if c.isprintable() else "?" for c in name)
    return "".join(safe)
