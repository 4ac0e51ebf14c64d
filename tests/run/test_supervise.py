"""The end of a run: what `insitu run` waits for and does itself."""

from insitu.campaign.store import open_store
from insitu.run.aggregator import AggregatorProcess
from insitu.run.options import parse
from insitu.run.supervise import finish_run
from tests.support.campaigns import heat_campaign, heat_run


def test_the_models_of_a_run_are_fitted_where_the_aggregator_ended_without_them(tmp_path):
    campaign = str(tmp_path / "heat.insitu")
    record, table = heat_run(8)
    with heat_campaign(campaign, 1, (1, 2, 4)) as store:
        store.add_run(record, table)
    options = parse(["-q", "--campaign", campaign, "heat"])

    aggregator = AggregatorProcess(campaign, record.id)
    stored, reason = finish_run(options, record.id, campaign, aggregator, code=0)

    assert stored is not None
    assert reason == ""
    with open_store(campaign) as store:
        assert record.id not in store.unmodelled_runs()
        assert store.models()
