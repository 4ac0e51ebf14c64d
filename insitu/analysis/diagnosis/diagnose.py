"""The diagnosis of a campaign: at most seven statements, ranked by consequence at the target."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from insitu.analysis.diagnosis.appearing_work import find_growing_work
from insitu.analysis.diagnosis.blocking import find_blocking
from insitu.analysis.diagnosis.blocking_in_turn import find_blocking_in_turn
from insitu.analysis.diagnosis.budget import Baseline, Cost, at_text, make_baseline, target_of
from insitu.analysis.diagnosis.chains_of_callers import merge_chains
from insitu.analysis.diagnosis.conditions import with_conditions
from insitu.analysis.diagnosis.devices import device_note
from insitu.analysis.diagnosis.efficiency import (
    SectionEfficiency,
    find_efficiencies,
    find_losses,
)
from insitu.analysis.diagnosis.followers import Followers, describe_followers, prepare_times
from insitu.analysis.diagnosis.gather import gather
from insitu.analysis.diagnosis.growing_share import find_growing_shares
from insitu.analysis.diagnosis.handles import find_leaked_handles
from insitu.analysis.diagnosis.independent_counts import count_over_ranks
from insitu.analysis.diagnosis.limit import Limit
from insitu.analysis.diagnosis.limits import find_limits
from insitu.analysis.diagnosis.machine import DEFAULT_MACHINE, Machine
from insitu.analysis.diagnosis.measurements import LAW_SCALES, Measurements, is_mpi
from insitu.analysis.diagnosis.next_run import find_deciding_run, find_next_run
from insitu.analysis.diagnosis.nodes import find_node_boundary, find_slow_nodes
from insitu.analysis.diagnosis.one_sided import find_unknown_targets
from insitu.analysis.diagnosis.over_parameter import (
    ParameterAxis,
    find_axis,
    find_growth_beside,
    find_growth_over,
    verdict_over,
)
from insitu.analysis.diagnosis.package_note import package_note
from insitu.analysis.diagnosis.packages import Site
from insitu.analysis.diagnosis.profiling_names import name_by_mpi
from insitu.analysis.diagnosis.retries import find_retries
from insitu.analysis.diagnosis.runs import (
    describe_failures,
    find_disturbed,
    find_failed_runs,
    find_throttled,
    unjudged_times,
)
from insitu.analysis.diagnosis.sample_ramps import find_uneven_parts
from insitu.analysis.diagnosis.scales import lacking_scales
from insitu.analysis.diagnosis.serialised_work import find_serialised_work
from insitu.analysis.diagnosis.shared_lines import merge_call_paths, merge_neighbours
from insitu.analysis.diagnosis.slow_groups import find_slow_groups
from insitu.analysis.diagnosis.slow_ranks import find_slow_ranks
from insitu.analysis.diagnosis.slow_samples import find_slow_samples
from insitu.analysis.diagnosis.statements import (
    FINE,
    LIMIT,
    NOT_JUDGED,
    UNCLEAR,
    WARNING,
    Statement,
    TargetScope,
    judge_limits,
    list_names,
    order_statements,
)
from insitu.analysis.diagnosis.steady import COUNTS_FINE, settle_fine
from insitu.analysis.diagnosis.suspects import find_suspects
from insitu.analysis.diagnosis.times import (
    LEAST_SHARE,
    exclusive_times,
    find_imbalance,
    make_profile,
)
from insitu.analysis.diagnosis.totals import RunTotals, make_start_up, make_totals
from insitu.analysis.diagnosis.uneven_work import find_uneven_work
from insitu.analysis.diagnosis.unshared_data import find_unshared
from insitu.analysis.diagnosis.verdict import describe_verdict, foreign_metrics
from insitu.analysis.diagnosis.waiting import find_waiting
from insitu.campaign.selection import are_imported, describe_stale_models, is_omitted
from insitu.entities import (
    ARROW,
    BYTES_SENT,
    HEAP_GROWTH,
    RANKS,
    TIME,
    TIME_EXCLUSIVE,
    CallPath,
    RunRecord,
    number,
)
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment

MAX_STATEMENTS = 7
MAX_FINE = 8  # functions that are listed as fine


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a campaign says about its target.

    Attributes:
        program: name of the measured program, or of the campaign.
        verdict: one sentence: whether the program will run at the target.
        target: number of ranks to look ahead to.
        scaling: "weak", "strong", "mixed" or "unknown"; `is_scaling_given`: by the user.
        fixed: values of other parameters, of which only these runs are judged.
        statements: all limits, warnings and doubts, ranked; the views show MAX_STATEMENTS.
        fine: functions without growth.
        not_judged: statements about what could not be judged, with the reason.
        next_run: the run that would help most, None if none would.
        efficiencies: of the whole run, of its main loop and of its phases.
        axis: the parameter over which growth is judged where p hardly varies; None: p.
    """

    program: str
    verdict: str
    target: float
    fixed: tuple[tuple[str, float], ...]
    machine: Machine
    scaling: str
    is_scaling_given: bool
    p: tuple[float, ...]
    runs: tuple[Mapping[str, object], ...]
    totals: RunTotals
    statements: tuple[Statement, ...] = ()
    fine: tuple[Statement, ...] = ()
    not_judged: tuple[Statement, ...] = ()
    profile: tuple[Statement, ...] = ()
    start_up: Statement | None = None
    next_run: str | None = None
    notes: tuple[str, ...] = field(default=())
    efficiencies: tuple[SectionEfficiency, ...] = ()
    axis: ParameterAxis | None = None

    @property
    def target_values(self) -> Mapping[str, float]:
        """The values of the parameters to look ahead to."""
        if self.axis is None:
            return {RANKS: self.target, **dict(self.fixed)}
        return {**self.axis.fixed, self.axis.name: self.axis.target}

    @property
    def limits(self) -> tuple[Statement, ...]:
        """The statements with the status "limit"."""
        return tuple(entry for entry in self.statements if entry.status == LIMIT)

    def all_statements(self) -> list[Statement]:
        """Every statement in the order in which it is printed."""
        end = [self.start_up] if self.start_up is not None else []
        return [*self.statements, *self.profile, *self.fine, *self.not_judged, *end]


