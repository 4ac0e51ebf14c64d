"""A quantity that grows with p: the candidate for a statement."""

from dataclasses import dataclass

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import Cost
from insitu.analysis.diagnosis.growth import CountGrowth
from insitu.analysis.diagnosis.laws import ExactLaw
from insitu.analysis.diagnosis.machine import is_collective
from insitu.analysis.diagnosis.measurements import THREAD, Measurements, is_mpi
from insitu.entities import FILES_OWN, VISITS, CallPath
from insitu.modeling.measurement import FloatArray

ERRATIC = 2.0  # least difference of two local exponents from which growth is not extrapolated
# The same of small blocks of the heap: interpreters and numpy keep some of these, and larger ones
# not, so that they begin to grow at one scale or another.
ERRATIC_SMALL, SMALL_BLOCKS = 1.0, 4096.0


@dataclass(frozen=True, slots=True)
class Limit:
    """A quantity that grows with p, and what that costs.

    Attributes:
        kind: "memory", "serial", "bytes", "messages", "compute", "imbalance",
            "files" or "gpu".
        path: the function of the program that causes it.
        metric, unit: the quantity.
        growth: how it grows.
        cost: seconds on the slowest rank at p ranks, or bytes per rank for the kind "memory".
        is_once: whether its call path is visited once per run.
        subject: what a rank does, for texts: `receives {} messages`, with the amount in braces.
        bytes_law: the bytes that go with messages.
        detail: the call path that was counted, if it is not `path` itself.
        includes: further call paths whose cost is in this one.
        visited: functions that the same loop visits as often, whose time is a part of the cost.
        rank: the only rank that it is about, of the kind "memory"; None: all.
        condition: what must be true for it to cost that much, where that is not known.
        run: the run that shows whether the condition is true, if one does.
        is_lower_bound: whether the cost may leave out work that adds to it, such as some of that
            between the messages of a chain.
        is_per_partner: whether it is so much for each partner on few ranks, as for neighbours.
        knows_partners: whether its partners are as many at all scales, or all ranks, so that they
            are no ever more neighbours.
    """

    kind: str
    path: CallPath
    metric: str
    unit: str
    growth: CountGrowth
    cost: Cost
    is_once: bool
    subject: str
    bytes_law: ExactLaw | None = None
    detail: CallPath | None = None
    includes: tuple[CallPath, ...] = ()
    visited: tuple[CallPath, ...] = ()
    rank: int | None = None
    condition: str = ""
    run: str | None = None
    is_lower_bound: bool = False
    is_per_partner: bool = False
    knows_partners: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether it follows an exact law that nothing else explains."""
        growth = self.growth
        is_single = self.kind == "serial" or (self.kind == "files" and growth.single is not None)
        # Files of all ranks together are no neighbours of a rank.
        is_total = self.metric == FILES_OWN.name
        is_settled = growth.is_certain or is_single or is_total or self.is_collective
        return growth.law is not None and is_settled and not self.condition

    @property
    def is_erratic(self) -> bool:
        """Whether growth has no law, and its last two steps differ too much to extrapolate them."""
        low, high = self.growth.exponents
        is_small = self.kind == "memory" and self.growth.now < SMALL_BLOCKS
        return self.growth.law is None and high - low > (ERRATIC_SMALL if is_small else ERRATIC)

    @property
    def is_collective(self) -> bool:
        """Whether it was counted in a collective operation, which has no neighbours."""
        return self.detail is not None and is_collective(self.detail.name)


def is_once(measurements: Measurements, path: CallPath) -> bool:
    """Whether every rank visits a function at most once, and so do all functions above it.

    The visits of functions in unchanged compiled programs are unknown. There, a call that is made
    more than twice for each rank, at the smallest scale, is made in more than one visit.
    """
    visits = measurements.series([path], VISITS.name).statistic(np.max)
    if visits.any() or not len(measurements.p):
        return bool(np.all(visits <= 1))

    for call in measurements.children.get(path, []):
        calls = measurements.series([call], VISITS.name).statistic(np.max)
        first = int(np.argmax(calls > 0))  # one rank has no messages
        if calls[first] > 2 * measurements.p[first]:
            return False
    return True


def value_at(growth: CountGrowth, ranks: float, p: FloatArray, target: float) -> float:
    """The law's value; without a law, a power between the last measured scale and the target."""
    if growth.law is not None:
        return growth.law.at(ranks)
    if growth.now <= 0 or target <= p[-1]:
        return growth.now
    exponent = np.log(max(growth.high, growth.now) / growth.now) / np.log(target / p[-1])
    return growth.now * float((ranks / p[-1]) ** exponent)


def cost_at_price(growth: CountGrowth, price: float, p: FloatArray, target: float) -> Cost:
    """The cost of a quantity that grows, at a price in seconds for each of its units."""
    return lambda ranks: price * value_at(growth, ranks, p, target)


def looping_caller(measurements: Measurements, path: CallPath) -> CallPath:
    """The caller whose loop makes the visits grow, as a function of the program.

    Climbs as long as the visits per visit of the caller do not depend on p. The function
    that a thread runs has no caller.
    """
    at = path
    while at.parent is not None and at.parent.parent is not None:
        mine = measurements.series([at], VISITS.name).statistic(np.max)
        callers = measurements.series([at.parent], VISITS.name).statistic(np.max)
        if np.any(callers <= 0):
            break
        ratios = mine / callers
        above = at.parent
        at = above
        if np.ptp(ratios) > 1e-6 * np.max(ratios):
            break

    # A library function that the script itself calls belongs to the script.
    while at.parent is not None and at.name != THREAD and measurements.is_library(at):
        at = at.parent

    return path if at.name == THREAD else at


def called_by_script(counted: CallPath, subject: str) -> str:
    """` in shutil.rmtree`: the library function through which a script, outside of its own
    functions, makes the calls that were counted; or the MPI call if `subject` does not name it."""
    if is_mpi(counted):
        return "" if counted.name in subject else f" in {counted.name}"
    return f" in {short_name(counted.frames[1])}" if len(counted.frames) > 2 else ""
