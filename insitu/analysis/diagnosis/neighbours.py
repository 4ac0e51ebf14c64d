"""Whether counts of the slowest rank may be numbers of neighbours in a grid, which end at 26."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.growth import (
    CERTAIN_LINEAR,
    CERTAIN_UNIFORM,
    LEAST_UNIFORM,
    UNBALANCED,
    CountGrowth,
    find_growth,
)
from insitu.analysis.diagnosis.laws import FASTER_THAN_P, RELATIVE, ExactLaw
from insitu.analysis.diagnosis.limit import Limit
from insitu.analysis.diagnosis.machine import PAIRWISE, is_collective
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries, is_mpi
from insitu.entities import (
    BYTES_SENT,
    MESSAGES_RECEIVED,
    MESSAGES_SENT,
    PARTNERS,
    VISITS,
    CallPath,
)
from insitu.modeling.measurement import FloatArray

# Blocks of a bisected domain all touch each other on 1, 2, 3, 4 and 6 ranks (24^3 elements of
# miniFE 2.0): only a larger number of ranks that is no power of two separates them from p - 1.
LEAST_SEPARATING = 9
PER_PARTNER = 0.03  # of the range of values: how far they may be from so much for each partner
LEAST_OTHERS = 5  # all blocks of the other colour: a block of 12 has up to four that it faces
OF_WORK = ("compute", "memory", "files")
LEAST_EMPTY_SCALES = 2  # above two ranks, with as many bytes
LEAST_LAW_SCALES = 4  # through which a law of few ranks passes
MESSAGES = (MESSAGES_SENT.name, MESSAGES_RECEIVED.name)
COUNTED = (*MESSAGES, VISITS.name)  # of calls between pairs of ranks
STEADY_SCALES = 4  # above two ranks
STEEP = ("p", "(p - 1)", "floor(p/2)", "ceil(p/2)", *FASTER_THAN_P)


def is_beyond_neighbours(measurements: Measurements, path: CallPath, growth: CountGrowth) -> bool:
    """Whether a law of the slowest rank is none that numbers of neighbours in a grid follow.

    Those end at 26 and are p - 1 up to 8 ranks in most grids, so that a law in proportion to p, or
    steeper, over five scales with one beyond and none of them missed, is the program's own, unless
    it counts partners.
    """
    law = growth.law
    if law is None or law.term is None or law.points < LEAST_UNIFORM or law.points < law.of:
        return False
    is_steep = (law.term.like or law.term.name) in STEEP
    is_unequal = growth.now > UNBALANCED * growth.mean_now
    if not (is_steep and is_unequal and is_separated(measurements.p)):
        return False
    return not _counts_partners(measurements, path)


def _counts_partners(measurements: Measurements, path: CallPath) -> bool:
    """Whether all ranks visit a function as often as they have partners in some exchange.

    That is once more for each further partner, at all scales below those where neighbours cannot be
    all ranks: in a grid of 3 x 2 x 2 ranks, too, those in the middle have 11 of them.
    """
    if float(measurements.p[-1]) >= CERTAIN_LINEAR:
        return False
    visits = np.concatenate(
        [group[0] for group in measurements.series([path], VISITS.name).vectors]
    )
    for calls in measurements.members.values():
        for call in calls:
            if not is_mpi(call) or is_collective(call.name):
                continue
            vectors = measurements.series([call], PARTNERS.name).vectors
            partners = np.concatenate([group[0] for group in vectors])
            if not np.ptp(partners):
                continue
            per_partner, other = np.polyfit(partners, visits, 1)
            if np.allclose(per_partner * partners + other, visits, rtol=RELATIVE, atol=0.5):
                return True
    return False


def is_separated(p: FloatArray) -> bool:
    """Whether some number of ranks is one on which not all blocks of a domain can touch."""
    return any(
        ranks >= LEAST_SEPARATING and ranks & (ranks - 1) for ranks in p.astype(int).tolist()
    )


def follows_partners(measurements: Measurements, values: FloatArray) -> bool:
    """Whether values, (n_scales,), are so much for each partner of some exchange, on few ranks.

    Buffers for each neighbour in a grid grow like that, but end with its neighbours.
    """
    if float(measurements.p[-1]) >= CERTAIN_LINEAR:
        return False
    allowed = PER_PARTNER * float(np.ptp(values))
    for calls in measurements.members.values():
        for call in calls:
            if not is_mpi(call) or is_collective(call.name):
                continue
            partners = measurements.series([call], PARTNERS.name).statistic(np.max)
            if len(set(partners.tolist())) > 2:
                fitted = np.polyval(np.polyfit(partners, values, 1), partners)
                if np.all(np.abs(fitted - values) <= allowed):
                    return True
    return False


def has_other_partners(measurements: Measurements, law: ExactLaw) -> bool:
    """Whether the partners of all exchanges are known, and are none in proportion to a law.

    Then numbers of neighbours do not explain it: what is done for each neighbour goes with messages
    to it. Where no rank sends any by MPI, they may go by another library.
    """
    scales = measurements.p > 1
    term = law.term
    is_steep = term is not None and (term.like or term.name) in STEEP
    if not is_steep or law.points < max(law.of, LEAST_LAW_SCALES):
        return False
    values = np.array([law.at(ranks) for ranks in measurements.p.tolist()])[scales]
    allowed = PER_PARTNER * float(np.ptp(values))
    has_exchange = False
    for calls in measurements.members.values():
        for call in calls:
            if not is_mpi(call):
                continue
            if call.name in PAIRWISE:  # with whom is unknown
                return False
            moved = [measurements.series([call], metric) for metric in MESSAGES]
            partners = measurements.series([call], PARTNERS.name).statistic(np.max)[scales]
            sent, received = (each.statistic(np.max)[scales] for each in moved)
            if np.any((sent + received > 0) & (partners <= 0)):
                return False
            has_exchange = has_exchange or bool(partners[-1] > 0)
            if not np.ptp(partners):
                continue
            fitted = np.polyval(np.polyfit(partners, values, 1), partners)
            if np.all(np.abs(fitted - values) <= allowed):
                return False
    return has_exchange


def settle_work(measurements: Measurements, limits: Sequence[Limit]) -> list[Limit]:
    """Limits, certain if no exchange has partners that they go with; not of a domain's boundary."""
    settled = []
    for limit in limits:
        law, growth = limit.growth.law, limit.growth
        is_of_pairs = limit.kind == "messages" and limit.metric in COUNTED
        is_open = not growth.is_certain and (limit.kind in OF_WORK or is_of_pairs)
        if law is not None and is_open:
            is_empty = is_of_pairs and _sends_empty_messages(measurements, limit.path, law)
            if is_empty or has_other_partners(measurements, law):
                growth = replace(growth, is_certain=True)
        settled.append(replace(limit, growth=growth))
    return settled


