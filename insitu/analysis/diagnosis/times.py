"""Statements about times: what took them, which ranks differ, what grows.

Times of crowded runs contain waiting for a core, and are not judged.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import Baseline, at_text, sampled_work
from insitu.analysis.diagnosis.masters import find_masters
from insitu.analysis.diagnosis.measurements import (
    MeasuredRun,
    Measurements,
    RankSeries,
    is_mpi,
)
from insitu.analysis.diagnosis.statements import (
    FINE,
    LIMIT,
    UNCLEAR,
    WARNING,
    WARNING_FROM,
    Statement,
    list_names,
    order_statements,
)
from insitu.entities import (
    RANKS,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    is_start_up,
    number,
)
from insitu.modeling.base import ALL, Model, ModelSet, SeriesModel
from insitu.modeling.horizon import unclear_at
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.units import percent, quantity

CARRIED = 8.0  # times the largest scale: times are not predicted beyond
LEAST_SHARE = 0.01  # of the time, from which a call path is worth a line
LEAST_EXCESS = 0.05  # of the run time, that the slowest rank takes longer than the mean
LEAST_LOST = 0.2  # of the time, that ranks are on no core: then others may have slowed them
LEAST_SECONDS = 0.1  # less is noise of the operating system
LEAST_GROWTH = 1.2  # of the lower bound of a time, against its value now
SAME_IN_ALL = 0.5  # of the growth of a function, in all sampled functions, and on the slowest rank
CLEAR_GROWTH = 1.5  # from the smallest to the largest scale: worth a line although bounds are wide
LEVEL = 0.95
# Probability that larger runs have as many samples by chance; campaigns have many functions.
MOST_CHANCE = 1e-3
ALIKE = 1.02  # largest to smallest value of ranks that do as much as each other
WALL_SCALES = 2  # with the same largest count, from which it is known whether its share grows
MAX_RANGES = 4  # of ranks, that a text lists
PROFILE_LINES = 3


def exclusive_times(run: MeasuredRun, paths: Sequence[CallPath]) -> FloatArray:
    """The exclusive time of several call paths together on each rank, (p,)."""
    return run.sum_over(paths, TIME_EXCLUSIVE.name)


def make_profile(measurements: Measurements) -> list[Statement]:
    """The functions that took most of the time of the largest run, without start-up."""
    run = largest_run(measurements)
    if run is None or TIME_EXCLUSIVE.name not in run.table.values:
        return []

    costs = {}
    for owner, members in measurements.members.items():
        costs[owner] = float(exclusive_times(run, members).sum())

    total = sum(costs.values())
    if total <= 0:
        return []

    idle = [other for other in measurements.runs if not other.is_crowded]
    before = min(idle, key=lambda other: other.key.size, default=None)
    if before is not None and before.key.size == run.key.size:
        before = None

    lines = []
    for owner in sorted(costs, key=lambda path: -costs[path])[:PROFILE_LINES]:
        vector = exclusive_times(run, measurements.members[owner])
        share = costs[owner] / total
        if share < LEAST_SHARE:
            continue
        text = f"{percent(share)} of the time at {at_text(RANKS, run.key.size)}"
        if measurements.has_samples and owner.parent is None:
            text += " is in no sampled function, as when waiting for files or a processor"
        ratio = float(vector.max() / max(vector.mean(), 1e-300))
        if ratio > LEAST_GROWTH:
            text += f"; rank {int(np.argmax(vector))} takes {ratio:.1f} times the mean"
        if run.is_oversubscribed and measurements.is_sampled(owner) and not run.is_precise:
            text += " (ranks shared cores: may belong to what runs before or after it)"
        elif run.is_oversubscribed:
            text += " (ranks shared cores)"
        elif run.is_crowded:
            text += " (other processes used the cores)"
        elif before is not None:
            text += _since(measurements, before, owner, float(vector.mean()))
        lines.append(
            Statement(
                kind="profile",
                status=FINE,
                text=text,
                callpath=str(owner),
                where=measurements.where(owner),
                ranks="all",
                metric=TIME_EXCLUSIVE.name,
                unit="s",
                now=float(vector.mean()),
            )
        )

    return lines


def _since(measurements: Measurements, before: MeasuredRun, owner: CallPath, seconds: float) -> str:
    """How the time compares with a smaller run, where it took enough there for a ratio to say more.

    A function that has nothing to do on one rank takes microseconds there.
    """
    smaller = float(exclusive_times(before, measurements.members[owner]).mean())
    whole = sum(
        float(exclusive_times(before, members).mean()) for members in measurements.members.values()
    )
    at = at_text(RANKS, before.key.size)
    if smaller <= LEAST_SHARE * whole:
        return f"; less than {percent(LEAST_SHARE)} at {at}"
    return f"; {number(float(f'{seconds / smaller:.2g}'))} times as long as at {at}"


def largest_run(measurements: Measurements) -> MeasuredRun | None:
    """The largest run that was not crowded, else the largest run."""
    idle = [run for run in measurements.runs if not run.is_crowded]
    return max(idle or measurements.runs, key=lambda run: run.key.size, default=None)


def comparable_runs(measurements: Measurements, run: MeasuredRun) -> list[MeasuredRun]:
    """The run and its repetitions, without crowded ones unless the run itself was crowded."""
    group = next(group for group in measurements.groups if run in group)
    return [other for other in group if run.is_crowded or not other.is_crowded]


def find_imbalance(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """Functions whose slowest rank takes much longer than the mean, at the largest scale.

    Where ranks lacked cores, by other ranks or, each of them, by other programs, visits count.
    """
    run = largest_run(measurements)
    if run is None or run.key.size < 2 or baseline.seconds <= 0:
        return

    group = comparable_runs(measurements, run)
    lacks_cores = run.is_crowded or min(each.lost_shares.min() for each in group) > LEAST_LOST
    for owner, members in measurements.members.items():
        if measurements.has_samples and owner.parent is None:
            continue  # what samples do not explain, such as waiting for a core
        computing = [path for path in members if not is_mpi(path)]
        vectors = [exclusive_times(repetition, computing) for repetition in group]
        vector = np.median(vectors, axis=0)
        idle = find_masters(measurements, run, owner)
        if not lacks_cores and idle.any():
            vector = np.where(idle, vector[~idle].mean(), vector)
        excess = float(vector.max() - vector.mean())
        if lacks_cores:
            visits = [repetition.vector(owner, VISITS.name) for repetition in group]
            counted = np.median(visits, axis=0)
            price = float(vector.min() / max(counted.max(), 1.0))
            excess = price * float(counted.max() - counted.mean())
            vector = counted
        least = max(LEAST_EXCESS * baseline.seconds, LEAST_SECONDS)
        if excess < least or vector.mean() <= 0:
            continue
        if vector.max() < LEAST_GROWTH * vector.mean():
            continue
        if lacks_cores and _is_wall_effect(measurements.series([owner], VISITS.name)):
            continue
        yield imbalance_statement(
            measurements, owner, vector, excess, baseline, is_counted=lacks_cores
        )


def top_ranks(vector: FloatArray) -> IntArray:
    """The ranks with the largest value, or nearly as much."""
    return np.flatnonzero(vector * ALIKE >= vector.max())


def _is_wall_effect(visits: RankSeries) -> bool:
    """Whether the ranks that count most are those inside a domain, whose share grows.

    Ranks at the walls have fewer neighbours. Most ranks are inside on many ranks, so that this
    imbalance goes away.
    """
    last = visits.vectors[-1][0]
    shares = []
    for vector, *_ in visits.vectors:
        # Where the largest count is another one, ranks with as many neighbours do not exist yet.
        if vector.min() * ALIKE < vector.max() and np.isclose(vector.max(), last.max()):
            shares.append(len(top_ranks(vector)) / len(vector))
    return len(shares) >= WALL_SCALES and shares == sorted(shares) and shares[-1] > shares[0]


def imbalance_statement(
    measurements: Measurements,
    owner: CallPath,
    vector: FloatArray,
    excess: float,
    baseline: Baseline,
    *,
    is_counted: bool,
    who: str = "",
    note: str = "",
) -> Statement:
    """The statement that a function is uneven over ranks; it is not carried to the target.

    Args:
        measurements: all runs.
        owner: the function.
        vector: its visits or seconds at one scale, (p,).
        excess: seconds that the slowest rank takes longer than the mean.
        baseline: the budget at the largest scale.
        is_counted: whether `vector` has visits.
        who: the slowest rank; default: by its number, or all ranks that count most.
        note: what follows the sentence.
    """
    ratio = float(vector.max() / vector.mean())
    top = top_ranks(vector)
    is_several = is_counted and not who and len(top) > 1
    if not who:
        who = _list_ranks(top, len(vector)) if is_several else f"rank {int(np.argmax(vector))}"
    verb, much = ("visit" if is_several else "visits", "often")
    if not is_counted:
        verb, much = "is in", "long"
    name, at = short_name(owner.name), at_text(RANKS, len(vector))
    text = f"{who} {verb} {name} {ratio:.1f} times as {much} as the mean: load balance"
    text += f" {percent(1 / ratio)} at {at}, {quantity(excess, 's')}{note}"
    if is_counted and np.count_nonzero(vector) == 1:
        text = f"only {who} visits {name}: {quantity(excess, 's')} more than the mean at {at}{note}"
    return Statement(
        kind="imbalance",
        status=WARNING,
        text=text,
        callpath=str(owner),
        where=measurements.where(owner),
        ranks=who,
        metric=VISITS.name if is_counted else TIME_EXCLUSIVE.name,
        unit="1" if is_counted else "s",
        now=float(vector.max()),
        severity=min(excess / baseline.budget_s(baseline.p, is_once=False), 0.99),
        seconds=excess,
    )


def _list_ranks(ranks: IntArray, size: int) -> str:
    """`4 of 8 ranks (0 to 2, 7)`."""
    runs = np.split(ranks, np.flatnonzero(np.diff(ranks) > 1) + 1)
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    if len(texts) > MAX_RANGES:
        texts = [*texts[:MAX_RANGES], "…"]
    return f"{len(ranks)} of {size} ranks ({', '.join(texts)})"


def find_growing_times(
    measurements: Measurements, models: ModelSet, baseline: Baseline, target: float
) -> Iterator[Statement]:
    """Call paths whose modelled time grows certainly and uses up the budget, each once.

    If any run was crowded, only functions that were sampled are judged: models are
    made of all runs, and samples count processor time. Functions that poll wait, the longer
    the fewer cores there are. Other parameters have the values of `measurements.fixed`.
    """
    if len(measurements.p) < 3:
        return

    largest = float(measurements.p[-1])
    carried = min(target, CARRIED * largest)
    ranks = 1.0 if baseline.scaling == "strong" else measurements.p
    work = sampled_work(measurements) if measurements.has_late_samples else None
    found: dict[CallPath, list[Statement]] = {}
    for series in models.models:
        path = series.key.callpath
        is_judged = series.key.metric == TIME_EXCLUSIVE.name and not is_start_up(path)
        is_judged = is_judged and is_over_ranks(series.model, measurements)
        if measurements.has_crowded:
            is_work = measurements.is_sampled(path) and path not in measurements.polling
            is_judged = is_judged and is_work
        if is_judged:
            statement = _growing_time(measurements, series, baseline, largest, carried)
            has_shifted = work is not None and not _grows_in_all(measurements, path, work, ranks)
            if statement is not None and not has_shifted:
                found.setdefault(path, []).append(statement)

    for statements in found.values():
        # The classes of a call path and the mean over them have one cause.
        worst, *others = order_statements(statements)
        also = tuple(f"{other.ranks}: {other.text}" for other in others)
        yield replace(worst, also=(*worst.also, *also))


def _grows_in_all(
    measurements: Measurements, path: CallPath, work: FloatArray, ranks: FloatArray | float
) -> bool:
    """Whether the processor time of all sampled functions grows as that of one of them does.

    Otherwise late samples may be of another function; see `Measurements.has_late_samples`.

    Args:
        measurements: all runs.
        path: one of the sampled functions.
        work: the processor time of all of them in all ranks, (n_scales,).
        ranks: by which both are divided, (n_scales,); 1 where all ranks together do the same work.
    """
    own = measurements.series([path], TIME_EXCLUSIVE.name).statistic(np.sum)
    grown, in_all = ((sums / ranks)[-1] - (sums / ranks)[0] for sums in (own, work))
    return bool(in_all >= SAME_IN_ALL * grown)


def _growing_time(
    measurements: Measurements,
    series: SeriesModel,
    baseline: Baseline,
    largest: float,
    carried: float,
) -> Statement | None:
    model, path = series.model, series.key.callpath
    if baseline.scaling == "mixed" and not is_mpi(path):
        return None  # nothing is known about how much work there is
    points = [point_at(model, measurements, p) for p in (largest, carried)]
    now, then = (float(value) for value in model.predict(points))
    expected = now * (largest / carried if baseline.scaling == "strong" else 1.0)
    budget = baseline.budget_s(carried, is_once=False)
    severity = (then - expected) / budget
    if severity < WARNING_FROM:
        return None

    ((low, high),) = model.interval(points[1:], LEVEL).tolist()
    first, last = _measured_growth(series, measurements)
    sampled = [path]
    if first <= 0 and series.key.behaviour == ALL:
        sampled += _callers_with_samples(measurements, path)
        means = measurements.series(sampled, TIME_EXCLUSIVE.name).statistic(np.mean)
        first, last = float(means[0]), float(means[-1])
    has_grown = last >= CLEAR_GROWTH * first > 0
    is_strong = baseline.scaling == "strong"
    per_rank = 1.0 / measurements.p if is_strong else np.ones(len(measurements.p))
    is_chance = not has_more_samples(measurements, sampled, per_rank)
    is_unclear = low < LEAST_GROWTH * expected or bool(model.doubt) or is_chance
    # With the same work for all ranks together, a rank's time falls; growth is worth a line, too.
    if is_unclear and not has_grown:
        return None
    if len(sampled) > 1 and is_chance:
        return None
    if series.key.behaviour == ALL and not _grows_on_slowest(measurements, sampled, per_rank):
        return None

    owner = measurements.owners.get(path, path)
    is_certain = (low - expected) / budget >= 1
    what = f"time in {short_name(path.name)}" if is_mpi(path) else "time"
    what = "processor time" if measurements.has_crowded else what
    shrinks = " does not shrink as it should:" if baseline.scaling == "strong" else " grows:"
    bounds = f"{quantity(low, 's')} to {quantity(high, 's')} at {at_text(RANKS, carried)}"
    beyond = unclear_at(model, points[1], (low, high))
    if beyond:  # growth may be certain although its amount is not
        bounds = (
            beyond if is_unclear else f"at least {quantity(low, 's')} at {at_text(RANKS, carried)}"
        )
    text = f"{what}{shrinks} {quantity(now, 's')} at {at_text(RANKS, largest)}, {bounds}"
    if is_unclear:
        grown = f"{quantity(first, 's')} to {quantity(last, 's')}"
        scales = f"{at_text(RANKS, float(measurements.p[0]))} to {number(largest)}"
        others = [short_name(caller.name) for caller in sampled[1:]]
        whose = f", with that of {list_names(others)}," if others else ""
        text = f"{what}{whose} has grown from {grown} over {scales}; {bounds}"
    return Statement(
        kind="communication" if is_mpi(path) else "compute",
        status=UNCLEAR if is_unclear else LIMIT if is_certain else WARNING,
        text=text,
        callpath=str(owner),
        where=measurements.where(owner),
        ranks="all" if series.key.behaviour == ALL else series.key.behaviour,
        metric=TIME_EXCLUSIVE.name,
        unit="s",
        law=str(model) if model.segments[-1].function.terms else None,
        now=now,
        then=then,
        low=low,
        high=high,
        severity=severity,
        seconds=then - expected,
    )


def _callers_with_samples(measurements: Measurements, path: CallPath) -> list[CallPath]:
    """The callers that have the few samples of a short function in the smallest run: the next one,
    or, if those are still few, the one above."""
    callers: list[CallPath] = []
    at = path.parent
    while at is not None:
        if measurements.is_sampled(at):
            callers.append(at)
            if measurements.series([at], TIME_EXCLUSIVE.name).statistic(np.mean)[0] > 0:
                return callers
        at = at.parent
    return []


def _grows_on_slowest(
    measurements: Measurements, paths: Sequence[CallPath], per_rank: FloatArray
) -> bool:
    """Whether the slowest rank takes longer as well, at least half as much as the mean over ranks.

    If one rank gives out work, half of two ranks have none, and one twelfth of twelve: the mean
    grows. `per_rank`, (n_scales,), is what is expected of a rank, in any unit.
    """
    series = measurements.series(paths, TIME_EXCLUSIVE.name)
    slowest, mean = (series.statistic(of) / per_rank for of in (np.max, np.mean))
    if mean[0] <= 0 or slowest[0] <= 0:
        return True
    return bool(slowest[-1] / slowest[0] - 1 >= SAME_IN_ALL * (mean[-1] / mean[0] - 1))


def is_over_ranks(model: Model, measurements: Measurements) -> bool:
    """Whether a model is one of p, where its other parameters have the values of these runs."""
    others = set(model.parameters) - set(dict(measurements.fixed))
    return others == {RANKS}


def point_at(model: Model, measurements: Measurements, p: float) -> list[float]:
    """The coordinate of p ranks, in the order of the model's parameters."""
    values = {**dict(measurements.fixed), RANKS: p}
    return [values[name] for name in model.parameters]


