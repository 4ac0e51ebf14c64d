"""What grows faster than a parameter other than the number of ranks, where p hardly varies.

A problem of twice the size may take twice the time: growth in proportion to the parameter is
expected, and only faster growth is worth a line. Whether it is a fault depends on what the
parameter is; n may be the edge of a grid. So it is a warning, and memory alone is a limit, if the
user has named a target for the parameter. Where the parameter counts processors, as `nodes` in data
of other tools, any growth is worth a line.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import at_text, breaking_point, run_time, visit_price
from insitu.analysis.diagnosis.gather import measured_run
from insitu.analysis.diagnosis.growth import find_growth
from insitu.analysis.diagnosis.laws import ExactLaw, quantity_text
from insitu.analysis.diagnosis.limit import looping_caller
from insitu.analysis.diagnosis.machine import BUDGET_SHARE, LEAST_BUDGET_S, Machine
from insitu.analysis.diagnosis.measurements import LAW_SCALES, MeasuredRun, Measurements, is_mpi
from insitu.analysis.diagnosis.memory import memory_limits
from insitu.analysis.diagnosis.packages import Site
from insitu.analysis.diagnosis.statements import (
    FINE,
    LIMIT,
    NOT_JUDGED,
    UNCLEAR,
    WARNING,
    WARNING_FROM,
    Statement,
    list_names,
)
from insitu.analysis.diagnosis.times import (
    CARRIED,
    CLEAR_GROWTH,
    LEAST_GROWTH,
    LEVEL,
    has_more_samples,
)
from insitu.campaign.selection import are_imported
from insitu.entities import (
    BYTES_SENT,
    MESSAGES_SENT,
    RANKS,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    RunRecord,
    is_start_up,
    number,
)
from insitu.modeling.affordable_values import limit_to_affordable
from insitu.modeling.base import ALL, ModelSet, SeriesModel
from insitu.modeling.horizon import unclear_at
from insitu.modeling.measurement import Experiment
from insitu.modeling.target import default_target
from insitu.units import FARTHEST, quantity

NO_NOISE = 10.0  # times as much as expected: no disturbed run explains it
MAX_LAW = 40  # characters of a law in a sentence
PROCESSOR_COUNTS = frozenset(
    (
        *("nodes", "ranks", "processes", "procs", "nprocs", "np", "tasks"),
        *("cores", "threads", "workers", "sockets", "gpus"),
    )
)


@dataclass(frozen=True, slots=True)
class ParameterAxis:
    """The runs at one number of ranks, by the values of another parameter.

    Attributes:
        name: of the parameter.
        measurements: the runs; `p` there has the values of the parameter.
        fixed: values of the parameters of the experiment at the largest run.
        target: value of the parameter to look ahead to.
        is_target_named: whether the user named it.
        has_ranks: whether the number of ranks is known.
    """

    name: str
    measurements: Measurements
    fixed: Mapping[str, float]
    target: float
    is_target_named: bool
    has_ranks: bool

    @property
    def is_size(self) -> bool:
        """Whether more of it is more work, as far as its name says."""
        return self.name not in PROCESSOR_COUNTS

    @property
    def faster(self) -> str:
        """How what is worth a line grows: `faster than n`, `with nodes`."""
        return f"faster than {self.name}" if self.is_size else f"with {self.name}"

    def expected_value(self, now: float, factor: float) -> float:
        """What is expected of `factor` times as large a value, if it is `now` at this one."""
        return now * factor if self.is_size else now

    @property
    def largest(self) -> float:
        """The largest measured value."""
        return float(self.measurements.p[-1])

    @property
    def next_value(self) -> float:
        """A value to measure next: twice the largest, unless its run would take far too long."""
        seconds = np.array(
            [np.median([run_time(run) for run in group]) for group in self.measurements.groups]
        )
        return limit_to_affordable(self.measurements.p, seconds, 2 * self.largest)

    def text(self, value: float) -> str:
        """`n = 800`."""
        return at_text(self.name, value)

    def coordinate_text(self, value: float) -> str:
        """`p = 4, n = 800`: growth was measured where the others have these values."""
        names = sorted(self.fixed, key=lambda name: name != RANKS)
        return ", ".join([*(at_text(name, self.fixed[name]) for name in names), self.text(value)])


def find_axis(
    experiment: Experiment,
    records: Sequence[RunRecord],
    sites: Mapping[CallPath, Site],
    *,
    requested: Mapping[str, float],
) -> ParameterAxis | None:
    """The parameter with most values while all others, p too, stay the same; None below LAW_SCALES.

    One that the user named comes first, then one that counts processors. Of several numbers of
    ranks, the largest whose runs had enough cores is chosen.

    Args:
        experiment: the complete runs.
        records: all runs of the campaign.
        sites: where functions are defined.
        requested: values of parameters to look ahead to.
    """
    others = [name for name in experiment.parameters if name != RANKS]
    candidates: dict[tuple[str, int, tuple[float, ...]], set[float]] = {}
    crowded: dict[tuple[str, int, tuple[float, ...]], int] = {}
    shared = experiment.crowded_runs()
    for key, _ in experiment.runs:
        for name in others:
            if np.isnan(key.coordinate([name])[0]):
                continue  # a run that did not set it
            rest = key.coordinate([other for other in others if other != name])
            at = (name, key.size, rest)
            candidates.setdefault(at, set()).update(key.coordinate([name]))
            crowded[at] = crowded.get(at, 0) + (key in shared)

    usable = [at for at, of in candidates.items() if len(of) >= LAW_SCALES and min(of) > 0]
    if not usable:
        return None
    name, ranks, rest = max(
        usable,
        key=lambda at: (
            at[0] in requested,
            at[0] in PROCESSOR_COUNTS,
            at[2] == tuple(requested.get(other, np.nan) for other in others if other != at[0]),
            len(candidates[at]),
            -crowded[at],
            at[1:],
            -others.index(at[0]),
        ),
    )
    values = sorted(candidates[name, ranks, rest])

    # Data of other tools often lack the number of ranks, which is 1 then.
    has_ranks = not are_imported(records) or any(key.size > 1 for key, _ in experiment.runs)
    remaining = [other for other in others if other != name]
    groups: dict[float, list[MeasuredRun]] = {value: [] for value in values}
    for key, table in experiment.runs:
        is_measured = key.coordinate([name])[0] in groups
        if key.size == ranks and key.coordinate(remaining) == rest and is_measured:
            groups[key.coordinate([name])[0]].append(measured_run(experiment, key, table))

    return ParameterAxis(
        name=name,
        measurements=Measurements(
            p=np.array(values),
            groups=tuple(tuple(groups[value]) for value in values),
            sites=sites,
        ),
        fixed={
            **dict(zip(remaining, rest, strict=True)),
            **({RANKS: float(ranks)} if has_ranks else {}),
        },
        target=default_target((name,), (values[-1],), requested)[0],
        is_target_named=name in requested,
        has_ranks=has_ranks,
    )


def find_growth_over(
    axis: ParameterAxis | None, models: ModelSet, machine: Machine
) -> list[Statement]:
    """Statements about what grows with the parameter of an axis.

    Args:
        axis: the runs by a parameter; None: nothing is said.
        models: of times; may be empty.
        machine: how large the memory is.
    """
    if axis is None:
        return []
    statements = [*_memory(axis, machine), *_counts(axis, machine)]
    named = {(entry.kind, entry.callpath) for entry in statements}
    timed = list(_times(axis, models))
    statements += [entry for entry in timed if (entry.kind, entry.callpath) not in named]
    statements = _merge_unjudged(axis, statements)

    growing = {entry.callpath for entry in statements if entry.status != FINE}
    fine = [entry for entry in statements if entry.status == FINE]
    kept = [entry for entry in fine if entry.callpath not in growing]
    return [entry for entry in statements if entry.status != FINE] + kept


def find_growth_beside(
    axis: ParameterAxis | None, models: ModelSet, machine: Machine
) -> list[Statement]:
    """Statements about growth with a parameter, where growth with p is judged as well.

    The others keep their values at the target, unless the user names one. So without that, memory
    is not judged, and times only if some function takes no longer than in proportion: where all
    take longer, the parameter is an edge of a grid, and its square is the work.

    Args:
        axis, models, machine: see `find_growth_over`.
    """
    statements = find_growth_over(axis, models, machine)
    growing = [entry for entry in statements if entry.status != FINE]
    if axis is None or axis.is_target_named:
        return growing
    has_contrast = len(growing) < len(statements)
    return [
        entry
        for entry in growing
        if entry.status != NOT_JUDGED
        and entry.kind != "memory"
        and (has_contrast or entry.metric != TIME_EXCLUSIVE.name)
    ]


def _merge_unjudged(axis: ParameterAxis, statements: Sequence[Statement]) -> list[Statement]:
    """One statement in place of all about functions whose bounds are too wide, longest first."""
    named = {entry.callpath for entry in statements if entry.status not in (FINE, NOT_JUDGED)}
    unjudged = [
        entry for entry in statements if entry.status == NOT_JUDGED and entry.callpath not in named
    ]
    longest = sorted(unjudged, key=lambda entry: -(entry.now or 0.0))
    names = list_names([entry.short_name for entry in longest])
    their = "its time" if len(longest) == 1 else "their times"
    text = f"growth of {names} with {axis.name}: the bounds of {their} are too wide"
    merged = [Statement(kind="time", status=NOT_JUDGED, text=text)] if unjudged else []
    return [*(entry for entry in statements if entry.status != NOT_JUDGED), *merged]


def verdict_over(axis: ParameterAxis, statements: Sequence[Statement]) -> str:
    """What follows the program's name in the verdict: what grows, the most severe first."""
    if any(entry.status == LIMIT for entry in statements):
        return f" will not run at {axis.text(axis.target)} as it is"
    ranked = sorted(statements, key=lambda entry: -entry.severity)
    names = dict.fromkeys(entry.short_name for entry in ranked if entry.status == WARNING)
    if not names:
        is_open = any(entry.status in (UNCLEAR, NOT_JUDGED) for entry in statements)
        found = f"growth found {'that is ' * axis.is_size}{axis.faster}"
        return f": no {'certain ' * is_open}{found}"
    return f": {', '.join(names)} grow{'s' * (len(names) == 1)} {axis.faster}"


