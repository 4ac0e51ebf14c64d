"""What a limit may cost, and the scale at which it costs that much."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from insitu.analysis.diagnosis.machine import (
    BUDGET_SHARE,
    LEAST_BUDGET_S,
    ONCE_BUDGET_S,
    Machine,
    is_collective,
)
from insitu.analysis.diagnosis.measurements import (
    LAW_SCALES,
    MeasuredRun,
    Measurements,
    RankSeries,
    is_mpi,
)
from insitu.entities import (
    BYTES_ALLOCATED,
    DEVICE_TIME,
    RANKS,
    TIME,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    is_import,
    is_start_up,
)
from insitu.modeling.measurement import FloatArray
from insitu.modeling.target import default_target

FARTHEST = 1e12  # ranks; a budget that lasts beyond is not used up
WEAK_ABOVE, STRONG_BELOW = 0.8, 0.2  # slope of the work of all ranks over p, in log space
CLEAR_FALL = 1.5  # of run times from the smallest to the largest scale
FEWER_ITERATIONS = 1.5  # times as many on fewer ranks: the program does not stop by their number
LEAST_SAMPLED_S = 0.3  # about 30 samples of 97 per second: their number is right within a fifth
FEWEST_SAMPLED_S = 0.1  # about ten samples at all scales, fewer of which show no growth
LEAST_ODDS = 20.0  # that few samples grow with p rather than not at all
DEFAULT_PERIOD_S = 1 / 97  # between two samples, where it is unknown
LEAST_SHARED, CLEARLY_LESS = 4096.0, 0.8  # bytes by which shared data shrink; and to which share
LEAST_ARRAYS = 1e5  # bytes that a rank allocates at the smallest scale; less are buffers of files
SMALLER = 1.5  # times as many on the fewest ranks: their work does not only grow with p
# Of what a rank allocates, the part of 1 / p besides a constant one, and the error of this law.
LEAST_SHARED_PART, SHARED_ERROR = 0.1, 0.05
# What a rank allocates on the most ranks, of that on the fewest: at least 0.91 of it in 150 stored
# campaigns with weak scaling, at most 0.86 where data are shared besides constant buffers.
STEADY_SHARE = 0.88
LEAST_TEMPORARIES = 1e7  # the same, of programs that may allocate small objects for each message
LEAST_FUNCTIONS = 0.02  # of the time of the program, below which functions do not tell its work
HALVINGS = 60

Cost = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The run time against which costs are compared.

    Attributes:
        seconds: run time without start-up, of the largest run that was not crowded.
        p: its number of ranks.
        is_crowded: whether every run was crowded, so that this time is doubtful.
        scaling: "weak" or "strong"; without a statement of the user also "mixed", and "unknown".
    """

    seconds: float
    p: float
    is_crowded: bool
    scaling: str

    def at(self, p: float) -> float:
        """The run time at another scale if nothing grew."""
        return self.seconds * (self.p / p if self.scaling == "strong" else 1.0)

    def budget_s(self, p: float, *, is_once: bool) -> float:
        """Seconds that a limit may take; `is_once`: of a call path visited once per run."""
        least = ONCE_BUDGET_S if is_once else LEAST_BUDGET_S
        return max(BUDGET_SHARE * self.at(p), least)


def run_time(run: MeasuredRun) -> float:
    """The run time of the slowest rank in seconds, without start-up; 0 if it was not measured."""
    return max(float(run.rank_times.max(initial=0.0)), 0.0)


@dataclass(frozen=True, slots=True)
class StartUp:
    """Mean times of a rank in seconds. Imports do not contain the MPI_Init that they cause."""

    imports_s: float
    init_s: float
    finalize_s: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.imports_s + self.init_s + self.finalize_s


