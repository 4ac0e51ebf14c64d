"""Run time, speed-up, scaling efficiency: measured, and as far as exact laws reach, predicted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.analysis.diagnosis.budget import (
    Baseline,
    Cost,
    StartUp,
    at_text,
    run_time,
    start_up_time,
)
from insitu.analysis.diagnosis.measurements import Measurements
from insitu.analysis.diagnosis.statements import FINE, Statement
from insitu.analysis.diagnosis.times import CARRIED, LEVEL
from insitu.entities import RANKS, SCALINGS
from insitu.modeling.measurement import FloatArray
from insitu.modeling.modelers import fit
from insitu.units import percent, quantity

FARTHEST_PAYING = 1e9  # ranks up to which the best number of ranks is searched
GRID_POINTS = 400
MODEL_SCALES = 4  # that a prediction of the run time needs
MOST_SPREAD = 10.0  # times the lower bound; a prediction with a larger upper bound says nothing


@dataclass(frozen=True, slots=True)
class ValueRange:
    """A value with bounds: the smallest and the largest of the repetitions."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """The three numbers."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class RunTotals:
    """The run as a whole.

    Attributes:
        p: the largest number of ranks that is judged.
        time: run time in seconds without start-up, at p.
        speedup, efficiency: of p against the smallest scale (text: scaling efficiency); None with
            one scale, where all runs were crowded, and where neither weak nor strong scaling is
            known.
        start_up: means of a rank at the largest scale.
        run_s: run time with start-up at that scale; 0 if it is not known.
        is_crowded: whether these times come from crowded runs.
        efficiency_then: efficiency at the target if nothing but the limits cost time; an upper
            bound.
        stops_paying_at: number of ranks beyond which a further rank costs more than it saves.
        predicted: what a model of the run time expects at the target, or where times end.
    """

    p: float
    time: ValueRange | None
    speedup: ValueRange | None
    efficiency: ValueRange | None
    start_up: StartUp
    run_s: float
    is_crowded: bool
    efficiency_then: float | None
    stops_paying_at: float | None
    predicted: "PredictedTotals | None" = None

    def to_dict(self) -> dict[str, object]:
        """The totals as JSON."""
        return {
            "p": self.p,
            "time": self.time.to_dict() if self.time else None,
            "speedup": self.speedup.to_dict() if self.speedup else None,
            "efficiency": self.efficiency.to_dict() if self.efficiency else None,
            "startup_s": self.start_up.seconds,
            "import_s": self.start_up.imports_s,
            "mpi_init_s": self.start_up.init_s,
            "mpi_finalize_s": self.start_up.finalize_s,
            "crowded": self.is_crowded,
            "efficiency_at_target_at_most": self.efficiency_then,
            "stops_paying_at": self.stops_paying_at,
            "predicted": self.predicted.to_dict() if self.predicted else None,
        }


@dataclass(frozen=True, slots=True)
class PredictedTotals:
    """Run time, speed-up, scaling efficiency at p ranks, with bounds that hold in 95 % of cases.

    The last two are None where neither weak nor strong scaling is known.
    """

    p: float
    time: ValueRange
    speedup: ValueRange | None
    efficiency: ValueRange | None

    def to_dict(self) -> dict[str, object]:
        """The values as JSON."""
        return {
            "p": self.p,
            "time": self.time.to_dict(),
            "speedup": self.speedup.to_dict() if self.speedup else None,
            "efficiency": self.efficiency.to_dict() if self.efficiency else None,
        }


def make_totals(
    measurements: Measurements, baseline: Baseline, costs: Sequence[Cost], target: float
) -> RunTotals:
    """Compute the totals of the runs that were not crowded, else of all runs.

    Args:
        measurements: the runs.
        baseline: the run time that costs are compared with.
        costs: seconds that each limit costs at p ranks.
        target: number of ranks to look ahead to.
    """
    times: dict[int, list[float]] = {}
    has_idle = any(not run.is_crowded for run in measurements.runs)
    for run in measurements.runs:
        seconds = run_time(run)
        if seconds > 0 and not (has_idle and run.is_crowded):
            times.setdefault(run.key.size, []).append(seconds)

    last = measurements.groups[-1] if measurements.groups else ()
    start_up = start_up_time(last[0]) if last else StartUp(0.0, 0.0, 0.0)
    seconds = float(np.median([run_time(run) for run in last])) if last else 0.0
    run_s = start_up.seconds + seconds if seconds > 0 else 0.0
    scales = sorted(times)
    if not scales:
        return RunTotals(0.0, None, None, None, start_up, run_s, baseline.is_crowded, None, None)

    smallest, largest = scales[0], scales[-1]
    before, now = _bounded(times[smallest]), _bounded(times[largest])
    speedup = efficiency = None
    if largest > smallest and has_idle:
        speedup, efficiency = _gain(before, now, largest / smallest, baseline.scaling)

    is_known = not baseline.is_crowded and baseline.seconds > 0
    then = None
    if is_known and costs:
        alone = baseline.at(target)
        then = alone / (alone + sum(cost(target) for cost in costs))

    return RunTotals(
        p=float(largest),
        time=now,
        speedup=speedup,
        efficiency=efficiency,
        start_up=start_up,
        run_s=run_s,
        is_crowded=not has_idle,
        efficiency_then=then,
        stops_paying_at=_stops_paying_at(baseline, costs) if is_known else None,
        predicted=_predict(times, target, baseline.scaling) if has_idle else None,
    )


