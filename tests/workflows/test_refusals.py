"""Requests that a campaign cannot fulfil are refused with what to do instead."""

from dataclasses import replace

import pytest

import insitu.workflows
from insitu.campaign.store import open_store
from insitu.entities import RunState
from insitu.errors import CampaignError, UsageError
from insitu.workflows.diagnosis import diagnose
from insitu.workflows.omit import omit_runs
from tests.support.campaigns import heat_campaign, heat_run


def test_a_function_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'insitu\.workflows' has no attribute 'diagnos'"):
        insitu.workflows.diagnos  # noqa: B018


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scaling": "flat"}, "no scaling 'flat'; available: "),
        ({"at": "q=64"}, "--at q=64: no parameter 'q' that varies; available: p"),
        ({"at": "p=0"}, "--at p=0: values must be above 0"),
    ],
)
def test_a_diagnosis_for_what_cannot_be_is_refused(tmp_path, options, message):
    heat_campaign(str(tmp_path / "a.insitu"), 1, (2, 4, 8)).close()

    with pytest.raises(UsageError) as refusal:
        diagnose(str(tmp_path / "a.insitu"), **options)

    assert message in str(refusal.value)


def test_runs_that_ended_early_are_neither_diagnosed_nor_omitted(tmp_path):
    campaign = str(tmp_path / "a.insitu")
    with open_store(campaign, create=True) as store:
        record, table = heat_run(4)
        store.add_run(replace(record, state=RunState.INCOMPLETE), table)

    with pytest.raises(CampaignError, match="no complete run yet; 1 ended early: `insitu runs"):
        diagnose(campaign)
    with pytest.raises(UsageError, match="p=4#0 is not complete and therefore in no model anyway"):
        omit_runs(campaign, ["p=4#0"])