def _budget_s(axis: ParameterAxis, value: float) -> float:
    """A share of the run time at a value, if that grew as expected."""
    seconds = float(np.median([run_time(run) for run in axis.measurements.groups[-1]]))
    return max(BUDGET_SHARE * axis.expected_value(seconds, value / axis.largest), LEAST_BUDGET_S)


def _memory(axis: ParameterAxis, machine: Machine) -> Iterator[Statement]:
    """Heap of which an exact law says where a rank has no room for it."""
    target, room = axis.target, machine.memory_bytes
    for limit in memory_limits(axis.measurements, target):
        law = limit.growth.law
        if law is None or limit.condition or limit.cost(target) < WARNING_FROM * room:
            continue
        breaks_at = breaking_point(limit.cost, lambda _: room, float(axis.measurements.p[0]))
        is_full = limit.cost(target) >= room
        size, text = quantity_text(limit.cost(target), "B"), law.text("B", axis.name)
        until = f"; fits to {axis.text(np.floor(breaks_at - 1))}" if is_full and breaks_at else ""
        yield replace(
            _counted(axis, limit.path, law, limit.metric, "B"),
            kind="memory",
            status=LIMIT if is_full and axis.is_target_named else WARNING,
            text=f"each rank {limit.subject.format(text)}: {size} at {axis.coordinate_text(target)}"
            f" ({quantity_text(room, 'B')} there){until}",
            severity=limit.cost(target) / room,
        )


