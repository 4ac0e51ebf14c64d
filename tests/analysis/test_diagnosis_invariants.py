"""Diagnosis: what must not change the diagnosis of a measured program."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.entities import CallPath
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import RunTable
from tests.analysis.diagnoses import MeasuredCampaign, kept_names, load_kept

MEASURED = [name for name in kept_names() if not name.startswith(("imported", "heat"))]


def without_models(name: str) -> MeasuredCampaign:
    return replace(load_kept(name), models=ModelSet())


def with_tables(measured: MeasuredCampaign, change: Callable[[RunTable], RunTable]):
    """The same campaign with other values."""
    runs = tuple((key, change(table)) for key, table in measured.experiment.runs)
    return replace(measured, experiment=replace(measured.experiment, runs=runs))


def all_rows(diagnosis: Diagnosis) -> list[tuple[object, ...]]:
    return [
        (entry.status, entry.kind, entry.text, entry.law, entry.seconds, entry.run, entry.where)
        for entry in diagnosis.all_statements()
    ]


@pytest.mark.parametrize("name", MEASURED[::2])
def test_calls_of_the_profiling_interface_are_those_of_mpi(name: str):
    """Other tools may leave `PMPI_Send` in a call path."""
    check_names(without_models(name))


def test_times_of_the_profiling_interface_are_those_of_mpi():
    """The models of a call are found by its name."""
    measured = load_kept("imported_follower")
    series = []
    for entry in measured.models.models:
        key = replace(entry.key, callpath=rename(entry.key.callpath))
        series.append(replace(entry, key=key))

    check_names(measured, replace(measured.models, models=series))


def rename(path: CallPath) -> CallPath:
    frames = (f"P{frame}" if frame.startswith("MPI_") else frame for frame in path.frames)
    return CallPath(tuple(frames))


def check_names(measured: MeasuredCampaign, models: ModelSet | None = None) -> None:
    """The names of calls do not matter. models: with the other names."""

    def with_names(table: RunTable) -> RunTable:
        return replace(table, callpaths=tuple(map(rename, table.callpaths)))

    sites = {rename(path): site for path, site in measured.sites.items()}
    others = replace(with_tables(measured, with_names), sites=sites)
    renamed = (replace(others, models=models) if models else others).diagnose()

    rows = [
        tuple(value.replace("PMPI_", "MPI_") if isinstance(value, str) else value for value in row)
        for row in all_rows(renamed)
    ]
    assert rows == all_rows(measured.diagnose())


@pytest.mark.parametrize("name", MEASURED[::3])
def test_the_order_of_call_paths_changes_nothing(name: str):
    measured = without_models(name)

    def shuffle(table: RunTable) -> RunTable:
        order = np.random.default_rng(len(table.callpaths)).permutation(len(table.callpaths))
        values = {metric: array[order] for metric, array in table.values.items()}
        return replace(table, callpaths=tuple(table.callpaths[i] for i in order), values=values)

    assert all_rows(with_tables(measured, shuffle).diagnose()) == all_rows(measured.diagnose())
