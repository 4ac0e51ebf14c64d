"""Comparing two campaigns of a program, such as before and after a change."""

from dataclasses import replace

from insitu.analysis.comparison import ComparedCampaign, Comparison, compare_campaigns
from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.analysis.own_times import with_own_times
from insitu.campaign.config import load_config
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.entities import RANKS
from insitu.errors import UsageError
from insitu.workflows.diagnosis import diagnose_store


def diff_campaigns(before: str, after: str) -> Comparison:
    """Compare two campaigns at the coordinates that both have.

    Args:
        before: directory of the campaign to compare with.
        after: directory of the campaign that is judged.

    Raises:
        CampaignError: a campaign cannot be read.
        UsageError: they have no coordinate, or no call path, in common.
    """
    campaigns: list[ComparedCampaign] = []
    diagnoses: list[Diagnosis] = []
    config = load_config(before)
    for path in (before, after):
        with open_store(path) as store:
            # Limits are those of one target and machine: of the campaign to compare with.
            target = diagnoses[0].target_values if diagnoses else None
            loaded = load_experiment(store), store.models()
            diagnosis = diagnose_store(
                store, at=target, machine=config.machine, scaling=config.scaling, loaded=loaded
            )
            diagnoses.append(diagnosis)
            campaigns.append(ComparedCampaign(*with_own_times(*loaded)))

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
    paths = [
        {callpath for _, table in campaign.experiment.runs for callpath in table.callpaths}
        for campaign in campaigns
    ]
    if paths[0].isdisjoint(paths[1]):
        programs = " and ".join(
            f"{path} measured {diagnosis.program}"
            for path, diagnosis in zip((before, after), diagnoses, strict=True)
        )
        raise UsageError(
            f"different programs: {programs}, and no call path is in both; measure both versions"
            " under one name"
        )
    notes = _compare_limits(*diagnoses)
    return replace(comparison, notes=(*notes, *comparison.notes))


def _compare_limits(before: Diagnosis, after: Diagnosis) -> list[str]:
    """A note for each limit that only one of two diagnoses of the same target has."""
    notes = []
    sides = ((before, after, "no longer a limit"), (after, before, "a new limit"))
    for diagnosis, other, what in sides:
        kept = {(limit.kind, limit.callpath) for limit in other.limits}
        for limit in diagnosis.limits:
            if (limit.kind, limit.callpath) not in kept:
                name = f"{limit.short_name}: " if limit.callpath else ""
                notes.append(f"{what}: {limit.kind} of {name}{limit.text}")
    return notes
