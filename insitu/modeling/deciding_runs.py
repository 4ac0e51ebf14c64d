"""The runs that decide what the findings of models leave open."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from insitu.entities import number, parse_assignment
from insitu.modeling.base import SeriesModel
from insitu.modeling.doubt import ONE_VALUE
from insitu.modeling.evidence.modeler import CHANGE_UNCONFIRMED
from insitu.modeling.measurement import Experiment

OPEN_QUESTIONS = {
    CHANGE_UNCONFIRMED: "leaves the law of the smaller runs",
    ONE_VALUE: "alone shows growth",
}


@dataclass(frozen=True, slots=True)
class DecidingRun:
    """A run that decides whether a value was disturbed, or what begins there.

    coordinate: (n_parameters,), of the run to make: the questioned one again, or, where it has been
    run twice, the next larger scale. question: what is open about the run at `questioned`, without
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
    asking: dict[tuple[float, str], list[SeriesModel]] = defaultdict(list)
    for series in models:
        if series.crowding or len(series.model.parameters) != 1:
            continue
        for finding in series.model.findings:
            if finding.code in OPEN_QUESTIONS and finding.where:
                _, value = parse_assignment(finding.where)
                asking[value, finding.code].append(series)

    repetitions = Counter(key.coordinate(experiment.parameters) for key, _ in experiment.runs)
    runs = []
    for (value, code), members in asking.items():
        x = sorted(set(members[0].model.coordinates[:, 0].tolist()))
        again = min(x, key=lambda at: abs(at - value))  # the text may round it
        is_repeated = repetitions[again,] > 1
        runs.append(
            DecidingRun(
                coordinate=(x[-1] ** 2 / x[-2] if is_repeated else again,),
                questioned=again,
                parameter=members[0].model.parameters[0],
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