def _gain(
    before: ValueRange, now: ValueRange, factor: float, scaling: str
) -> tuple[ValueRange, ValueRange] | tuple[None, None]:
    """Speed-up and scaling efficiency of `factor` times as many ranks, if the scaling is known."""
    if scaling not in SCALINGS:
        return None, None
    gain = 1.0 if scaling == "strong" else factor
    speedup = ValueRange(
        gain * before.value / now.value,
        gain * before.low / now.high,
        gain * before.high / now.low,
    )
    return speedup, ValueRange(speedup.value / factor, speedup.low / factor, speedup.high / factor)


def _predict(
    times: Mapping[int, Sequence[float]], target: float, scaling: str
) -> PredictedTotals | None:
    """Predict from run times at MODEL_SCALES scales or more; None if the bounds say nothing."""
    scales = sorted(times)
    if len(scales) < MODEL_SCALES or target <= scales[-1]:
        return None

    points = [[float(p)] for p in scales for _ in times[p]]
    values = [[seconds for p in scales for seconds in times[p]]]
    (model,) = fit(points, values)
    p = min(target, CARRIED * scales[-1])
    (value,) = model.predict([[p]]).tolist()
    ((low, high),) = model.interval([[p]], LEVEL).tolist()
    if not 0 < low <= value <= high < MOST_SPREAD * low:
        return None

    time = ValueRange(value, low, high)
    before = _bounded(list(times[scales[0]]))
    speedup, efficiency = _gain(before, time, p / scales[0], scaling)
    return PredictedTotals(p, time, speedup, efficiency)


def _bounded(values: list[float]) -> ValueRange:
    return ValueRange(float(np.median(values)), min(values), max(values))


def _stops_paying_at(baseline: Baseline, costs: Sequence[Cost]) -> float | None:
    """The number of ranks with the shortest run time; None if the time falls to the end."""
    if baseline.scaling != "strong" or not costs:
        return None
    grid = np.geomspace(max(baseline.p, 1.0), FARTHEST_PAYING, GRID_POINTS)
    times = [baseline.at(p) + sum(cost(p) for cost in costs) for p in grid.tolist()]
    best = int(np.argmin(times))
    return None if best == len(grid) - 1 else float(np.round(grid[best]))


def efficiency_text(totals: RunTotals) -> str:
    """`speed-up 3.2, scaling efficiency 80 % (78 % to 83 %) at p = 4`; empty if it is not known."""
    if totals.speedup is None or totals.efficiency is None:
        return ""
    efficiency = totals.efficiency
    # Without repetitions nothing is known about the spread: a range would claim certainty.
    spread = " (not repeated)"
    if efficiency.low < efficiency.high:
        low, high = percent(efficiency.low), percent(efficiency.high)
        spread = f" ({low} to {high})" if low != high else ""
    return (
        f"speed-up {totals.speedup.value:.3g}, scaling efficiency {percent(efficiency.value)}"
        f"{spread} at {at_text(RANKS, totals.p)}"
    )


def make_start_up(totals: RunTotals, p: FloatArray) -> Statement | None:
    """The start-up of the largest of the scales p, (n_scales,)."""
    start_up = totals.start_up
    if start_up.seconds <= 0:
        return None
    parts = (
        ("imports", start_up.imports_s),
        ("MPI_Init", start_up.init_s),
        ("MPI_Finalize", start_up.finalize_s),
    )
    listed = ", ".join(f"{name} {quantity(seconds, 's')}" for name, seconds in parts if seconds > 0)
    of_run = f" of {quantity(totals.run_s, 's')}" if totals.run_s > 0 else ""
    return Statement(
        kind="startup",
        status=FINE,
        text=f"{listed}{of_run} at {at_text(RANKS, float(p[-1]))}, apart from all other statements",
        ranks="all",
        metric="time",
        unit="s",
        now=start_up.seconds,
    )