def start_up_time(run: MeasuredRun) -> StartUp:
    """The time in imports, in MPI_Init and in MPI_Finalize."""
    imports = np.zeros(run.key.size)
    init, finalize = imports.copy(), imports.copy()
    for path in run.rows:
        if not is_start_up(path):
            continue
        seconds = run.vector(path, TIME.name)
        is_top = path.parent is None or not is_start_up(path.parent)
        if path.name.endswith("MPI_Finalize"):
            finalize += seconds
        elif is_import(path.name):
            imports += seconds if is_top else 0.0
        elif is_mpi(path):
            init += seconds
            imports -= 0.0 if is_top else seconds

    means = (float(np.maximum(part, 0.0).mean()) for part in (imports, init, finalize))
    return StartUp(*means)


def make_baseline(measurements: Measurements, machine: Machine, scaling: str = "") -> Baseline:
    """Choose the run time that costs are compared with.

    Args:
        scaling: "weak" or "strong" if the user says so; "": as the measurements show.
    """
    idle = [run for run in measurements.runs if not run.is_crowded and run_time(run) > 0]
    timed = [run for run in measurements.runs if run_time(run) > 0]
    scaling = scaling or find_scaling(measurements)
    if not timed:
        seconds, p = _longest_time(measurements)
        return Baseline(machine.runtime_s or seconds, p, not seconds, scaling)

    p = max((run.key.size for run in idle), default=min(run.key.size for run in timed))
    chosen = [run for run in idle or timed if run.key.size == p]
    seconds = machine.runtime_s or float(np.median([run_time(run) for run in chosen]))
    return Baseline(seconds, float(p), not idle and machine.runtime_s is None, scaling)


def _longest_time(measurements: Measurements) -> tuple[float, float]:
    """The mean time of the longest call path in the largest run, and its number of ranks.

    The run takes at least as long; 0 s where times are missing or mean little.
    """
    if not measurements.groups or measurements.has_crowded:
        return 0.0, 1.0
    run = measurements.groups[-1][-1]
    times = [float(run.vector(path, TIME.name).mean()) for path in run.rows]
    return max(times, default=0.0), float(run.size)


def find_scaling(measurements: Measurements) -> str:
    """Whether the work of all ranks grows with p (weak scaling) or stays (strong scaling).

    The work is the visits of each function of the program, times its smallest time per visit at
    that scale: unlike sums of times, this is hardly disturbed by ranks that share cores. Work that
    all ranks repeat looks like weak scaling: where their arrays become smaller, both are open.
    """
    if len(measurements.p) < 2:
        return "unknown"
    if VISITS.name not in measurements.metrics:
        return _scaling_of_times(measurements)
    if _has_fewer_iterations(measurements):
        return "mixed"

    work = np.zeros(len(measurements.p))
    highest, steady = work.copy(), work.copy()  # with the largest time per visit; with one for all
    top = np.zeros(len(measurements.p))
    calls = measurements.file_calls | measurements.device_calls
    for path in measurements.callpaths:
        is_work = not is_start_up(path) and not is_mpi(path) and path not in calls
        if is_work and not measurements.is_sampled(path):
            visits = measurements.series([path], VISITS.name)
            prices = np.array([lowest_price(group, path) for group in measurements.groups])
            counts = visits.statistic(np.sum)
            if path.parent is None:
                top += counts * prices
            else:
                work += counts * prices
                steady += counts * prices.min()
                highest += counts * [_highest_price(group, path) for group in measurements.groups]

    sampled = sampled_work(measurements)
    least = LEAST_TEMPORARIES if sampled is None else LEAST_ARRAYS
    by_arrays = _scaling_of_arrays(measurements, least)
    is_counted = bool(np.all(steady > 0))
    if is_counted and measurements.has_crowded and _is_noise(work, steady, highest):
        by_time, by_visits = (
            _scaling_of(np.log(measurements.p), np.log(w)) for w in (work, steady)
        )
        if by_time != by_visits:
            return by_arrays if by_arrays != "unknown" else "mixed"

    if sampled is not None:
        work = work + sampled
        if by_arrays == "strong":
            return by_arrays  # work that does not shrink as the arrays do is repeated
        if np.any(work < LEAST_SAMPLED_S):
            return "weak" if by_arrays == "weak" and _has_grown(measurements, work) else "unknown"

    has_functions = bool(np.any(work >= LEAST_FUNCTIONS * top))
    if not has_functions and (by_arrays != "unknown" or measurements.has_crowded):
        return by_arrays  # on shared cores, the time of the program itself contains waiting

    # The program itself mostly starts up; only without functions below it is this its work.
    work = work if np.all(work > 0) else work + top
    if np.any(work <= 0):
        return "unknown"

    scaling = _scaling_of(np.log(measurements.p), np.log(work))
    is_open = measurements.has_crowded and sampled is None
    if is_open and scaling == "mixed" and by_arrays != "unknown":
        return by_arrays
    has_less = is_open and _has_less_data(measurements, least)
    if scaling == "weak" and (has_less or _have_smaller_arrays(measurements, least)):
        return "mixed"
    return scaling


