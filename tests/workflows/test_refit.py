"""A refit that reads some call paths at a time, or in several processes, gives the same models."""

import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from insitu.campaign.load import TableCache
from insitu.campaign.store import open_store
from insitu.modeling.base import ModelSet
from insitu.modeling.class_means import MAX_EVIDENCE
from insitu.server.refit import fit_models, load_refit_inputs
from insitu.server.refitter import Refitter
from insitu.workflows.refit import refit_campaign
from tests.support.campaigns import heat_campaign, heat_run
from tests.support.parameters import plain_and_full


@pytest.fixture
def campaign(tmp_path: Path) -> str:
    path = str(tmp_path / "heat.insitu")
    heat_campaign(path, 2, (4, 8, 16, 32, 64)).close()
    return path


def stored_models(campaign: str) -> ModelSet:
    with open_store(campaign) as store:
        return store.models()


def assert_equal(left: ModelSet, right: ModelSet) -> None:
    assert list(left.models) == list(right.models)
    assert (left.parameters, left.findings, left.rest) == (
        right.parameters,
        right.findings,
        right.rest,
    )
    assert len(left.clusters) == len(right.clusters)
    for one_side, other_side in zip(left.clusters, right.clusters, strict=True):
        assert one_side.callpath == other_side.callpath
        assert one_side.names == other_side.names
        np.testing.assert_array_equal(one_side.labels, other_side.labels)


def test_call_paths_that_are_read_one_by_one_have_the_same_models(campaign, monkeypatch):
    refit_campaign(campaign)
    monkeypatch.setattr("insitu.modeling.classes.run_groups.CHUNK_BYTES", 1)
    monkeypatch.setattr("insitu.server.refit.TableCache", partial(TableCache, capacity_bytes=0))

    with open_store(campaign) as store:
        inputs = load_refit_inputs(store, campaign)
        kinds = {type(table.values["time"]).__name__ for _, table in inputs.experiment.runs}
        models, _ = fit_models(inputs)

    assert kinds == {"StoredMatrix"}
    assert_equal(models, stored_models(campaign))


@contextmanager
def open_processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2) as pool:
        yield pool


@contextmanager
def open_dask() -> Iterator[Executor]:
    distributed = pytest.importorskip("distributed")
    with mock.patch.dict(os.environ):  # Dask sets variables that change how programs allocate
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
        )
        with cluster, distributed.Client(cluster) as client:
            yield client.get_executor()


@plain_and_full("open_team", [open_processes, open_dask])
def test_several_processes_make_the_models_of_one(campaign, monkeypatch, open_team):
    refit_campaign(campaign)
    alone = stored_models(campaign)
    monkeypatch.setattr("insitu.modeling.classes.run_groups.CHUNK_BYTES", 1)

    with open_team() as team:
        refit_campaign(campaign, executor=team)

    assert_equal(stored_models(campaign), alone)


def add_run_as_an_aggregator(campaign: str, p: int, repetition: int) -> list[str]:
    """Add a run and fit the models that it affects; return the runs whose values were read."""
    read: list[str] = []
    with open_store(campaign) as store:
        record, table = heat_run(p, repetition=repetition)
        store.add_run(record, table)
        refitter = Refitter(store, campaign)
        load = refitter._tables.load
        refitter._tables.load = lambda run_id: read.append(run_id) or load(run_id)
        refitter.finish(refitter.begin()())
    return [run for run in read if run != record.id]


def test_an_added_repetition_reads_no_other_run_and_makes_the_models_from_scratch(tmp_path):
    campaign = str(tmp_path / "heat.insitu")
    heat_campaign(campaign, MAX_EVIDENCE, (4, 8, 16)).close()
    refit_campaign(campaign)

    assert add_run_as_an_aggregator(campaign, 8, MAX_EVIDENCE) == []
    assert add_run_as_an_aggregator(campaign, 16, MAX_EVIDENCE) == []
    grown = stored_models(campaign)
    refit_campaign(campaign)

    assert_equal(grown, stored_models(campaign))


@plain_and_full(
    "damage",
    [
        "UPDATE class_mean SET means = zeroblob(length(means))",
        "UPDATE class_series SET keys = zeroblob(length(keys))",
        "UPDATE campaign SET value = '[1, 2]' WHERE name = 'class basis'",
        "DELETE FROM classified WHERE rowid IN (SELECT rowid FROM classified LIMIT 1)",
        "DELETE FROM class_mean",
    ],
    plain=2,
)
def test_class_means_that_are_damaged_are_made_again(tmp_path, damage):
    campaign = str(tmp_path / "heat.insitu")
    heat_campaign(campaign, MAX_EVIDENCE, (4, 8, 16)).close()
    refit_campaign(campaign)
    damage = damage.replace("rowid IN (SELECT rowid", "callpath IN (SELECT callpath")
    with sqlite3.connect(str(tmp_path / "heat.insitu" / "campaign.db")) as connection:
        connection.execute(damage)
    connection.close()

    read = add_run_as_an_aggregator(campaign, 8, MAX_EVIDENCE)
    grown = stored_models(campaign)
    refit_campaign(campaign)

    assert len(read) >= 3 * MAX_EVIDENCE
    assert_equal(grown, stored_models(campaign))
