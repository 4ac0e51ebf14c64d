"""Time inside an installed package whose functions were not timed, although they call MPI."""

import numpy as np

from insitu.analysis.diagnosis.budget import at_text
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi
from insitu.analysis.diagnosis.packages import package_of
from insitu.entities import RANKS, TIME, TIME_EXCLUSIVE, CallPath, is_start_up
from insitu.units import percent

LEAST_INSIDE = 0.25  # of the time of a mean rank, which a project leader asks about


def package_note(measurements: Measurements) -> str | None:
    """Say how to see the functions of the package in one function of which most time is spent.

    Only calls of MPI are seen below it, and what they leave is its own time. Where a function of a
    package calls another one of it, its functions are shown already.
    """
    if not measurements.groups:
        return None
    run = measurements.groups[-1][0]
    total = float(run.rank_times.mean())
    packages = {path: package_of(path, measurements.sites) for path in run.rows}
    callers = [(name, path.parent) for path, name in packages.items() if path.parent is not None]
    shown = {name for name, caller in callers if packages.get(caller) == name}
    inside: dict[CallPath, float] = {}
    for path in filter(is_mpi, run.rows):
        caller = path.parent
        if caller is None or is_start_up(path):
            continue
        if packages.get(caller, "") in measurements.packages.all - shown:
            own = inside.get(caller, float(np.mean(run.vector(caller, TIME_EXCLUSIVE.name))))
            inside[caller] = own + float(np.mean(run.vector(path, TIME.name)))
    longest = max(inside, key=lambda caller: inside[caller], default=None)
    if longest is None or not 0 < LEAST_INSIDE * total <= inside[longest]:
        return None
    package = packages[longest]
    return (
        f"{percent(min(inside[longest] / total, 1.0))} of the time at"
        f" {at_text(RANKS, float(run.size))} is inside {longest.name}, which calls MPI: insitu run"
        f" --package {package} shows the functions of {package}"
    )
