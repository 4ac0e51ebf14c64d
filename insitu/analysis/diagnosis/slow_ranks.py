"""One rank does more than the others at scale after scale.

It is the same rank, or its number follows from that of all ranks by a rule: the last one, the one
in the middle, or the one that owns the same point of a domain in blocks, such as a burning layer.
Visits are exact, also where ranks share cores. Times are not; but the probability that the slowest
ranks of all runs on 2, 3, 4, 6, 8 and 12 ranks agree by chance is 22 / 13,824, and it counts once
for each function that is uneven enough to be named. Where ranks share cores that is
no proof of more work: the scheduler may prefer others at every scale, as it does at the end of a
sweep, where a rank computes twice without waiting.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.budget import (
    Baseline,
    at_text,
    breaking_point,
    lowest_price,
    visit_price,
)
from insitu.analysis.diagnosis.growth import UNBALANCED
from insitu.analysis.diagnosis.laws import find_laws, laws_agree
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi
from insitu.analysis.diagnosis.ramps import LEAST_RANKS, find_ramp
from insitu.analysis.diagnosis.statements import LIMIT, UNCLEAR, Statement
from insitu.analysis.diagnosis.times import ALIKE, exclusive_times, imbalance_statement
from insitu.entities import RANKS, VISITS, CallPath, is_start_up
from insitu.modeling.measurement import FloatArray
from insitu.units import percent, quantity

LEAST_RATIO = 1.2  # of the largest rank to the mean
LEAST_SHARE = 0.05  # of the computing time of a rank, that the slowest rank takes longer
LEAST_SECONDS = 0.02  # likewise, unless its visits grow by a law: less is not worth a line
SAME_BY_CHANCE = 0.01  # probability, for all functions, above which being slowest is no evidence
LAW_SCALES = 5  # from which boundaries of grids do not imitate laws
COUNTED_SCALES = 3  # scales at which counts must have the same largest rank
LAST_RANK = "last rank"
# Ranks whose number follows from that of all ranks, besides those with a number of their own and
# those at a fixed share of all ranks.
RULES: tuple[tuple[str, Callable[[int], int]], ...] = (
    (LAST_RANK, lambda p: p - 1),
    ("rank {} (p / 2)", lambda p: p // 2),
    ("rank {} ((p - 1) / 2)", lambda p: (p - 1) // 2),
    ("rank {} (p - 2)", lambda p: p - 2),
)


def find_slow_ranks(
    measurements: Measurements, baseline: Baseline, target: float
) -> Iterator[Statement]:
    """Functions whose work is larger on one rank, which is the same by a rule at all scales."""
    groups = measurements.groups
    if len(groups) < COUNTED_SCALES or measurements.p[-1] < COUNTED_SCALES:
        return

    computing = {}
    for owner, members in measurements.members.items():
        if measurements.has_samples and owner.parent is None:
            continue  # what samples do not explain, such as waiting for a core
        computing[owner] = [path for path in members if not is_mpi(path)]
    work = []
    for group in groups:
        totals = [
            sum(exclusive_times(run, paths).mean() for paths in computing.values()) for run in group
        ]
        work.append(float(np.median(totals)))
    if work[-1] <= 0:
        return

    uneven = {}
    for owner, paths in computing.items():
        times = _medians([[exclusive_times(run, paths) for run in group] for group in groups])
        if _is_uneven(times, work):
            uneven[owner] = times
    work_of_ranks = _counted_work_of_ranks(measurements)
    work_s = float(work_of_ranks.mean())
    by_chance = len(uneven) * _same_by_chance(measurements.p)
    at_share_by_chance = len(uneven) * _same_by_chance(measurements.p, at_share=True)

    for owner, own in computing.items():
        visits = _medians([[run.vector(owner, VISITS.name) for run in group] for group in groups])
        counted = measurements.series([owner], VISITS.name)
        price = lowest_price(groups[-1], owner)
        if counted.is_repeatable(np.max) and _is_counted_alike(visits, measurements.p):
            more = float(visits[-1].max() - visits[-1].mean())
            least = LEAST_SHARE * work_s
            excess = price * more
            surplus = float(work_of_ranks[int(np.argmax(visits[-1]))] - work_s)
            if surplus < LEAST_SHARE * work_s:
                continue  # the rank has less to do elsewhere, as a master that gives out tasks
            if measurements.has_crowded and visit_price(measurements, owner) * more < least:
                continue  # what it took beyond that, the rank may have waited for a core
            if excess >= least:
                carried = _counted_imbalance(
                    measurements, owner, visits, baseline, price=price, target=target
                )
                if carried.exact or excess >= LEAST_SECONDS:
                    yield carried
                continue
        times = uneven.get(owner, [])
        slowest = name_slowest([vector for vector in times if len(vector) > 1]) if times else ""
        slowest = slowest if by_chance <= SAME_BY_CHANCE else ""
        if (
            times
            and at_share_by_chance <= SAME_BY_CHANCE
            and not _is_ramp(measurements, own, times)
        ):
            slowest = slowest or _name_at_share(times)
        excess = float(times[-1].max() - times[-1].mean()) if times else 0.0
        if slowest and excess >= LEAST_SECONDS:
            statement = imbalance_statement(
                measurements,
                owner,
                times[-1],
                excess,
                baseline,
                is_counted=False,
                who=slowest,
                note=f"; the slowest at all {len(times)} scales",
            )
            is_processor_time = all(measurements.is_sampled(path) for path in own)
            if measurements.has_crowded and not is_processor_time:
                statement = _doubt_on_shared_cores(statement, measurements.p[-1])
            yield statement


def _is_ramp(
    measurements: Measurements, paths: Sequence[CallPath], times: Sequence[FloatArray]
) -> bool:
    """Whether samples rise or fall from rank to rank: then most fall on a rank near an end."""
    interval_s = max(run.sampling_s for run in measurements.runs)
    if not interval_s or not all(map(measurements.is_sampled, paths)):
        return False
    several = [vector for vector in times if len(vector) >= LEAST_RANKS]
    return find_ramp([vector / interval_s for vector in several]) is not None


def _counted_imbalance(
    measurements: Measurements,
    owner: CallPath,
    visits: Sequence[FloatArray],
    baseline: Baseline,
    *,
    price: float,
    target: float,
) -> Statement:
    """The statement about the visits of a function, (p,) at each scale, at a price of each."""
    statement = imbalance_statement(
        measurements,
        owner,
        visits[-1],
        price * float(visits[-1].max() - visits[-1].mean()),
        baseline,
        is_counted=True,
        who=name_slowest(visits[-COUNTED_SCALES:])
        or _name_at_share(visits)
        or _list_slowest(visits),
    )
    return _carry_ahead(statement, visits, measurements.p, baseline, price=price, target=target)


def _carry_ahead(
    statement: Statement,
    visits: Sequence[FloatArray],
    p: FloatArray,
    baseline: Baseline,
    *,
    price: float,
    target: float,
) -> Statement:
    """The imbalance at the target, if the visits of the slowest rank grow by an exact law.

    All other ranks must visit the function equally often, and by an exact law as well: then the
    mean over ranks follows from both, though it has no law of its own.

    Args:
        statement: the imbalance at the largest scale.
        visits: of all ranks at each scale, (p,).
        p: (n_scales,), ascending.
        baseline: the budget of time.
        price: seconds of a visit.
        target: number of ranks to look ahead to.
    """
    several = [vector for vector in visits if len(vector) > 1]
    others = [np.delete(vector, int(np.argmax(vector))) for vector in several]
    if len(several) < LAW_SCALES or any(np.ptp(vector) > 0 for vector in others):
        return statement

    scales = p[p > 1]
    laws = find_laws(scales, np.array([vector.max() for vector in several]))
    laws_of_others = find_laws(scales, np.array([vector[0] for vector in others]))
    if not laws or not laws_of_others:
        return statement
    if not (laws_agree(laws, target) and laws_agree(laws_of_others, target)):
        return statement

    law, law_of_others = laws[0], laws_of_others[0]

    def cost(ranks: float) -> float:
        return price * max(law.at(ranks) - law_of_others.at(ranks), 0.0) * (1 - 1 / ranks)

    largest = float(p[-1])
    # An excess that does not grow is best reported as it was measured.
    if cost(target) <= UNBALANCED * cost(largest):
        return statement

    most, seconds = law.at(target), cost(target)
    mean = (most + law_of_others.at(target) * (target - 1)) / target
    severity = seconds / baseline.budget_s(target, is_once=False)
    return replace(
        statement,
        status=LIMIT if severity >= 1 else statement.status,
        text=f"{statement.ranks} visits {statement.short_name} {law.text('1')} times,"
        f" each other rank {law_of_others.text('1')} times: load balance {percent(mean / most)} at"
        f" {at_text(RANKS, target)} (now {percent(visits[-1].mean() / visits[-1].max())}),"
        f" {quantity(seconds, 's')}",
        law=law.text("1"),
        exact=True,
        points=f"{law.points} of {law.of} points",
        breaks_at=breaking_point(
            cost, lambda ranks: baseline.budget_s(ranks, is_once=False), float(scales[0])
        ),
        then=most,
        low=most,
        high=most,
        severity=severity if severity >= 1 else max(min(severity, 0.99), statement.severity),
        seconds=seconds,
    )


def _doubt_on_shared_cores(statement: Statement, p: float) -> Statement:
    """The same rank may also lose its core at every scale, such as one that never waits."""
    return replace(
        statement,
        status=UNCLEAR,
        text=f"{statement.text}, or the one that waits longest for a core",
        run=f"{at_text(RANKS, p)} on as many cores",
    )


def _medians(groups: Sequence[Sequence[FloatArray]]) -> list[FloatArray]:
    """For each scale the median over repetitions, (p,)."""
    return [
        np.median(np.array(vectors), axis=0) if len(vectors) > 1 else vectors[0]
        for vectors in groups
    ]


def counted_work(measurements: Measurements) -> float:
    """The computing time of a mean rank at the largest scale by the least time of each visit."""
    return float(_counted_work_of_ranks(measurements).mean())


def _counted_work_of_ranks(measurements: Measurements) -> FloatArray:
    """Of each rank, (p,); see `counted_work`."""
    group = measurements.groups[-1]
    seconds = np.zeros(group[0].key.size)
    for path in measurements.callpaths:
        if path.parent is not None and not is_mpi(path) and not is_start_up(path):
            visits = np.median([run.vector(path, VISITS.name) for run in group], axis=0)
            seconds += visits * lowest_price(group, path)
    return seconds


def _is_counted_alike(visits: Sequence[FloatArray], p: FloatArray) -> bool:
    """Whether one rank counts most at the largest scales, by more than a fifth at the largest.

    Unless it has the same number, is the last one, or owns the same point of a domain at all
    scales, the other ranks must count alike: where ranks share work as they have time, any may
    have done most.

    Args:
        visits: of all ranks at each scale, (p,).
        p: (n_scales,), ascending.
    """
    largest = visits[-1]
    if largest.mean() <= 0 or largest.max() < LEAST_RATIO * largest.mean():
        return False

    scales = visits[-COUNTED_SCALES:]
    are_alike = True
    for vector in scales:
        top = int(np.argmax(vector))
        others = np.delete(vector, top)
        if others.size and others.max() >= vector[top]:
            return False
        are_alike &= bool(others.size and others.max() <= ALIKE * others.min())
    if are_alike or name_slowest(scales) in (LAST_RANK, f"rank {int(np.argmax(largest))}"):
        return True
    owns_point = bool(_name_at_share(visits))
    return owns_point and _same_by_chance(p, at_share=True) <= SAME_BY_CHANCE


def _same_by_chance(p: FloatArray, *, at_share: bool = False) -> float:
    """The probability that the slowest ranks of all scales have the same name by chance.

    Args:
        p: (n,), numbers of ranks; a rank is at all scales if the smallest run has it.
        at_share: whether names of ranks at a share of all ranks count, too. There are as many as
            shares at which a rank begins.
    """
    several = p[p > 1]
    names = several.min() + len(RULES)
    if at_share:
        begins = [np.arange(ranks) / ranks for ranks in several]
        names += len(np.unique(np.concatenate(begins)))
    return float(names / np.prod(several))


def _is_uneven(times: Sequence[FloatArray], work: Sequence[float]) -> bool:
    """Whether at all scales one rank takes longer by far than the mean, and that matters."""
    for vector, seconds in zip(times, work, strict=True):
        highest, mean = vector.max(), vector.mean()
        excess = float(highest - mean)
        is_large = highest >= LEAST_RATIO * mean and excess >= LEAST_SHARE * seconds
        if len(vector) > 1 and not is_large:
            return False
    return True


def name_slowest(vectors: Sequence[FloatArray]) -> str:
    """The slowest rank of all scales, (p,) each, by its number or its rule; "" if they differ."""
    slowest = [int(np.argmax(vector)) for vector in vectors]
    if len(set(slowest)) == 1:
        return f"rank {slowest[-1]}"
    for name, rule in RULES:
        if slowest == [rule(len(vector)) for vector in vectors]:
            return name.format(slowest[-1])
    return ""


def _name_at_share(vectors: Sequence[FloatArray]) -> str:
    """`rank 8 (the one at 67 % of the ranks)`, if that is the slowest at all scales; else "".

    Blocks of a domain whose expensive part stays where it is have such a rank.
    """
    several = [vector for vector in vectors if len(vector) > 1]
    if not several:
        return ""
    slowest = [int(np.argmax(vector)) for vector in several]
    lows = [rank / len(vector) for rank, vector in zip(slowest, several, strict=True)]
    highs = [(rank + 1) / len(vector) for rank, vector in zip(slowest, several, strict=True)]
    if max(lows) >= min(highs):
        return ""
    middle = (max(lows) + min(highs)) / 2
    return f"rank {slowest[-1]} (the one at {percent(middle)} of the ranks)"


def _list_slowest(vectors: Sequence[FloatArray]) -> str:
    """`rank 7 (5 at p = 8)`: the slowest ranks of the two largest scales."""
    before, last = (int(np.argmax(vector)) for vector in vectors[-2:])
    return f"rank {last} ({before} at {at_text(RANKS, len(vectors[-2]))})"