def diagnose_experiment(
    experiment: Experiment,
    records: Sequence[RunRecord],
    models: ModelSet,
    *,
    program: str,
    target: Mapping[str, float] | None = None,
    machine: Machine = DEFAULT_MACHINE,
    scaling: str = "",
    sites: Mapping[CallPath, Site] | None = None,
) -> Diagnosis:
    """Diagnose the runs of a program.

    Args:
        experiment: the complete runs with their values.
        records: all runs of the campaign, incomplete ones too.
        models: of times; may be empty.
        program: its name, for texts.
        target: values of parameters to look ahead to; default: see `target_of`.
        machine, scaling: what is assumed; scaling is "weak" or "strong" if the user says so.
        sites: where functions are defined, by call path.
    """
    experiment, models, sites = name_by_mpi(experiment, models, sites or {})
    experiment, models, followed = prepare_times(experiment, models)
    measurements = gather(experiment, sites, target or {})
    counted = count_over_ranks(experiment, measurements)
    at = target_of(counted, target or {})
    timed = measurements.for_times
    baseline = make_baseline(timed, machine, scaling)
    has_laws = len(counted.p) >= LAW_SCALES
    other = find_axis(experiment, records, sites, requested=target or {})
    axis = None if has_laws else other
    limits = with_conditions(find_limits(counted, machine, at), counted, records, followed)
    judged = judge_limits(limits, TargetScope(counted, machine, baseline, at))
    judged += find_growing_work(timed, models, baseline, at)
    judged += find_waiting(timed, records, models.clusters)
    judged += find_unshared(measurements, machine, scaling, measured_scaling=baseline.scaling)
    judged += find_uneven_work(measurements, baseline, at)
    judged += _find_in_runs(measurements, records, baseline)
    judged += find_unknown_targets(measurements, machine, baseline, at)
    judged += [*find_growing_shares(timed, baseline), *find_leaked_handles(measurements, at)]
    for imbalances in _imbalances(timed, baseline, at):
        judged += _new_imbalances(imbalances, judged, limits)
    efficiencies = find_efficiencies(timed, records, scaling=baseline.scaling, target=at)
    over_axis = (find_growth_beside if has_laws else find_growth_over)(other, models, machine)
    judged += [*find_losses(efficiencies), *over_axis, *_suspects(measurements, limits)]
    throttled = find_throttled(measurements, records)
    boundary = list(find_node_boundary(measurements, records, at))
    ranked = merge_chains(order_statements(judged), limits, timed)
    unjudged = _unjudged(measurements, records, ranked, axis=axis, counted=counted)
    ruling = [entry for entry in ranked if entry.status in (LIMIT, WARNING, UNCLEAR)]
    totals = make_totals(timed, baseline, _costs_of(ruling, limits, at), at)
    fine = _fine_functions(timed, judged, limits, throttled)
    verdict = describe_verdict(program, ruling, timed, at, counted=counted.for_times)
    fine, unsettled = settle_fine(timed, fine, models, baseline, at)
    has_verdict_over = axis is not None or _has_only_limits_of(over_axis, ruling)
    if other is not None and has_verdict_over and not foreign_metrics(measurements):
        verdict = f"{program}{verdict_over(other, over_axis)}"
    return Diagnosis(
        program=program,
        verdict=describe_failures(program, records) or verdict,
        target=at,
        fixed=measurements.fixed,
        machine=machine,
        scaling=baseline.scaling,
        is_scaling_given=bool(scaling),
        p=tuple(counted.p.tolist()),
        runs=_run_rows(records, measurements, experiment),
        totals=totals,
        statements=tuple(ruling),
        fine=tuple(fine if axis is None else _longest_fine(over_axis)),
        not_judged=(*throttled.values(), *unsettled, *unjudged, *boundary),
        profile=tuple(_profile(timed, measurements, axis)),
        start_up=make_start_up(totals, measurements.p),
        next_run=find_deciding_run(models, experiment, measurements, target=at, ruling=ruling)
        or _next_run(measurements, ranked, boundary, axis),
        notes=(*_notes(models, measurements, records, followed), *_scope_notes(counted, other)),
        efficiencies=tuple(efficiencies),
        axis=axis,
    )