def _counts(axis: ParameterAxis, machine: Machine) -> Iterator[Statement]:
    """Visits, messages and bytes that follow an exact law which is steeper than the parameter."""
    measurements, target = axis.measurements, axis.target
    budget = _budget_s(axis, target)
    prices = {
        MESSAGES_SENT.name: ("messages", "1", machine.latency_s, "sends {} messages"),
        BYTES_SENT.name: ("bytes", "B", 1 / machine.bandwidth, "sends {}"),
    }
    found: dict[tuple[str, CallPath], Statement] = {}
    for path in measurements.callpaths:
        if is_start_up(path) or path in measurements.file_calls:
            continue
        if is_mpi(path):
            owner, quantities = measurements.owners[path], prices
        elif path.parent is not None:
            owner = looping_caller(measurements, path)
            subject = f"visits {short_name(path.name)} {{}} times"
            quantities = {VISITS.name: ("compute", "1", visit_price(measurements, path), subject)}
        else:
            continue
        for metric, (kind, unit, price, subject) in quantities.items():
            law = _steeper_law(axis, path, metric)
            seconds = price * (law.at(target) if law is not None else 0.0)
            known = found.get((kind, owner))
            if law is None or seconds < WARNING_FROM * budget:
                continue
            if known is not None and seconds <= (known.seconds or 0.0):
                continue
            amount = quantity_text(law.at(target), unit) + (" of them" if unit == "1" else "")
            found[kind, owner] = replace(
                _counted(axis, owner, law, metric, unit),
                kind=kind,
                text=f"each rank {subject.format(law.text(unit, axis.name))}: {amount},"
                f" {quantity(seconds, 's')} at {axis.coordinate_text(target)}",
                severity=seconds / budget,
                seconds=seconds,
            )

    yield from found.values()


