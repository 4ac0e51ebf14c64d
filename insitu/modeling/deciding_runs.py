"""The runs that decide what the findings of models leave open."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import number, parse_assignment
from insitu.modeling.base import SeriesModel
from insitu.modeling.doubt import CHANGE_UNCONFIRMED, ONE_VALUE, next_value
from insitu.modeling.measurement import Experiment

OPEN_QUESTIONS = {
    CHANGE_UNCONFIRMED: "leaves the law of the smaller runs",
    ONE_VALUE: "alone shows growth",
}


@dataclass(frozen=True, slots=True)
class DecidingRun:
    """A run that decides whether a value was disturbed, or what begins there.

    coordinate: (n_parameters,), of the run to make: the questioned one again, or, where that tells
    nothing new, the next larger scale: it has been run twice, or counts are questioned, which are
    the same in every run of a scale. question: what is open about the run at `questioned`, without
    a subject. series: how many models ask for it.
    """

    coordinate: tuple[float, ...]
    questioned: float
    parameter: str
    question: str
    series: int

    @property
    def reason(self) -> str:
        """A clause for the user: `p=32 leaves the law of the smaller runs in time of step`."""
        return f"{self.parameter}={number(self.questioned)} {self.question}"


def find_deciding_runs(models: Sequence[SeriesModel], experiment: Experiment) -> list[DecidingRun]:
    """Return the runs that findings of models name, those of most series first.

    Models of times that ranks on shared cores waited in ask for nothing.

    Args:
        models: over one parameter; others ask for nothing. experiment: the runs so far.
    """
    asking: dict[tuple[float, str, bool], list[SeriesModel]] = defaultdict(list)
    for series in models:
        if series.crowding or len(series.model.parameters) != 1:
            continue
        for finding in series.model.findings:
            if finding.code in OPEN_QUESTIONS and finding.where:
                _, value = parse_assignment(finding.where)
                asking[value, finding.code, series.metric.is_deterministic].append(series)

    repetitions = Counter(key.coordinate(experiment.parameters) for key, _ in experiment.runs)
    runs = []
    for (value, code, is_exact), members in asking.items():
        (parameter,) = members[0].model.parameters
        x = np.unique(members[0].model.coordinates[:, 0])
        again = float(x[np.abs(x - value).argmin()])  # the text may round it
        is_settled = is_exact or repetitions[again,] > 1
        runs.append(
            DecidingRun(
                coordinate=(next_value(x, parameter) if is_settled else again,),
                questioned=again,
                parameter=parameter,
                question=_question(members, code),
                series=len(members),
            )
        )
    return sorted(runs, key=lambda run: (-run.series, run.coordinate))


def _question(members: Sequence[SeriesModel], code: str) -> str:
    first = members[0]
    named = f"{first.key.metric} of {first.key.callpath.name}"
    more = f" and {len(members) - 1} more" if len(members) > 1 else ""
    return f"{OPEN_QUESTIONS[code]} in {named}{more}"