def _find_in_runs(
    measurements: Measurements, records: Sequence[RunRecord], baseline: Baseline
) -> Iterator[Statement]:
    """Statements about runs, about nodes, and about ranks that are blocked outside MPI calls."""
    yield from find_failed_runs(records)
    yield from find_disturbed(measurements)
    yield from find_slow_nodes(measurements, records)
    blocked = list(find_blocking(measurements, baseline))
    yield from blocked
    in_turn = list(find_blocking_in_turn(measurements, baseline))
    yield from in_turn
    yield from find_serialised_work(measurements, baseline, [entry.callpath for entry in in_turn])
    yield from find_retries(measurements, [entry.callpath for entry in blocked])


def _suspects(measurements: Measurements, limits: Sequence[Limit]) -> Iterator[Statement]:
    """Counts that may grow with p, and have no law."""
    judged = {str(limit.path) for limit in limits}
    yield from (entry for entry in find_suspects(measurements) if entry.callpath not in judged)


def _profile(
    timed: Measurements, measurements: Measurements, axis: ParameterAxis | None
) -> Iterable[Statement]:
    """What takes the time, where nothing tells how it grows."""
    has_laws = len(measurements.p) >= LAW_SCALES
    return () if has_laws or _lacks_ranks(axis) else make_profile(timed)


def _has_only_limits_of(beside: Sequence[Statement], statements: Sequence[Statement]) -> bool:
    """Whether growth with another parameter has a limit, and growth with p has none."""
    limits = [entry for entry in statements if entry.status == LIMIT]
    return bool(limits) and all(entry in beside for entry in limits)


def _imbalances(
    timed: Measurements, baseline: Baseline, target: float
) -> Iterator[Iterator[Statement]]:
    """Ranks that take longer than others, by each way to tell, the most certain first."""
    yield find_slow_groups(timed, baseline)
    yield find_slow_ranks(timed, baseline, target)
    yield find_slow_samples(timed, baseline)
    yield find_uneven_parts(timed, baseline)
    yield find_imbalance(timed, baseline)


