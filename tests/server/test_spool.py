"""What the aggregator takes from the spool of a campaign."""

from pathlib import Path

from insitu.campaign.store import open_store
from insitu.collectors import leftovers, spool
from insitu.server.events import Report
from insitu.server.spool import SpoolReader
from insitu.server.writer import CampaignWriter
from tests.support.nodes import RUN, ModelNode, column


def test_tables_of_the_spool_need_no_token_and_are_removed_when_they_are_durable(
    tmp_path: Path, monkeypatch
):
    node = ModelNode("n0", [0, 1], 2)
    folder = tmp_path / "node"
    folder.mkdir()
    monkeypatch.setattr(spool, "complete_folders", lambda _: [str(folder)] * folder.exists())
    monkeypatch.setattr(leftovers, "read_messages", lambda _: node.messages())
    monkeypatch.setattr(leftovers, "remove", lambda path: Path(path).rmdir())

    with CampaignWriter(str(tmp_path), instance="i1", heartbeat_s=1.0) as writer:
        writer.replay(0.0)
        assert node.token != writer.token

        effects = SpoolReader().take(writer, 1.0)

    reports = [effect.finding.code for effect in effects if isinstance(effect, Report)]
    assert "message-refused" not in reports
    assert not folder.exists()
    with open_store(str(tmp_path)) as store:
        assert column(store.table(RUN), 1) == node.truth(1)
