"""The loop's end: what it waits for, and what it does not."""

import asyncio
import time

from insitu.campaign.store import open_store
from insitu.server.keeper import Keeper
from insitu.server.loop import Aggregator
from insitu.server.refit import Refits
from insitu.server.sockets import bind
from tests.campaigns import heat_campaign


class SlowRefits(Refits):
    """Models that take a minute."""

    def begin(self):
        work = super().begin()
        return lambda: time.sleep(60) or work()


async def serve_and_stop(campaign, refits, *, is_signalled):
    said = []
    with Keeper(campaign, instance="i1", beat_s=0.05) as keeper, bind(campaign) as sockets:
        kept = refits(keeper.store, campaign)
        aggregator = Aggregator(keeper, kept, sockets, beat_s=0.05, say=said.append)
        stop = aggregator.ask_to_stop if is_signalled else aggregator.stop.set
        asyncio.get_running_loop().call_later(0.2, stop)
        await aggregator.run()
    return said


def test_a_signal_does_not_wait_for_models_that_take_long(tmp_path):
    campaign = str(tmp_path / "test.insitu")
    heat_campaign(campaign, 1).close()

    said = asyncio.run(serve_and_stop(campaign, SlowRefits, is_signalled=True))

    assert said == ["models are behind the runs; the next aggregator or insitu refit makes them"]
    with open_store(campaign) as store:
        assert store.unmodelled() != []


def test_who_ends_with_a_run_makes_its_models_first(tmp_path):
    campaign = str(tmp_path / "test.insitu")
    heat_campaign(campaign, 1).close()

    said = asyncio.run(serve_and_stop(campaign, Refits, is_signalled=False))

    assert said == []
    with open_store(campaign) as store:
        assert store.unmodelled() == []
        assert store.models().models
