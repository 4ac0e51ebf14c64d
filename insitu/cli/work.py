"""What a campaign still has to do: its configurations, how far each has come, which is next."""

import os
from collections.abc import Collection
from dataclasses import dataclass

from insitu.analysis.progress import Agenda, make_agenda
from insitu.campaign.attempts import read_attempts
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.cli.advise import dependencies_in
from insitu.cli.predict import coordinate
from insitu.design.campaign_plan import CampaignPlan
from insitu.design.factorial import ExperimentDesign, Point
from insitu.design.measured_runs import collect_measured_runs
from insitu.design.proposals import Proposals, propose_runs
from insitu.design.schedule import Progress, choose_next_run, estimate_seconds
from insitu.entities import RANKS
from insitu.units import percent, quantity
from insitu.workflows.progress import progress_in


@dataclass(frozen=True, slots=True)
class Work:
    """What there is to do: a study, for one number of ranks or for all.

    design: its configurations, None where runs decide on the next ones.
    """

    path: str
    study: CampaignPlan
    design: ExperimentDesign | None
    ranks: int | None = None

    def state(self) -> "State":
        """How far each configuration has come."""
        with open_store(self.path, create=True) as store:
            runs = store.runs()
        found = progress_in(self.path, self.study, self.design, runs)
        advice = None
        if self.design is None and not any(one.left and not one.failed for one in found):
            advice = self._advice(found)
            chosen = [one.point for one in advice.runs]
            found = progress_in(self.path, self.study, None, runs, chosen)
        here = [one for one in found if self.ranks in (None, int(one.point[RANKS]))]
        insights = self.design.insights if self.design else ()
        return State(make_agenda(here), _told(advice) if advice else insights, advice is not None)

    def budget_left(self) -> float:
        """Core hours that may still be spent; every attempt counts."""
        spent = (one.seconds * one.parameters.get(RANKS, 1) for one in read_attempts(self.path))
        return self.study.budget_core_h - sum(spent) / 3600

    def _advice(self, progress: list[Progress]) -> Proposals:
        """The run that tells most per core-hour, of those that did not fail and can be borne."""
        names = tuple(self.study.levels)
        failed = {one.point for one in progress if one.failed}
        taken = {one.point: [one.seconds] for one in progress if one.done}
        budget = self.budget_left()

        def is_out(point: Point) -> bool:
            seconds = estimate_seconds(point, taken) if taken else 0.0
            return point in failed or seconds * point[RANKS] / 3600 > budget

        with open_store(self.path) as store:
            experiment = load_experiment(store)
        file = self.study.dependencies
        known = collect_measured_runs(experiment, names)
        return propose_runs(
            known,
            coordinate(self.study.predict, names),
            self.study.levels,
            dependencies=dependencies_in(
                os.path.join(os.path.dirname(self.path), file) if file else None, known.callpaths
            ),
            goal=self.study.goal,
            is_out=is_out,
        )


@dataclass(frozen=True, slots=True)
class State:
    """How far a campaign has come, and why it is these configurations, one sentence each."""

    agenda: Agenda
    insights: tuple[str, ...]
    is_advised: bool

    def next(self, budget: float, is_retrying: bool, tried: Collection[Point]) -> Progress | None:
        """What to run next, see `choose_next_run`."""
        lines = self.agenda.lines
        return choose_next_run(
            lines, budget_core_h=budget, is_retrying=is_retrying, tried=tuple(tried)
        )


def _told(advice: Proposals) -> tuple[str, ...]:
    """What is known of what was asked; nothing while first runs are missing."""
    if not advice.uncertainty >= 0:
        return ()
    return (
        f"{quantity(advice.seconds, 's')} at {advice.target} by the runs so far, uncertain by"
        f" {percent(advice.uncertainty)}; the goal is {percent(advice.goal)}",
    )
