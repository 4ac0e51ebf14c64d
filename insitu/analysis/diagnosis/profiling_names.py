"""Calls of MPI by the names of its profiling interface, which profiles of other tools may have."""

from collections.abc import Mapping
from dataclasses import replace

from insitu.analysis.diagnosis.packages import Site
from insitu.entities import CallPath
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment

PREFIX = "PMPI_"


def name_by_mpi(
    experiment: Experiment, models: ModelSet, sites: Mapping[CallPath, Site]
) -> tuple[Experiment, ModelSet, Mapping[CallPath, Site]]:
    """Return all call paths with `MPI_Send` instead of `PMPI_Send`.

    Where one function calls both, which no profile is known to have, the second keeps its name.
    """
    known = set(experiment.callpaths())
    names = {}
    for path in known:
        if any(frame.startswith(PREFIX) for frame in path.frames):
            renamed = CallPath(tuple(map(_without_prefix, path.frames)))
            if renamed not in known:
                names[path] = renamed
    if not names:
        return experiment, models, sites

    runs = []
    for key, table in experiment.runs:
        callpaths = tuple(names.get(path, path) for path in table.callpaths)
        runs.append((key, replace(table, callpaths=callpaths)))
    series = []
    for entry in models.models:
        path = entry.key.callpath
        series.append(replace(entry, key=replace(entry.key, callpath=names.get(path, path))))
    clusters = [
        replace(entry, callpath=names.get(entry.callpath, entry.callpath))
        for entry in models.clusters
    ]
    return (
        replace(experiment, runs=tuple(runs)),
        replace(models, models=series, clusters=clusters),
        {names.get(path, path): site for path, site in sites.items()},
    )


def _without_prefix(frame: str) -> str:
    return frame.removeprefix("P") if frame.startswith(PREFIX) else frame
