"""Files of every released version are read by this one: tables, journals, campaigns."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from insitu.campaign.layout import AGGREGATOR_JOURNAL
from insitu.campaign.store import open_store
from insitu.collectors import leftovers
from insitu.entities import RunState
from insitu.server.ingest import Ingestion
from insitu.server.journal import Journal
from insitu.wire.codec import encode
from tests.support.campaigns import heat_run
from tests.support.nodes import ModelNode, column

VERSIONS = sorted(Path(__file__).with_name("kept").iterdir())


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def kept(request, tmp_path):
    """The files of one version, which may be written."""
    return Path(shutil.copytree(request.param, tmp_path / "kept"))


def test_a_table_of_every_version_comes_in_whole(kept, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (kept / "ended.table").rename(folder / "rank-000000-1.table")

    with Ingestion(str(tmp_path / "new.insitu"), now=2e9) as ingestion:
        assert ingestion.take("run", leftovers.read_messages(str(folder)))
        (became,) = ingestion.finish()

    assert (became.name, became.state) == ("p=1,n=3#0", RunState.COMPLETE)
    with open_store(str(tmp_path / "new.insitu")) as store:
        table = store.table(became.run)
    assert column(table, 0) == {"app.py": 1, "app.py->solve": 7, "app.py->solve->halo": 7}
    seconds = column(table, 0, "time")
    assert 0 < seconds["app.py->solve->halo"] < seconds["app.py->solve"] < seconds["app.py"] < 1


def test_a_journal_of_every_version_is_replayed(kept):
    assert (kept / "aggregator.journal").name == AGGREGATOR_JOURNAL
    truth = ModelNode("n0", [0, 1], 3)
    truth.work("solve")

    with Journal(str(kept)) as journal:
        hello, *others = journal.replay()

    assert (hello.run, hello.node, hello.ranks) == (truth.run, "n0", (0, 1))
    assert [encode(message) for message in others] == [encode(m) for m in truth.messages()[1:]]


def test_a_campaign_of_every_version_is_read_and_goes_on(kept):
    with open_store(str(kept)) as store:
        for p in (1, 2, 4):
            record, table = heat_run(p)
            found = store.table(record.id)
            assert found.callpaths == table.callpaths
            for metric in table.metrics:
                np.testing.assert_array_equal(found.values[metric.name], table.values[metric.name])
        models = store.models()
        store.add_run(*heat_run(8))
        assert len(store.runs()) == 4

    assert {str(model.key.callpath) for model in models.models} >= {"main", "main->solve"}
    assert len(models.clusters) > 0
    with open_store(str(kept)) as store:
        store.put_models(models)
        again = store.models()
    assert again.models == models.models
    for written, read in zip(models.clusters, again.clusters, strict=True):
        assert (read.callpath, read.run, read.names) == (
            written.callpath,
            written.run,
            written.names,
        )
        np.testing.assert_array_equal(read.labels, written.labels)
