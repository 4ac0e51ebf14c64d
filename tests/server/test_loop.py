"""What the aggregator waits for when it stops, and boards during a refit."""

import asyncio
import json
import threading
import time
from dataclasses import replace

import pytest
import zmq
import zmq.asyncio

from insitu.analysis.board import Board
from insitu.campaign.store import open_store
from insitu.entities import Configuration
from insitu.server.loop import Aggregator
from insitu.server.refitter import Refitter
from insitu.server.sockets import bind
from insitu.server.writer import CampaignWriter
from tests.support.campaigns import heat_campaign, heat_run


class SlowRefitter(Refitter):
    """Its refits take a minute."""

    def begin(self):
        work = super().begin()
        return lambda: time.sleep(60) or work()


async def serve_and_stop(campaign, refitter, *, is_signalled):
    reports = []
    with (
        CampaignWriter(campaign, instance="i1", heartbeat_s=0.05) as writer,
        bind(campaign) as sockets,
    ):
        aggregator = Aggregator(
            writer,
            refitter(writer.store, campaign),
            sockets=sockets,
            heartbeat_s=0.05,
            report=reports.append,
        )
        stop = aggregator.request_stop if is_signalled else aggregator.stop.set
        asyncio.get_running_loop().call_later(0.2, stop)
        await aggregator.run()
    return reports


def test_a_signal_does_not_wait_for_a_long_refit(tmp_path):
    campaign = str(tmp_path / "test.insitu")
    heat_campaign(campaign, 1).close()

    reports = asyncio.run(serve_and_stop(campaign, SlowRefitter, is_signalled=True))

    assert reports == [
        "the models do not include the latest runs; the next aggregator or `insitu refit` fits them"
    ]
    with open_store(campaign) as store:
        assert store.unmodelled_runs() != []


def test_an_aggregator_that_ends_with_a_run_fits_its_models_first(tmp_path):
    campaign = str(tmp_path / "test.insitu")
    heat_campaign(campaign, 1).close()

    reports = asyncio.run(serve_and_stop(campaign, Refitter, is_signalled=False))

    assert reports == []
    with open_store(campaign) as store:
        assert store.unmodelled_runs() == []
        assert store.models().models


@pytest.mark.parametrize("is_left_out", [False, True])
def test_only_a_run_that_models_describe_is_compared_with_their_forecast(tmp_path, is_left_out):
    campaign = str(tmp_path / "test.insitu")
    heat_campaign(campaign, 2).close()
    with open_store(campaign, create=True) as store:
        refitter = Refitter(store, campaign)
        refitter.finish(refitter.begin()())
        record, table = heat_run(4, **({"n": 128.0} if is_left_out else {}))
        command = Configuration.of({"command": "examples/heat.py 128", "host": "n1"})
        record = replace(record, id="slow", key=replace(record.key, repetition=7))
        store.add_run(
            replace(record, configuration=command),
            replace(table, values={name: 9 * values for name, values in table.values.items()}),
        )
        refitter.add_run("slow")

        findings = refitter.finish(refitter.begin()())

    assert any(finding.code == "off-forecast" for finding in findings) is not is_left_out


class WaitingRefitter(Refitter):
    """Its refits wait until the test allows them."""

    is_allowed = threading.Event()

    def begin(self):
        work = super().begin()
        return lambda: self.is_allowed.wait(20) and work()


async def watch_a_refit(campaign, refitter):
    """Return a board during the refit, and one after it."""

    async def board(is_wanted):
        while True:
            seen = Board.from_dict(json.loads(await viewer.recv()))
            if is_wanted(any(row.text.startswith("preview: ") for row in seen.series)):
                return seen

    with (
        CampaignWriter(campaign, instance="i1", heartbeat_s=0.05) as writer,
        bind(campaign) as sockets,
        zmq.asyncio.Context() as context,
        context.socket(zmq.SUB) as viewer,
    ):
        viewer.subscribe(b"")
        viewer.connect(sockets.boards_endpoint)
        aggregator = Aggregator(
            writer,
            refitter(writer.store, campaign),
            sockets=sockets,
            heartbeat_s=0.05,
            report=print,
        )
        running = asyncio.create_task(aggregator.run())
        during = await asyncio.wait_for(board(bool), 20)
        refitter.is_allowed.set()
        after = await asyncio.wait_for(board(lambda is_preview: not is_preview), 20)
        aggregator.stop.set()
        await running
    return during, after


def test_boards_show_a_preview_until_the_models_are_fitted(tmp_path):
    campaign = str(tmp_path / "test.insitu")
    with heat_campaign(campaign, 1) as store:
        refitter = Refitter(store, campaign)
        refitter.finish(refitter.begin()())
        store.add_run(*heat_run(32))

    during, after = asyncio.run(watch_a_refit(campaign, WaitingRefitter))

    assert "preview" in [finding.code for finding in during.findings]
    assert "preview" not in [finding.code for finding in after.findings]
    with open_store(campaign) as store:
        assert store.unmodelled_runs() == []
        models = store.models().models
    assert "preview" not in {finding.code for model in models for finding in model.model.findings}


def test_several_new_runs_are_not_previewed(tmp_path):
    with heat_campaign(str(tmp_path / "test.insitu"), 1) as store:
        refitter = Refitter(store, str(tmp_path))
        refitter.finish(refitter.begin()())
        for p in (32, 64):
            record, table = heat_run(p)
            store.add_run(record, table)
            refitter.add_run(record.id)
        refitter.begin()

        assert refitter.preview()() is refitter.models