def _has_grown(measurements: Measurements, work: FloatArray) -> bool:
    """Whether the work of all ranks seems to grow with p, by few samples.

    Programs of which hardly anything was sampled allocate mostly buffers of libraries, whose size
    is the same for any problem: whatever their ranks share tells more.
    """
    p = measurements.p
    least = work[0] * np.sqrt(p[-1] / p[0])
    is_sampled = work.sum() >= FEWEST_SAMPLED_S
    if not is_sampled or work[-1] < least or _has_shared_data(measurements):
        return False

    # Numbers of samples are Poisson: how much more likely they are with p than if all are alike.
    periods = [run.sampling_s for run in measurements.runs if run.sampling_s > 0]
    n_samples = work / max(periods, default=DEFAULT_PERIOD_S)
    return bool(n_samples @ np.log(p / p.mean()) >= np.log(LEAST_ODDS))


def _has_shared_data(measurements: Measurements) -> bool:
    """Whether a function allocates ever less on each rank the more ranks there are."""
    for path in measurements.callpaths:
        if path.parent is None or _is_foreign(path):
            continue
        allocated = measurements.series([path], BYTES_ALLOCATED.name)
        most, mean = allocated.statistic(np.max), allocated.statistic(np.mean)
        is_less = most[-1] <= min(CLEARLY_LESS * most[0], most[0] - LEAST_SHARED)
        if is_less and np.all(np.diff(most) <= 0) and np.all(np.diff(mean) <= 0):
            return True
    return False


def _is_noise(work: FloatArray, steady: FloatArray, highest: FloatArray) -> bool:
    """Whether times per visit differ more over the ranks of a run than over the scales.

    On a busy machine the least time of two ranks may be several times that of eight.
    """
    trend = float((work / steady)[-1] / (work / steady)[0])
    return max(trend, 1 / trend) <= float(np.max(highest / work))


def sampled_work(measurements: Measurements) -> FloatArray | None:
    """The processor time of sampled functions in all ranks, (n_scales,); None if none is sampled.

    The visits of such functions are unknown. Those that poll wait, too, and are left out.
    """
    paths = [
        path
        for path in measurements.callpaths
        if measurements.is_sampled(path)
        and not (is_start_up(path) or is_mpi(path) or path in measurements.polling)
    ]
    if not paths:
        return None
    return measurements.series(paths, TIME_EXCLUSIVE.name).statistic(np.sum)


def _scaling_of_times(measurements: Measurements) -> str:
    """Strong where run times fall clearly, which they never do if each rank has as much work."""
    times = [
        float(np.median([run_time(run) for run in group])) for group in measurements.groups if group
    ]
    is_known = min(times, default=0.0) > 0 and not measurements.has_crowded
    return "strong" if is_known and times[-1] * CLEAR_FALL <= times[0] else "unknown"


