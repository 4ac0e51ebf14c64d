"""Comparing two campaigns of a program, such as before and after a change."""

from insitu.analysis.comparison import ComparedCampaign, Comparison, compare_campaigns
from insitu.analysis.own_times import with_own_times
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.entities import RANKS
from insitu.errors import UsageError


def diff_campaigns(before: str, after: str) -> Comparison:
    """Compare two campaigns at the coordinates that both have.

    Args:
        before: directory of the campaign to compare with.
        after: directory of the campaign that is judged.

    Raises:
        CampaignError: a campaign cannot be read.
        UsageError: they have no coordinate in common.
    """
    campaigns = []
    for path in (before, after):
        with open_store(path) as store:
            timed = with_own_times(load_experiment(store), store.models())
            campaigns.append(ComparedCampaign(*timed))

    comparison = compare_campaigns(*campaigns)
    if comparison is None:
        listed = []
        for path, campaign in zip((before, after), campaigns, strict=True):
            experiment = campaign.experiment
            at = sorted({key.size for key, _ in experiment.runs})
            scales = ", ".join(map(str, at)) or "none"
            others = [name for name in experiment.parameters if name != RANKS]
            varied = f", varied {', '.join(others)}" if others else ""
            listed.append(f"{path} has p = {scales}{varied}")
        raise UsageError(f"no run at the same point in both: {'; '.join(listed)}")
    return comparison