def _new_imbalances(
    imbalances: Iterable[Statement], judged: Sequence[Statement], limits: Sequence[Limit]
) -> list[Statement]:
    """Imbalances of functions that no other statement is about, nor their caller on that rank.

    That the time of a function grows says nothing about its ranks.
    """
    certain = [
        entry
        for entry in judged
        if entry.status in (LIMIT, WARNING)
        and (entry.kind == "imbalance" or entry.metric != TIME_EXCLUSIVE.name)
    ]
    named = {entry.callpath for entry in certain}
    counted = {str(limit.detail) for limit in limits if str(limit.path) in named}
    new = []
    for entry in imbalances:
        is_below = any(
            entry.ranks == other.ranks
            and str(entry.callpath).startswith(f"{other.callpath}{ARROW}")
            for other in certain
        )
        if entry.callpath not in named | counted and not is_below:
            new.append(entry)
    return merge_call_paths(sorted(new, key=lambda entry: entry.seconds or 0.0, reverse=True))


def _costs_of(
    statements: Sequence[Statement], limits: Sequence[Limit], target: float
) -> list[Cost]:
    """The cost functions of the statements that cost time."""
    wanted = {(entry.callpath, entry.kind, entry.metric) for entry in statements}
    costs = []
    # A function may receive a few bytes by one operation and most by another: the worst first.
    for limit in sorted(limits, key=lambda limit: -limit.cost(target)):
        key = (str(limit.path), limit.kind, limit.metric)
        if limit.kind != "memory" and limit.is_exact and key in wanted:
            wanted.discard(key)
            costs.append(limit.cost)
    return costs


def _run_rows(
    records: Sequence[RunRecord], measurements: Measurements, experiment: Experiment
) -> tuple[Mapping[str, object], ...]:
    crowded = experiment.crowded_runs().union(
        run.key for run in measurements.runs if run.is_crowded
    )
    return tuple(
        {
            "params": dict(record.key.parameters),
            "repetition": record.key.repetition,
            "crowded": record.key in crowded,
            "state": record.state.value,
        }
        for record in records
        if not is_omitted(record)
    )


def _longest_fine(statements: Iterable[Statement]) -> list[Statement]:
    fine = [entry for entry in statements if entry.status == FINE]
    return sorted(fine, key=lambda entry: -(entry.now or 0.0))[:MAX_FINE]


def _fine_functions(
    measurements: Measurements,
    statements: Sequence[Statement],
    limits: Sequence[Limit],
    throttled: Iterable[CallPath],
) -> list[Statement]:
    """Functions that take time or send data, and that no statement is about.

    Where runs were crowded, their counts are all that was judged.
    """
    if len(measurements.p) < LAW_SCALES:
        return []

    named = {entry.callpath for entry in statements if entry.status != FINE}
    for limit in limits:
        named |= {str(path) for path in (limit.detail, *limit.includes)}
    for path in throttled:
        named |= {str(path), str(path.parent)}
    # A function with several callers is not called fine below one of them beside its limit.
    namesakes = {(entry.name, entry.where) for entry in statements if entry.status != FINE}
    run = measurements.groups[-1][-1]
    times = {}
    for owner, members in measurements.members.items():
        is_program = owner.parent is None and not measurements.has_regions
        is_named = str(owner) in named or (owner.name, measurements.where(owner)) in namesakes
        if not is_program and not is_named:
            times[owner] = float(exclusive_times(run, members).sum())

    total = sum(times.values())

    lines = []
    for owner in sorted(times, key=lambda path: -times[path]):
        members = measurements.members[owner]
        sent = measurements.series(
            [path for path in members if is_mpi(path)], BYTES_SENT.name
        ).statistic(np.max)
        is_relevant = sent[-1] > 0 or (total > 0 and times[owner] >= LEAST_SHARE * total)
        if is_relevant:
            lines.append(
                Statement(
                    kind="fine",
                    status=FINE,
                    text=COUNTS_FINE,
                    callpath=str(owner),
                    where=measurements.where(owner),
                    ranks="all",
                )
            )

    return lines[:MAX_FINE]