def _scaling_of_arrays(measurements: Measurements, least: float) -> str:
    """Weak or strong by the bytes that all ranks allocate, which are exact on shared cores as well.

    "unknown" if these are fewer than `least` on each rank, or if their growth is in between.
    """
    own = _own_bytes(measurements)
    if np.any(own <= 0) or own[0] < least:
        return "unknown"
    scaling = _scaling_of(np.log(measurements.p), np.log(own * measurements.p))
    is_shared = scaling == "weak" and (
        _has_less_data(measurements, least) or _have_shared_part(measurements, own)
    )
    return "unknown" if scaling == "mixed" or is_shared else scaling


def _has_less_data(measurements: Measurements, least: float) -> bool:
    """Whether a rank allocates less on the most ranks than where each has as much work as before.

    Neighbours add to that: on few ranks, only data that ranks share make it less.
    """
    own = _own_bytes(measurements)
    is_less = own[0] >= least and own[-1] < STEADY_SHARE * own[0]
    return bool(is_less and _has_busiest_less(measurements, own))


def _has_busiest_less(measurements: Measurements, own: FloatArray) -> bool:
    """Whether what a mean rank allocates less, the busiest one does, too, to a good part.

    Data of a single rank are also one p-th of them in the mean.
    """
    most = _own_series(measurements).statistic(np.max)
    return bool(most[0] - most[-1] >= (own[0] - own[-1]) / 2)


def _have_smaller_arrays(measurements: Measurements, least: float) -> bool:
    """Whether a rank allocates ever less, and more than `least` at the smallest scale."""
    own = _own_bytes(measurements)
    if own[0] < least or np.any(np.diff(own) >= 0):
        return False
    return bool(own[0] >= SMALLER * own[-1]) or _have_shared_part(measurements, own)


def _have_shared_part(measurements: Measurements, own: FloatArray) -> bool:
    """Whether what a rank allocates is a constant and, to a good part, one p-th of something.

    Args:
        own: the mean over ranks, (n_scales,).
    """
    if len(own) < LAW_SCALES or np.any(np.diff(own) >= 0):
        return False
    shares = 1 / measurements.p
    design = np.stack([np.ones_like(shares), shares], axis=1)
    constant, shared = np.linalg.lstsq(design, own, rcond=None)[0].tolist()
    residuals = own - (constant + shared * shares)
    fall = own[0] - own[-1]
    return bool(
        shared * shares[0] >= LEAST_SHARED_PART * own[0]
        and np.max(np.abs(residuals)) <= SHARED_ERROR * fall
        and _has_busiest_less(measurements, own)
    )


def _own_bytes(measurements: Measurements) -> FloatArray:
    """What a mean rank allocates, without MPI and imports, (n_scales,)."""
    return _own_series(measurements).statistic(np.mean)


def _own_series(measurements: Measurements) -> RankSeries:
    """What each rank allocates, without MPI and imports."""
    metric = BYTES_ALLOCATED.name
    program = [path for path in measurements.callpaths if path.parent is None]
    foreign = [
        path
        for path in measurements.callpaths
        if path.parent is not None and _is_foreign(path) and not _is_foreign(path.parent)
    ]
    groups = []
    for group in measurements.groups:
        vectors = [run.sum_over(program, metric) - run.sum_over(foreign, metric) for run in group]
        groups.append(tuple(vectors))
    return RankSeries(tuple(groups))


def _is_foreign(path: CallPath) -> bool:
    return is_mpi(path) or is_start_up(path)


def _has_fewer_iterations(measurements: Measurements) -> bool:
    """Whether the program makes far fewer iterations on more ranks.

    A program that stops after a given time, as HPCG does, or when it has converged, does an amount
    of work that says nothing about its scaling. The collective call with the most visits counts
    iterations: all ranks take part in it, whatever the number of ranks or of neighbours.
    """
    best: FloatArray = np.zeros(0)
    for path in measurements.callpaths:
        if is_mpi(path) and is_collective(path.name) and not is_start_up(path):
            visits = measurements.series([path], VISITS.name).statistic(np.mean)
            if np.all(visits > 0) and (not best.size or visits.sum() > best.sum()):
                best = visits
    if not best.size:
        return False
    return bool(np.any(np.maximum.accumulate(best) > FEWER_ITERATIONS * best))