def _measured_growth(series: SeriesModel, measurements: Measurements) -> tuple[float, float]:
    """The values of a series at the smallest and the largest p.

    Of the mean over ranks, all runs count: the points of a model begin where its last law does.
    """
    if series.key.behaviour != ALL:
        return float(series.model.values[0]), float(series.model.values[-1])
    means = measurements.series([series.key.callpath], TIME_EXCLUSIVE.name).statistic(np.mean)
    return float(means[0]), float(means[-1])


def has_more_samples(
    measurements: Measurements,
    paths: Sequence[CallPath],
    per_rank: FloatArray,
    hidden: FloatArray | float = 0.0,
) -> bool:
    """Whether the ranks of the larger runs have more samples of functions than expected.

    If they had as many, the larger half of the scales would have a binomial number of all samples.
    Few samples fit steep laws: the smaller runs may have none. True for what was not sampled.

    Args:
        measurements: all runs.
        paths: the functions.
        per_rank: what is expected of a rank at each scale, (n_scales,), in any unit.
        hidden: seconds of the functions at each scale that may be counted elsewhere, (n_scales,).
    """
    samples, expected = np.zeros((2, len(per_rank)))
    interval_s = max((run.sampling_s for run in measurements.runs), default=0.0)
    samples += hidden / interval_s if interval_s else 0.0
    for i, group in enumerate(measurements.groups):
        for run in group:
            if run.sampling_s:
                samples[i] += run.sum_over(paths, TIME_EXCLUSIVE.name).sum() / run.sampling_s
                expected[i] += per_rank[i] * run.size
    larger = len(expected) // 2
    if not all(map(measurements.is_sampled, paths)) or not expected[:larger].all():
        return True
    share = float(expected[larger:].sum() / expected.sum())
    total = float(samples.sum())
    of_larger = float(samples[larger:].sum()) / total if total else 0.0
    if of_larger <= share:
        return False
    # The Chernoff bound of the binomial distribution [Hoeffding 1963, theorem 1].
    excess = of_larger * math.log(of_larger / share)
    if of_larger < 1:
        excess += (1 - of_larger) * math.log((1 - of_larger) / (1 - share))
    return total * excess >= -math.log(MOST_CHANCE)