def _steeper_law(axis: ParameterAxis, path: CallPath, metric: str) -> ExactLaw | None:
    """The exact law of the slowest rank, if it grows faster than the parameter."""
    measurements, target = axis.measurements, axis.target
    counts = measurements.visits_up_from(path)
    growth = find_growth(
        measurements.p,
        measurements.series([path], metric),
        target,
        counts=counts[1:] if metric == VISITS.name else counts,
    )
    law = growth.law
    if law is None or not growth.is_growing:
        return None
    expected = axis.expected_value(law.at(axis.largest), target / axis.largest)
    return law if law.at(target) > LEAST_GROWTH * expected else None


def _counted(
    axis: ParameterAxis, path: CallPath, law: ExactLaw, metric: str, unit: str
) -> Statement:
    """The numbers of a statement about an exact law."""
    return Statement(
        kind="",
        status=WARNING,
        text="",
        callpath=str(path),
        where=axis.measurements.where(path),
        ranks="all",
        metric=metric,
        unit=unit,
        law=law.text(unit, axis.name),
        exact=True,
        points=f"{law.points} of {law.of} points",
        now=law.at(axis.largest),
        then=law.at(axis.target),
        low=law.at(axis.target),
        high=law.at(axis.target),
    )


def _times(axis: ParameterAxis, models: ModelSet) -> Iterator[Statement]:
    """Call paths whose modelled time grows faster than the parameter, or certainly does not.

    Where runs were crowded, only processor time of sampled functions is judged.
    """
    if axis.name not in models.parameters:
        return
    measurements = axis.measurements.for_times
    for series in models.models:
        path = series.key.callpath
        is_judged = series.key.metric == TIME_EXCLUSIVE.name and not is_start_up(path)
        is_judged = is_judged and axis.name in series.model.parameters
        is_judged = is_judged and not measurements.is_around(path)
        is_judged = is_judged and (not measurements.has_crowded or measurements.is_sampled(path))
        if is_judged:
            statement = _growing_time(axis, series)
            if statement is not None:
                yield statement


