"""The runs that a campaign requests: how far each has come, and which one is next."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from insitu.analysis.predict import coordinate_of
from insitu.analysis.progress import Agenda, make_agenda
from insitu.campaign.attempts import read_attempts
from insitu.campaign.config import load_settings
from insitu.campaign.layout import CAMPAIGN_FILE
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.design.campaign_plan import CampaignPlan, parse_campaign_plan
from insitu.design.factorial import ExperimentDesign, Point
from insitu.design.measured_runs import collect_measured_runs
from insitu.design.proposals import Proposals, propose_runs
from insitu.design.schedule import Progress, choose_next_run, estimate_seconds
from insitu.entities import RANKS
from insitu.errors import UsageError
from insitu.launch.pilots import fill
from insitu.units import percent
from insitu.workflows.advise import load_callpath_dependencies
from insitu.workflows.progress import design_of, progress_in


@dataclass(frozen=True, slots=True)
class PlannedCampaign:
    """The runs that campaign.toml requests, for one number of ranks or for all.

    Attributes:
        path: absolute path of the campaign.
        study: what campaign.toml requests.
        design: its configurations; None if each run decides on the next one (design = "advise").
        ranks: consider only the configurations with this many ranks; None for all.
    """

    path: str
    study: CampaignPlan
    design: ExperimentDesign | None
    ranks: int | None = None

    def load_status(self) -> "CampaignStatus":
        """Return how far each configuration has come by the runs stored now.

        Raises:
            CampaignError: the campaign cannot be read.
            UsageError: campaign.toml or its file of dependencies makes no sense.
        """
        with open_store(self.path, create=True) as store:
            runs = store.runs()
        progress = progress_in(self.path, self.study, self.design, runs)
        insights = self.design.insights if self.design else ()

        is_undecided = self.design is None and not any(
            entry.remaining and not entry.failed for entry in progress
        )
        if is_undecided:
            proposals, has_expensive = self._propose(progress)
            points = [proposal.point for proposal in proposals.runs]
            progress = progress_in(self.path, self.study, None, runs, points)
            sentences = (
                proposals.describe_prediction(),
                self._describe_end(proposals, has_expensive=has_expensive),
            )
            insights = tuple(filter(None, sentences)) or insights

        selected = [entry for entry in progress if self.ranks in (None, int(entry.point[RANKS]))]
        return CampaignStatus(make_agenda(selected), insights, is_advised=is_undecided)

    def remaining_budget(self) -> float:
        """Return the core hours that may still be spent; every attempt counts."""
        spent_s = 0.0
        for attempt in read_attempts(self.path):
            spent_s += attempt.seconds * attempt.parameters.get(RANKS, 1)
        return self.study.budget_core_h - spent_s / 3600

    def _describe_end(self, proposals: Proposals, *, has_expensive: bool) -> str:
        """Why no further run is proposed although the goal is not reached; "" otherwise."""
        if proposals.runs or proposals.is_enough:
            return ""
        missed = f"the goal of {percent(self.study.goal)} is not reached:"
        if not has_expensive:
            left = "all runs that [levels] allow are made"
            return f"{missed} {left if proposals.is_exhausted else 'no run that is left helps'}"
        budget = self.study.budget_core_h
        return (
            f"{missed} each run that is left would exceed the budget of {budget:g} core hours, of"
            f" which {budget - self.remaining_budget():.2g} are spent"
        )

    def _propose(self, progress: Sequence[Progress]) -> tuple[Proposals, bool]:
        """Propose the run that improves the prediction most per core hour.

        Configurations that failed or exceed the budget are left out; return whether any of them
        does.
        """
        names = tuple(self.study.levels)
        failed = {entry.point for entry in progress if entry.failed}
        durations = {entry.point: [entry.seconds] for entry in progress if entry.done}
        budget = self.remaining_budget()
        expensive: set[Point] = set()

        def is_excluded(point: Point) -> bool:
            seconds = estimate_seconds(point, durations) if durations else 0.0
            if seconds * point[RANKS] / 3600 > budget:
                expensive.add(point)
            return point in failed or point in expensive

        with open_store(self.path) as store:
            runs = collect_measured_runs(load_experiment(store), names)
        file = self.study.dependencies
        if file:
            file = os.path.join(os.path.dirname(self.path), file)
        proposals = propose_runs(
            runs,
            coordinate_of(self.study.predict, names),
            self.study.levels,
            dependencies=load_callpath_dependencies(file, runs.callpaths),
            goal=self.study.goal,
            is_out=is_excluded,
        )
        return proposals, not expensive <= durations.keys()


@dataclass(frozen=True, slots=True)
class CampaignStatus:
    """How far a campaign has come.

    Attributes:
        agenda: its configurations.
        insights: why it is these configurations, or what is predicted so far, as sentences.
        is_advised: whether the last configuration was proposed from the runs made so far.
    """

    agenda: Agenda
    insights: tuple[str, ...]
    is_advised: bool

    def next_run(
        self, budget_core_h: float, is_retrying: bool, tried: Sequence[Point]
    ) -> Progress | None:
        """Return the configuration to run next; None if nothing is left within the budget."""
        return choose_next_run(
            self.agenda.lines,
            budget_core_h=budget_core_h,
            is_retrying=is_retrying,
            tried=tuple(tried),
        )


def plan_campaign(
    campaign: str, *, launcher: str | None = None, ranks: int | None = None
) -> PlannedCampaign:
    """Read which runs a campaign requests.

    Args:
        campaign: directory of the campaign, with a campaign.toml.
        launcher: use this launcher instead of the one in campaign.toml.
        ranks: consider only the configurations with this many ranks.

    Raises:
        CampaignError: campaign.toml or the file of dependencies cannot be read.
        UsageError: there is no campaign.toml, or it makes no sense.
    """
    path = os.path.abspath(campaign)
    file = os.path.join(campaign, CAMPAIGN_FILE)
    if not os.path.exists(file):
        if os.path.exists(os.path.join(f"{campaign}.insitu", CAMPAIGN_FILE)):
            raise UsageError(
                f"{campaign}: no {CAMPAIGN_FILE} here; did you mean {campaign}.insitu?"
            )
        raise UsageError(
            f"{campaign}: no {CAMPAIGN_FILE} here, which lists what to run;"
            " see `insitu campaign --help`"
        )

    study = parse_campaign_plan(load_settings(path), file)
    first_values = {name: values[0] for name, values in study.levels.items()}
    fill(study.command, first_values)  # raises if the command names an unknown parameter

    if launcher:
        study = replace(study, launcher=launcher)

    return PlannedCampaign(path, study, design_of(study, path), ranks)
