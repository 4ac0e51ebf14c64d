"""The efficiencies of a campaign, as defined by POP."""

from dataclasses import dataclass

from insitu.analysis.diagnosis.efficiency import SectionEfficiency
from insitu.analysis.predict import Point
from insitu.workflows.diagnosis import diagnose


@dataclass(frozen=True, slots=True)
class Efficiencies:
    """The efficiencies of a campaign.

    Attributes:
        sections: the whole run, its main loop and its phases; empty if times are not judged.
        scaling: "weak", "strong", "mixed" or "unknown".
        crowded, runs: how many runs had fewer free cores than ranks, of all complete ones.
    """

    sections: tuple[SectionEfficiency, ...]
    scaling: str
    crowded: int
    runs: int


def load_efficiencies(campaign: str, *, at: Point | None = None) -> Efficiencies:
    """Compute the efficiencies of a campaign at each scale, and predict them.

    Args:
        campaign: directory of the campaign.
        at: the point to predict, such as "p=4096"; default: as in `diagnose`. Predictions reach to
            8 times the largest measured scale.

    Raises:
        CampaignError: there is no campaign, it cannot be read, or it has no complete run.
        UsageError: an argument makes no sense.
    """
    diagnosis = diagnose(campaign, at=at)
    judged = [run for run in diagnosis.runs if run["state"] == "sealed"]
    crowded = sum(bool(run["crowded"]) for run in judged)
    return Efficiencies(diagnosis.efficiencies, diagnosis.scaling, crowded, len(judged))
