"""Efficiencies of a program as defined by POP: measured at each scale, and predicted.

With the useful time c of each rank, which is its time outside of MPI, and the run time T:

    load balance              mean(c) / max(c)
    communication efficiency  max(c) / T
    parallel efficiency       load balance * communication efficiency = mean(c) / T
    computation scaling       useful time of all ranks, against that of the smallest scale
    global efficiency         parallel efficiency * computation scaling

See https://co-design.pop-coe.eu/metrics. T begins after MPI_Init and ends before MPI_Finalize.
Communication efficiency is serialisation times transfer. Separating both needs the order of events;
totals bound the transfer only: ranks spend at least the time in collective calls that is not
waiting for others on transfers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.analysis.diagnosis.budget import at_text
from insitu.analysis.diagnosis.measurements import (
    MeasuredRun,
    Measurements,
    is_mpi,
)
from insitu.analysis.diagnosis.statements import WARNING, Statement
from insitu.analysis.diagnosis.times import CARRIED, LEVEL
from insitu.analysis.diagnosis.totals import MODEL_SCALES, ValueRange
from insitu.campaign.selection import are_imported
from insitu.entities import (
    ITERATION_TIME,
    RANKS,
    SCALINGS,
    TIME,
    TIME_EXCLUSIVE,
    TIME_MPI,
    TIME_WAITING,
    VISITS,
    CallPath,
    RunRecord,
    is_start_up,
)
from insitu.modeling.measurement import FloatArray
from insitu.modeling.modelers import fit
from insitu.units import percent

GLOBAL, PARALLEL = "global_efficiency", "parallel_efficiency"
LOAD_BALANCE, COMMUNICATION = "load_balance", "communication_efficiency"
TRANSFER, COMPUTATION = "transfer_at_most", "computation_scaling"
FACTORS = (GLOBAL, PARALLEL, LOAD_BALANCE, COMMUNICATION, TRANSFER, COMPUTATION)
MODELLED = (PARALLEL, LOAD_BALANCE, COMMUNICATION)

WHOLE_RUN, MAIN_LOOP = "(whole run)", "(main loop)"
PHASE = "(phase "
ACCEPTABLE = 0.8  # POP calls smaller efficiencies a problem
MOST_WIDTH = 0.3  # between the bounds of a predicted efficiency; a wider interval says little
MOST_RATIO = 4.0  # of the bounds of a predicted efficiency; the same of small ones
LEAST_SECTION_S = 1e-3  # seconds; an efficiency of less is one of single events


@dataclass(frozen=True, slots=True)
class RunSection:
    """A share of the run whose efficiency is measured.

    Attributes:
        name: WHOLE_RUN, MAIN_LOOP, or the name of a phase.
        path: the call path that contains the section; None for the whole run.
    """

    name: str
    path: CallPath | None = None


@dataclass(frozen=True, slots=True)
class SectionTimes:
    """Times of a section in one run, in seconds.

    Attributes:
        elapsed: (p,), of each rank.
        useful: (p,), outside of MPI.
        transfer: the least time that any rank spends in collective calls without waiting for
            others; None if waiting was not measured.
    """

    elapsed: FloatArray
    useful: FloatArray
    transfer: float | None = None


@dataclass(frozen=True, slots=True)
class ScaleEfficiency:
    """The efficiencies of a section at p ranks; a factor that is not known is missing."""

    p: int
    factors: Mapping[str, ValueRange]


@dataclass(frozen=True, slots=True)
class SectionEfficiency:
    """The efficiencies of a section at all scales with runs that were not crowded.

    Attributes:
        section: what they belong to.
        scales: by number of ranks, ascending.
        predicted: at more ranks, with bounds that hold in 95 % of all cases; None if there are too
            few scales. A factor whose bounds are too far apart is missing.
    """

    section: RunSection
    scales: tuple[ScaleEfficiency, ...]
    predicted: ScaleEfficiency | None = None

    def rows(self) -> Iterator[dict[str, object]]:
        """The efficiencies as rows of JSON, the prediction last."""
        for scale in self.scales:
            yield self._row(scale, is_predicted=False)
        if self.predicted is not None:
            yield self._row(self.predicted, is_predicted=True)

    def _row(self, scale: ScaleEfficiency, *, is_predicted: bool) -> dict[str, object]:
        row: dict[str, object] = {
            "section": self.section.name,
            "callpath": None if self.section.path is None else str(self.section.path),
            RANKS: scale.p,
            "predicted": is_predicted,
        }
        for name in FACTORS:
            values = scale.factors.get(name)
            row[name] = None if values is None else values.to_dict()
        return row


def find_efficiencies(
    measurements: Measurements, records: Sequence[RunRecord], *, scaling: str, target: float
) -> list[SectionEfficiency]:
    """The efficiencies of the whole run, of its main loop and of each phase.

    Crowded runs are left out: their times contain waiting for a core.

    Args:
        measurements: the runs.
        records: all runs of the campaign.
        scaling: "weak", "strong", "mixed" or "unknown"; computation scaling needs one of the first
            two.
        target: number of ranks to predict; at most CARRIED times the largest measured scale.
    """
    groups = []
    for group in measurements.groups:
        idle = [run for run in group if not run.is_crowded]
        if idle:
            groups.append(idle)
    if not groups or not any(map(is_mpi, groups[-1][0].rows)):
        return []  # as of other tools that recorded no MPI calls: what ranks wait for is unknown
    if are_imported(records) and measurements.has_equal_ranks:
        return []  # means over ranks

    efficiencies = []
    for section in find_sections(groups[-1][0]):
        efficiency = _efficiency_of(section, groups, scaling=scaling, target=target)
        if efficiency.scales:
            efficiencies.append(efficiency)
    return efficiencies


def find_sections(run: MeasuredRun) -> list[RunSection]:
    """The whole run, the function with the main loop, and the phases that the program names."""
    sections = [RunSection(WHOLE_RUN)]
    iterations = run.table.values.get(ITERATION_TIME.name)
    for path, row in run.rows.items():
        if path.name.startswith(PHASE):
            sections.append(RunSection(path.name, path))
            continue
        has_loop = iterations is not None and np.isfinite(iterations[row]).any()
        loop = path.parent if has_loop else None
        # The loop of the program itself is the whole run.
        if loop is not None and loop.parent is not None and run.vector(loop, VISITS.name).any():
            sections.insert(1, RunSection(MAIN_LOOP, loop))
    return sections


def section_times(run: MeasuredRun, section: RunSection) -> SectionTimes | None:
    """The times of a section in a run; None if they were not measured.

    MPI calls of further threads do not count: they overlap the time of the rank.
    """
    if TIME_EXCLUSIVE.name not in run.table.values:
        return None

    path = section.path
    if path is not None and path.name.startswith(PHASE):
        if TIME_MPI.name not in run.table.values:
            return None
        elapsed = run.vector(path, TIME.name)
        return _times(elapsed, elapsed - run.vector(path, TIME_MPI.name), None)

    calls = []
    for call in run.rows:
        is_inside = path is None or call.is_within(path)
        is_thread = call.frames[0].startswith("(")
        if is_mpi(call) and is_inside and not is_thread and not is_start_up(call):
            calls.append(call)

    elapsed = run.rank_times if path is None else run.vector(path, TIME.name)
    in_mpi = np.zeros(run.key.size)
    for call in calls:
        in_mpi += run.vector(call, TIME_EXCLUSIVE.name)
    return _times(elapsed, elapsed - in_mpi, _transfer_time(run, calls))


def _times(elapsed: FloatArray, useful: FloatArray, transfer: float | None) -> SectionTimes | None:
    useful = np.maximum(useful, 0.0)
    if elapsed.max(initial=0.0) < LEAST_SECTION_S or useful.max(initial=0.0) <= 0:
        return None
    return SectionTimes(elapsed, useful, transfer)


def _transfer_time(run: MeasuredRun, calls: Sequence[CallPath]) -> float | None:
    """The least time of any rank in calls whose waiting is known, without that waiting."""
    waiting = run.table.values.get(TIME_WAITING.name)
    if waiting is None:
        return None

    transfer = np.zeros(run.key.size)
    for call in calls:
        waited = waiting[run.rows[call]]
        own = run.vector(call, TIME_EXCLUSIVE.name) - np.nan_to_num(waited)
        transfer += np.where(np.isfinite(waited), np.maximum(own, 0.0), 0.0)
    return float(transfer.min())


def factors_of(times: SectionTimes) -> dict[str, float]:
    """The efficiencies of one run, without computation scaling."""
    elapsed, most = float(times.elapsed.max()), float(times.useful.max())
    mean = float(times.useful.mean())
    factors = {
        PARALLEL: mean / elapsed,
        LOAD_BALANCE: mean / most,
        COMMUNICATION: most / elapsed,
    }
    if times.transfer is not None:
        factors[TRANSFER] = 1.0 - min(times.transfer / elapsed, 1.0)
    return factors


def _efficiency_of(
    section: RunSection, groups: Sequence[Sequence[MeasuredRun]], *, scaling: str, target: float
) -> SectionEfficiency:
    scales: list[ScaleEfficiency] = []
    measured: list[tuple[int, dict[str, float]]] = []
    first: tuple[int, float] | None = None  # ranks and useful seconds of all of them
    for group in groups:
        times = []
        for run in group:
            entry = section_times(run, section)
            if entry is not None:
                times.append(entry)
        if not times:
            continue

        p = group[0].key.size
        rows = [factors_of(entry) for entry in times]
        measured += [(p, row) for row in rows]
        first = first or (p, float(np.median([entry.useful.sum() for entry in times])))
        for row, entry in zip(rows, times, strict=True):
            row.update(_scaling_factors(row, float(entry.useful.sum()), p, first, scaling))

        names = [name for name in FACTORS if all(name in row for row in rows)]
        ranges = {name: _bounded([row[name] for row in rows]) for name in names}
        scales.append(ScaleEfficiency(p, ranges))

    return SectionEfficiency(section, tuple(scales), _predict(measured, target))


def find_losses(efficiencies: Sequence[SectionEfficiency]) -> Iterator[Statement]:
    """Statements about efficiencies that fall below ACCEPTABLE on more ranks.

    A section is named where the same efficiency of the whole run does not fall.
    """
    falling_run: set[str] = set()
    for efficiency in efficiencies:
        now, then = efficiency.scales[-1], efficiency.predicted
        if then is None:
            continue
        for name in (LOAD_BALANCE, COMMUNICATION):
            if name not in then.factors or name in falling_run:
                continue
            value, before = then.factors[name], now.factors[name]
            if value.high >= min(ACCEPTABLE, before.low):
                continue
            if efficiency.section.name == WHOLE_RUN:
                falling_run.add(name)
            yield _loss(efficiency.section, name, (now.p, before), (then.p, value))


def _loss(
    section: RunSection, name: str, now: tuple[int, ValueRange], then: tuple[int, ValueRange]
) -> Statement:
    (p_now, before), (p_then, value) = now, then
    where = "" if section.name == WHOLE_RUN else f" of {section.name.strip('()')}"
    return Statement(
        kind="efficiency",
        status=WARNING,
        text=f"{name.replace('_', ' ')}{where} falls to {percent(value.value)}"
        f" ({percent(value.low)} to {percent(value.high)}) at {at_text(RANKS, p_then)}, from"
        f" {percent(before.value)} at {at_text(RANKS, p_now)}",
        callpath=None if section.path is None else str(section.path),
        ranks="all",
        metric=name,
        unit="1",
        now=before.value,
        then=value.value,
        low=value.low,
        high=value.high,
        severity=1.0 - value.value,
    )


def _scaling_factors(
    row: Mapping[str, float], useful_s: float, p: int, first: tuple[int, float], scaling: str
) -> dict[str, float]:
    """Computation scaling and global efficiency against the smallest scale."""
    if scaling not in SCALINGS:
        return {}
    smallest, before = first
    computation = before / useful_s * (p / smallest if scaling == "weak" else 1.0)
    return {COMPUTATION: computation, GLOBAL: row[PARALLEL] * computation}


def _bounded(values: Sequence[float]) -> ValueRange:
    return ValueRange(float(np.median(values)), min(values), max(values))


def _predict(
    measured: Sequence[tuple[int, Mapping[str, float]]], target: float
) -> ScaleEfficiency | None:
    """Predict from models of 1 + loss, where the loss is 1 / efficiency - 1.

    A serial program has no loss by definition, so p = 1 is not in the models. Losses add noise of
    their own, and a ratio of times has the relative noise that modelers expect.

    Where another rank becomes the slowest on the largest scales, losses turn up there as a steep
    power does. So the bounds contain that they go on in proportion to p.
    """
    parallel = [(p, row) for p, row in measured if p > 1]
    scales = sorted({p for p, _ in parallel})
    if len(scales) < MODEL_SCALES or target <= scales[-1]:
        return None

    p = min(target, CARRIED * scales[-1])
    points = [[float(ranks)] for ranks, _ in parallel]
    values = [[1 / max(row[name], 1e-9) for _, row in parallel] for name in MODELLED]
    predicted = {}
    for name, model in zip(MODELLED, fit(points, values), strict=True):
        (centre,) = model.predict([[p]]).tolist()
        ((low, high),) = model.interval([[p]], LEVEL).tolist()
        if not high >= low:
            continue  # the modeler does not know
        low = min(low, _go_on(parallel, name, p))
        # Losses are not negative.
        bounds = ValueRange(*(min(1 / max(value, 1.0), 1.0) for value in (centre, high, low)))
        is_close = bounds.high <= MOST_RATIO * bounds.low
        if is_close and bounds.high - bounds.low <= MOST_WIDTH:
            predicted[name] = bounds
    return ScaleEfficiency(int(p), predicted) if predicted else None


def _go_on(measured: Sequence[tuple[int, Mapping[str, float]]], name: str, p: float) -> float:
    """1 + loss at p ranks if it goes on along the line through the two largest scales."""
    before, last = sorted({ranks for ranks, _ in measured})[-2:]
    first, second = (
        float(np.median([1 / max(row[name], 1e-9) for ranks, row in measured if ranks == scale]))
        for scale in (before, last)
    )
    return second + max(second - first, 0.0) / (last - before) * (p - last)