def _scaling_of(log_p: FloatArray, log_work: FloatArray) -> str:
    """Weak or strong by the slope of the work, and "mixed" if its error leaves both open."""
    slope, constant = np.polyfit(log_p, log_work, 1).tolist()
    error = 0.0
    if len(log_p) > 2:
        residuals = log_work - (slope * log_p + constant)
        variance = float(residuals @ residuals) / (len(log_p) - 2)
        error = float(np.sqrt(variance / np.sum((log_p - log_p.mean()) ** 2)))

    if slope > WEAK_ABOVE and slope - 2 * error > STRONG_BELOW:
        return "weak"
    if slope < STRONG_BELOW and slope + 2 * error < WEAK_ABOVE:
        return "strong"
    return "mixed"


def least_work(measurements: Measurements, path: CallPath) -> FloatArray:
    """Seconds of a call path at each scale, mean over ranks, (n_scales,).

    Its visits times the least time of a visit, which hardly depends on how busy the cores are.
    """
    prices = np.array([lowest_price(group, path) for group in measurements.groups])
    work: FloatArray = measurements.series([path], VISITS.name).statistic(np.mean) * prices
    return work


def visit_price(measurements: Measurements, path: CallPath) -> float:
    """The smallest exclusive time per visit of a call path, in seconds, over all ranks and runs.

    The minimum survives crowded runs; a mean does not.
    """
    return lowest_price(measurements.runs, path)


def lowest_price(runs: Iterable[MeasuredRun], path: CallPath, *, per: str = VISITS.name) -> float:
    """The smallest exclusive time per visit, or another count, of a call path; 0 without any."""
    return min((float(prices.min()) for prices in _prices(runs, path, per)), default=0.0)


def _highest_price(runs: Iterable[MeasuredRun], path: CallPath) -> float:
    """The largest exclusive time per visit of a call path on any rank; 0 without any."""
    return max((float(prices.max()) for prices in _prices(runs, path, VISITS.name)), default=0.0)


def _prices(runs: Iterable[MeasuredRun], path: CallPath, per: str) -> Iterator[FloatArray]:
    """The exclusive time per count on the ranks that have some, of a GPU if it works; not empty."""
    for run in runs:
        row = run.rows.get(path)
        counts = run.table.values.get(per)
        for metric in (TIME_EXCLUSIVE.name, DEVICE_TIME.name):  # a call path has one of them
            times = run.table.values.get(metric)
            if row is None or times is None or counts is None:
                continue
            is_counted = (counts[row] > 0) & np.isfinite(times[row])
            if is_counted.any():
                yield times[row][is_counted] / counts[row][is_counted]


def breaking_point(cost: Cost, budget: Cost, start: float) -> float | None:
    """The least p from `start` at which the cost reaches the budget; None below FARTHEST.

    Args:
        cost, budget: functions of p; their ratio does not fall.
        start: the smallest measured number of ranks.
    """
    if cost(FARTHEST) < budget(FARTHEST):
        return None
    if cost(start) >= budget(start):
        return start

    low, high = np.log(start), np.log(FARTHEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if cost(np.exp(middle)) >= budget(np.exp(middle)):
            high = middle
        else:
            low = middle

    return float(np.ceil(np.exp(high) - 1e-6))


def target_of(measurements: Measurements, requested: Mapping[str, float]) -> float:
    """The number of ranks that the diagnosis looks ahead to; see `default_target`."""
    largest = float(measurements.p[-1]) if len(measurements.p) else 1.0
    return default_target((RANKS,), (largest,), requested)[0]


def at_text(name: str, value: float) -> str:
    """`p = 65,536`."""
    text = f"{value:,.0f}" if name == RANKS else f"{value:g}"
    return f"{name} = {text}"