def _unjudged(
    measurements: Measurements,
    records: Sequence[RunRecord],
    ranked: Sequence[Statement],
    *,
    axis: ParameterAxis | None,
    counted: Measurements,
) -> list[Statement]:
    unjudged = merge_call_paths([entry for entry in ranked if entry.status == NOT_JUDGED])
    lines = merge_neighbours(unjudged)
    lines += unjudged_times(measurements)
    if foreign := foreign_metrics(measurements):
        text = f"{list_names(foreign)}: import times of call paths as the metric `time`, or as"
        text += (
            " `time_exclusive` without those of what they call, and numbers of calls as `visits`"
        )
        lines.append(Statement(kind="metric", status=NOT_JUDGED, text=text))
    if not _lacks_ranks(axis) and 0 < len(measurements.p) < LAW_SCALES:
        text, run = lacking_scales(measurements, counted)
        lines.append(Statement(kind="law", status=NOT_JUDGED, text=text, run=run))
    has_heap = HEAP_GROWTH.name in measurements.metrics or are_imported(records)
    if measurements.p.size and not has_heap:
        lines.append(
            Statement(
                kind="memory",
                status=NOT_JUDGED,
                text="memory: the heap was not measured",
                run="a run with --heap on",
            )
        )

    return lines


def _next_run(
    measurements: Measurements,
    ranked: Sequence[Statement],
    boundary: Sequence[Statement],
    axis: ParameterAxis | None,
) -> str | None:
    """The run that decides most: of the parameter that is judged, else of ranks."""
    if axis is not None and _lacks_ranks(axis):
        return axis.text(axis.next_value)
    return find_next_run(measurements, ranked, boundary)


def _lacks_ranks(axis: ParameterAxis | None) -> bool:
    """Whether the number of ranks is unknown, and another parameter takes its place."""
    return axis is not None and not axis.has_ranks


def _unit_notes(measurements: Measurements) -> list[str]:
    """That times of other tools have a unit, or a meaning, that nobody knows."""
    notes: dict[str, None] = {}
    for run in measurements.runs:
        path = run.longer_callee
        if path is not None and path.parent is not None:
            notes[
                f"{path.name} takes longer than its caller {path.parent.name}: times do not include"
                " those of called functions, so the run time is unknown; import them with"
                " `insitu import --exclusive`"
            ] = None
        for metric in run.table.metrics:
            if metric.name in (TIME.name, TIME_EXCLUSIVE.name) and metric.unit != TIME.unit:
                notes[f"the unit of {metric.name}, {metric.unit!r}, is not known: read as s"] = None
    return list(notes)


def _notes(
    models: ModelSet,
    measurements: Measurements,
    records: Sequence[RunRecord],
    followed: Followers,
) -> list[str]:
    found = (device_note(measurements), package_note(measurements))
    notes = describe_stale_models(models.findings)
    notes += [note for note in found if note is not None]
    notes += _unit_notes(measurements)
    if measurements.runs and not measurements.file_calls and not are_imported(records):
        notes.append("files: no call was measured; none was made, or the runs had --files off")
    return [*notes, *describe_followers(followed)]


def _scope_notes(measurements: Measurements, axis: ParameterAxis | None) -> Iterator[str]:
    """At which values of the other parameters growth with p is judged, and with that of an axis."""
    has_laws = len(measurements.p) >= LAW_SCALES
    if axis is not None and not has_laws:
        if axis.fixed:
            at = ", ".join(at_text(name, value) for name, value in axis.fixed.items())
            yield f"growth with {axis.name} is judged at {at}; all else at its largest value"
    elif measurements.fixed:
        values = ", ".join(f"{name} = {number(value)}" for name, value in measurements.fixed)
        note = f"growth with p is judged at {values}"
        if axis is not None:
            at = ", ".join(at_text(name, value) for name, value in axis.fixed.items())
            note += f", growth with {axis.name} at {at}"
        if axis is None or not axis.is_target_named:
            note += "; other values need a diagnosis with --at"
        yield note
