"""A refit that reads some call paths at a time, or in several processes, gives the same models."""

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from insitu.campaign.load import TableCache
from insitu.campaign.store import open_store
from insitu.modeling.base import ModelSet
from insitu.server.refit import fit_models, load_refit_inputs
from insitu.workflows.refit import refit_campaign
from tests.support.campaigns import heat_campaign


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
        models = fit_models(inputs)

    assert kinds == {"StoredMatrix"}
    assert_equal(models, stored_models(campaign))


@contextmanager
def open_processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2) as pool:
        yield pool


@contextmanager
def open_dask() -> Iterator[Executor]:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
    )
    with cluster, distributed.Client(cluster) as client:
        yield client.get_executor()


@pytest.mark.parametrize("open_team", [open_processes, open_dask])
def test_several_processes_make_the_models_of_one(campaign, monkeypatch, open_team):
    refit_campaign(campaign)
    alone = stored_models(campaign)
    monkeypatch.setattr("insitu.modeling.classes.run_groups.CHUNK_BYTES", 1)

    with open_team() as team:
        refit_campaign(campaign, executor=team)

    assert_equal(stored_models(campaign), alone)