def _sends_empty_messages(measurements: Measurements, owner: CallPath, law: ExactLaw) -> bool:
    """Whether a function sends ever more messages by a law, and as many bytes, to the byte.

    A further neighbour in a grid is sent something. Two ranks have one neighbour where more have
    two, as in a ring. Ranks at an end may send less; all of them send as much as some rank of the
    other scales, or the busiest one does so by chance.
    """
    scales = measurements.p > 2
    is_law = law.points == law.of >= LEAST_LAW_SCALES
    if not is_law or np.count_nonzero(scales) < LEAST_EMPTY_SCALES:
        return False
    calls = [path for path in measurements.members[owner] if is_mpi(path)]
    pairwise = [path for path in calls if not is_collective(path.name)]
    messages = measurements.series(pairwise, MESSAGES_SENT.name).statistic(np.max)[scales]
    groups = measurements.series(pairwise, BYTES_SENT.name).vectors[np.argmax(scales) :]
    amounts = {tuple(np.unique(vector).tolist()) for group in groups for vector in group}
    has_same = len(amounts) == 1 and max(amounts.pop()) > 0
    return has_same and bool(np.all(np.diff(messages) > 0))


def has_steady_partners(measurements: Measurements, path: CallPath) -> bool:
    """Whether a call exchanges with as many ranks at all scales, so that growth of its messages is
    none of neighbours in a grid. Two ranks have one neighbour where more have two, as in a ring."""
    counts = measurements.series([path], PARTNERS.name).statistic(np.max)[measurements.p > 2]
    return len(counts) >= STEADY_SCALES and counts[0] > 0 and bool(np.ptp(counts) == 0)


def reaches_all(measurements: Measurements, path: CallPath, target: float) -> bool:
    """Whether each rank exchanges with all others by a call, on more ranks than may be neighbours,
    or with all those that do not make it, as between two coupled models.

    How many messages it takes may differ between ranks and runs.
    """
    p = measurements.p
    partners = measurements.series([path], PARTNERS.name)
    if _reaches_other_side(p, partners):
        return True
    growth = find_growth(p, partners, target)
    term = growth.law.term if growth.law is not None else None
    is_of_all = term is not None and term.order == "p" and growth.now >= float(p[-1]) - 1
    return is_of_all and doubt_on_few_ranks(p, growth).is_certain


def _reaches_other_side(p: FloatArray, partners: RankSeries) -> bool:
    """Whether the ranks that make a call, several and not the others, reach each of these.

    On the scales that tell it, no block of a grid touches all blocks of the other colour.
    """
    largest = partners.vectors[-1][0]
    if len(p) < LEAST_UNIFORM or not is_separated(p) or largest.max() < LEAST_OTHERS:
        return False
    for group in partners.vectors:
        for vector in group:
            callers = vector > 0
            others = len(vector) - np.count_nonzero(callers)
            idle = others - vector[callers]  # of an odd number, one may be left over
            if not callers.any() or idle.min() < 0 or idle.max() > len(vector) % 2:
                return False
    return bool(np.count_nonzero(largest) > 1)


def doubt_on_few_ranks(p: FloatArray, growth: CountGrowth) -> CountGrowth:
    """Growth of messages between pairs, uncertain where all ranks may be neighbours."""
    is_certain = growth.is_certain and (is_separated(p) or float(p[-1]) >= CERTAIN_UNIFORM)
    return replace(growth, is_certain=is_certain)