def _growing_time(axis: ParameterAxis, series: SeriesModel) -> Statement | None:
    model, path = series.model, series.key.callpath
    means = axis.measurements.series([path], TIME_EXCLUSIVE.name).statistic(np.mean)
    visited = np.flatnonzero(means > 0)
    if not visited.size:
        return None
    smallest, largest = (float(axis.measurements.p[visited[i]]) for i in (0, -1))
    carried = min(axis.target, CARRIED * largest)
    known = {**axis.fixed, axis.name: largest}
    if not set(model.parameters) <= set(known):
        return None
    points = [
        [{**known, axis.name: value}[name] for name in model.parameters]
        for value in (largest, carried)
    ]

    now, then = (float(value) for value in model.predict(points))
    ((low, high),) = model.interval(points[1:], LEVEL).tolist()
    expected = axis.expected_value(now, carried / largest)
    budget = _budget_s(axis, carried)
    owner = axis.measurements.owners.get(path, path)
    what = "processor time" if axis.measurements.is_sampled(path) else "time"
    steady = f"grows no {axis.faster}" if axis.is_size else f"does not grow {axis.faster}"
    statement = Statement(
        kind="communication" if is_mpi(path) else "compute",
        status=FINE,
        text=f"{what} {steady}, up to {axis.text(carried)}",
        callpath=str(owner),
        where=axis.measurements.where(owner),
        ranks="all" if series.key.behaviour == ALL else series.key.behaviour,
        metric=TIME_EXCLUSIVE.name,
        unit="s",
        law=str(model),
        now=now,
        then=then,
        low=low,
        high=high,
        severity=(then - expected) / budget,
        seconds=then,
    )
    if (high - expected) / budget < WARNING_FROM or now <= 0:
        is_relevant = now > WARNING_FROM * _budget_s(axis, largest)
        return statement if is_relevant else None

    values = axis.measurements.p
    in_proportion = np.array([axis.expected_value(1.0, value / values[0]) for value in values])
    if not has_more_samples(axis.measurements, [path], in_proportion):
        return replace(statement, status=NOT_JUDGED)

    beyond = unclear_at(model, points[1], (low, high))
    law = f", as {model}" if len(str(model)) <= MAX_LAW else ""
    if low >= LEAST_GROWTH * expected and not model.doubt and statement.severity >= WARNING_FROM:
        text = f"{what} grows {axis.faster}{law}: {quantity(now, 's')} at"
        text += f" {axis.coordinate_text(largest)}"
        if not beyond:
            text += f", {quantity(low, 's')} to {quantity(high, 's')} at {axis.text(carried)}"
        elif low <= FARTHEST * now:  # a larger factor of an exponential function says nothing
            text += f", at least {quantity(low, 's')} at {axis.text(carried)}"
        return replace(statement, status=WARNING, text=text)

    if high <= CLEAR_GROWTH * expected:
        return statement
    over = f"over {axis.text(smallest)} to {number(largest)}"
    if then <= LEAST_GROWTH * expected:
        return replace(statement, text=f"no growth {axis.faster} seen {over}")

    first, last = (float(means[visited[i]]) for i in (0, -1))
    has_grown = axis.expected_value(last, smallest / largest) >= CLEAR_GROWTH * first
    if not has_grown or statement.severity < WARNING_FROM:
        return replace(statement, status=NOT_JUDGED)
    grown = f"{quantity(first, 's')} to {quantity(last, 's')}"
    is_certain = axis.expected_value(last, smallest / largest) >= NO_NOISE * first
    is_constant = not any(segment.function.terms for segment in model.segments)
    return replace(
        statement,
        law=None if is_constant else statement.law,
        status=WARNING if is_certain else UNCLEAR,
        text=f"{what} has grown from {grown} {over}",
    )
