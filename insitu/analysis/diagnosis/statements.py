"""Statements of a diagnosis: what a limit means at the target, in words, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from insitu.analysis.callpaths import fitted_name, name_with_caller, short_name
from insitu.analysis.diagnosis.budget import Baseline, Cost, at_text, breaking_point
from insitu.analysis.diagnosis.growth import (
    CERTAIN_LINEAR,
    CERTAIN_LOG,
    UNBALANCED,
    CountGrowth,
)
from insitu.analysis.diagnosis.laws import ExactLaw, quantity_text
from insitu.analysis.diagnosis.limit import Limit, called_by_script
from insitu.analysis.diagnosis.machine import Machine
from insitu.analysis.diagnosis.measurements import THREAD, Measurements, is_mpi
from insitu.analysis.diagnosis.scales import next_scale
from insitu.entities import BYTES_ALLOCATED, MESSAGES_RECEIVED, MESSAGES_SENT, RANKS, CallPath
from insitu.modeling.measurement import FloatArray
from insitu.text import list_some
from insitu.units import percent, quantity

LIMIT, WARNING, FINE = "limit", "warning", "fine"
UNCLEAR, NOT_JUDGED = "unclear", "not judged"
ALLOCATORS = ("malloc", "calloc", "realloc", "_znwm", "_znam")  # of C, C++ and Fortran
MAX_NAMES = 5  # of functions that a text lists
WARNING_FROM = 0.2  # share of the budget
LEAST_SCALES = 2  # of more than two ranks, that tell growth of messages from further neighbours
NEIGHBOURS = "neighbours in a grid look alike on so few ranks"
NOTED_UP_TO = 1e6  # ranks; an exact law that uses up its budget before is worth a warning
N_VISITED, MAX_VISITED = 3, 40  # functions in a sentence, and characters of the name of each
SAME_VALUE = 0.8  # of the upper bound: above, both bounds are about the same
LEAST_GROWTH = 0.1  # of the largest value measured: what grows less is worth none beyond the target


@dataclass(frozen=True, slots=True)
class Cause:
    """A call path that causes waiting in another: its share of it, and the ranks that are late."""

    callpath: str
    share: float
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence about a campaign, with the numbers in it; field names are those of the JSON.

    Attributes:
        kind: "memory", "serial", "messages", "bytes", "compute", "imbalance", "files", "gpu",
            "handles", "waiting", "efficiency", "run", "startup" or "profile".
        status: "limit", "warning", "fine", "unclear" or "not judged".
        text: a sentence for people.
        callpath: the function that causes it, None for statements about runs.
        where: `file.py:21`, where that function is defined, or where an inlined one makes the first
            of these calls.
        ranks: which ranks: "all", "rank 0", "last rank", "slowest rank", a class.
        metric, unit: the quantity; `now` and `then` are its values at the largest scale and at the
            target, `low` and `high` bounds of `then`.
        law: the quantity as a function of p.
        exact: whether the law passes through every measured point and nothing else explains them.
        points: `6 of 6 points`.
        breaks_at: smallest number of ranks at which a budget is used up.
        severity: cost at the target, divided by the budget.
        seconds: cost at the target on the slowest rank; None for memory.
        run: the run that would decide, for statements that are unclear or not judged.
        also: further quantities of the same cause.
        causes: of waiting, the largest first.
        calls: the functions outside of the program whose calls were counted.
        inlined: the function that makes these calls, if the compiler inlined it into `callpath`.
    """

    kind: str
    status: str
    text: str
    callpath: str | None = None
    where: str | None = None
    ranks: str | None = None
    metric: str | None = None
    unit: str | None = None
    law: str | None = None
    exact: bool = False
    points: str | None = None
    breaks_at: float | None = None
    now: float | None = None
    then: float | None = None
    low: float | None = None
    high: float | None = None
    severity: float = 0.0
    seconds: float | None = None
    run: str | None = None
    also: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    calls: tuple[str, ...] = ()
    inlined: str = ""

    @property
    def short_name(self) -> str:
        """The function's name without arguments, an MPI call's with its caller."""
        if self.inlined:
            return short_name(self.inlined)
        if not self.callpath:
            return ""
        path = CallPath.parse(self.callpath)
        return name_with_caller(path) if is_mpi(path) else short_name(path.name)

    @property
    def name(self) -> str:
        """The function's name, "" without a call path."""
        return self.inlined or (CallPath.parse(self.callpath).name if self.callpath else "")


@dataclass(frozen=True, slots=True)
class TargetScope:
    """Where a diagnosis looks: the target, the machine there, and the budgets."""

    measurements: Measurements
    machine: Machine
    baseline: Baseline
    target: float

    def budget(self, limit: Limit) -> Cost:
        """Seconds or bytes that a limit may cost at p ranks."""
        if limit.kind == "memory":
            return lambda ranks: self.machine.memory_bytes
        return lambda ranks: self.baseline.budget_s(ranks, is_once=limit.is_once)


def judge_limits(limits: Sequence[Limit], outlook: TargetScope) -> list[Statement]:
    """Judge each cause once: limits first, the most severe ones first."""
    judged = [(limit, _judge(limit, outlook)) for limit in limits]
    judged.sort(key=lambda pair: _order(pair[1]))

    kept: list[tuple[Limit, Statement]] = []
    for limit, statement in judged:
        for i, (cause, earlier) in enumerate(kept):
            if _is_same_cause(cause, limit):
                if statement.status in (LIMIT, WARNING):
                    also = (*earlier.also, statement.text)
                    kept[i] = cause, replace(earlier, also=also)
                break
        else:
            kept.append((limit, statement))

    return [statement for _, statement in kept]


def _order(statement: Statement) -> tuple[float, bool, float]:
    """Limits, warnings, unclear, not judged, fine; memory that does not fit before the rest.

    A warning of what uses up its budget only far beyond the target comes after what is unclear.
    """
    statuses = (LIMIT, WARNING, UNCLEAR, NOT_JUDGED, FINE)
    position = float(statuses.index(statement.status))
    if statement.status == WARNING and statement.severity < WARNING_FROM:
        position = statuses.index(UNCLEAR) + 0.5
    return position, statement.kind != "memory", -statement.severity


def list_names(names: Sequence[str]) -> str:
    """`a, b, c, d, e and 3 more`, each name once."""
    return list_some(list(dict.fromkeys(names)), MAX_NAMES)


def order_statements(statements: Sequence[Statement]) -> list[Statement]:
    """Sort statements by consequence at the target."""
    return sorted(statements, key=_order)


def _is_same_cause(first: Limit, second: Limit) -> bool:
    """Whether two limits describe the same growth: of one function or of a function and its caller.

    Memory is a cause of its own, and of the time that its allocation takes. Sending and receiving
    of the same caller are one cause, different collective operations are not. Those of the same
    operation are, if one of them has no law: sizes of objects are gathered before the objects.
    """
    if not (first.path.is_within(second.path) or second.path.is_within(first.path)):
        return False
    if "memory" in (first.kind, second.kind):
        other = first if second.kind == "memory" else second
        is_its_time = other.metric == BYTES_ALLOCATED.name and _term(first) == _term(second)
        return first.path == second.path and (first.kind == second.kind or is_its_time)

    has_same_kind = (first.kind == "serial") == (second.kind == "serial")
    is_one_operation = (
        first.path == second.path
        and (first.is_collective and second.is_collective)
        and _operation(first) == _operation(second)
    )
    has_no_law = not (_term(first) and _term(second))
    has_same_term = _term(first) == _term(second) or (is_one_operation and has_no_law)
    if not has_same_kind or not has_same_term:
        return False
    if first.path == second.path:
        are_messages = not (first.is_collective or second.is_collective)
        return are_messages or _operation(first) == _operation(second)

    return _paths_touch(first, second)


def _operation(limit: Limit) -> str:
    """The collective operation without its variant: objects go by a Gather and a Gatherv."""
    return limit.detail.name.removesuffix("v") if limit.detail is not None else ""


def _paths_touch(first: Limit, second: Limit) -> bool:
    """Whether the counted call path of one lies on the way of the other."""
    for limit, other in ((first, second), (second, first)):
        if other.path.is_within(limit.detail or limit.path):
            return True
    return False


def _term(limit: Limit) -> str:
    law = limit.growth.law
    return law.term.order if law is not None and law.term is not None else ""


def _judge(limit: Limit, outlook: TargetScope) -> Statement:
    target, growth = outlook.target, limit.growth
    budget = outlook.budget(limit)
    cost = limit.cost(target)
    severity = cost / budget(target)
    law = growth.law
    status = _status(limit, severity, budget, outlook)
    if status == UNCLEAR and limit.is_erratic:
        cost, severity = cost * _least_share(growth), severity * _least_share(growth)

    then = law.at(target) if law is not None else None
    statement = Statement(
        kind=limit.kind,
        status=status,
        text="",
        callpath=str(limit.path),
        where=outlook.measurements.where(limit.path),
        ranks=_ranks_text(limit),
        metric=limit.metric,
        unit=limit.unit,
        law=law.text(limit.unit) if law is not None else _exponents_text(limit),
        exact=limit.is_exact,
        points=f"{law.points} of {law.of} points" if law is not None else None,
        breaks_at=_breaks_at(limit, budget, outlook) if law is not None else None,
        now=growth.now,
        then=then,
        low=then if limit.is_exact else growth.low,
        high=then if limit.is_exact else growth.high,
        severity=severity,
        seconds=cost if limit.kind != "memory" else None,
        run=_deciding_run(limit, outlook),
        calls=_counted_calls(limit),
    )
    statement = _limit_to_neighbours(statement, limit)
    return replace(statement, text=_sentence(statement, limit, outlook))


def _counted_calls(limit: Limit) -> tuple[str, ...]:
    """The functions outside of the program whose calls were counted, by which an inlined function
    that makes them is found."""
    if limit.kind == "memory":
        return ALLOCATORS
    counted = [path for path in (limit.detail, *limit.includes) if path is not None]
    return tuple(dict.fromkeys(path.name for path in counted if path.parent == limit.path))


def _limit_to_neighbours(statement: Statement, limit: Limit) -> Statement:
    """Where neighbours of a grid explain the growth as well, it may end at 26 of them."""
    if statement.status != NOT_JUDGED or limit.growth.law is None:
        return statement
    return replace(statement, low=min(limit.growth.law.at(CERTAIN_LINEAR - 1), statement.high or 0))


def _status(limit: Limit, severity: float, budget: Cost, outlook: TargetScope) -> str:
    growth = limit.growth
    if limit.is_per_partner:
        return NOT_JUDGED if severity >= WARNING_FROM else FINE
    if growth.law is None and severity >= WARNING_FROM and limit.is_erratic:
        is_costly = severity * _least_share(growth) >= WARNING_FROM
        return UNCLEAR if is_costly and _is_of_work(limit) else NOT_JUDGED
    if limit.condition:
        return UNCLEAR if severity >= WARNING_FROM else FINE
    if growth.law is None:
        if severity < WARNING_FROM:
            return FINE
        may_be_neighbours = _may_be_neighbours(limit) or _may_be_a_tree(limit, outlook)
        return NOT_JUDGED if may_be_neighbours else UNCLEAR
    if not limit.is_exact:
        doubt = UNCLEAR if _is_hardly_of_neighbours(limit) else NOT_JUDGED
        return doubt if severity >= WARNING_FROM else FINE
    if severity >= 1:
        return LIMIT
    breaks_at = _breaks_at(limit, budget, outlook)
    is_near = breaks_at is not None and breaks_at <= NOTED_UP_TO
    is_near = is_near and _has_grown(growth.law, outlook.measurements.p)
    return WARNING if severity >= WARNING_FROM or is_near else FINE


def _has_grown(law: ExactLaw, p: FloatArray) -> bool:
    """Whether a law grows over the measured scales, (n_scales,), not only far beyond them.

    A master that gives out 240 tasks sends p + 239 messages: one more to each rank, at the end.
    """
    smallest, largest = law.at(float(p[0])), law.at(float(p[-1]))
    return bool(largest - smallest >= LEAST_GROWTH * largest)


def _may_be_neighbours(limit: Limit) -> bool:
    """Whether numbers of neighbours in a grid may explain growth without a law."""
    is_of_pairs = limit.kind == "messages" and not limit.is_collective
    return limit.is_per_partner or (is_of_pairs and not limit.knows_partners)


def _may_be_a_tree(limit: Limit, outlook: TargetScope) -> bool:
    """Whether one rank may receive more only since it has further neighbours, as a root in a tree.

    Two ranks have one neighbour each, and one scale above tells no growth.
    """
    is_of_messages = limit.metric in (MESSAGES_SENT.name, MESSAGES_RECEIVED.name)
    n_scales = sum(ranks > 2 for ranks in outlook.measurements.p.tolist())
    return is_of_messages and n_scales < LEAST_SCALES


def _is_of_pairs(limit: Limit) -> bool:
    """Whether something grows as pairs of ranks may: hardly any program has pairs of neighbours."""
    term = limit.growth.law.term if limit.growth.law is not None else None
    return limit.kind in ("compute", "memory") and term is not None and term.is_of_pairs


def _is_hardly_of_neighbours(limit: Limit) -> bool:
    """Whether numbers of neighbours might explain a law, though hardly any program is like that.

    Ranks exchange messages with their neighbours, not files, and start no threads for them.
    """
    starts_threads = limit.detail is not None and limit.detail.name == THREAD
    return limit.kind == "files" or starts_threads or _is_of_pairs(limit)


def _least_share(growth: CountGrowth) -> float:
    """The share of its largest cost that growth has if it goes on by its smallest exponent."""
    return growth.low / growth.high if growth.high > 0 else 0.0


def _is_of_work(limit: Limit) -> bool:
    """Whether a quantity is none of neighbours, nor of buffers that are full at some scale.

    A cache that holds what six ranks need makes no call more up to six, and all calls from then on.
    """
    return limit.kind in ("compute", "files") or limit.is_collective


def _breaks_at(limit: Limit, budget: Cost, outlook: TargetScope) -> float | None:
    start = float(outlook.measurements.p[0])
    return breaking_point(limit.cost, budget, start)


def _ranks_text(limit: Limit) -> str:
    single = limit.growth.single
    if limit.kind == "memory" and limit.rank is not None:
        return f"rank {limit.rank}"
    if limit.kind in ("serial", "files") and single is not None:
        return "last rank" if single < 0 else f"rank {single}"
    is_uneven = limit.growth.now > UNBALANCED * limit.growth.mean_now > 0
    if limit.kind == "imbalance":
        return "slowest rank"
    return "busiest rank" if is_uneven and limit.kind != "memory" else "all"


def _exponents_text(limit: Limit) -> str | None:
    low, high = (f"p^{exponent:.1f}" for exponent in limit.growth.exponents)
    if limit.growth.exponents[1] <= 0:
        return None
    return low if low == high else f"{low} to {high}"


def _deciding_run(limit: Limit, outlook: TargetScope) -> str | None:
    """The run that would turn a statement that is not certain into a certain one."""
    has_no_doubt = not limit.is_erratic
    if limit.run is not None:
        return limit.run
    if limit.is_exact or (limit.condition and has_no_doubt):
        return None
    p = outlook.measurements.p
    law = limit.growth.law
    if law is None:
        return next_scale(p, 2.0)
    has_log = law.term is not None and law.term.is_logarithm
    certain = CERTAIN_LOG - 1 + 8 if has_log else 32
    return next_scale(p, certain / float(p[-1]))


def _sentence(statement: Statement, limit: Limit, outlook: TargetScope) -> str:
    target = at_text(RANKS, outlook.target)
    law, growing = statement.law or "more", ""
    if limit.growth.law is None:
        law, growing = quantity_text(limit.growth.now, limit.unit), f", growing as {law}"
    if limit.is_erratic and limit.kind != "memory":
        growing = _last_step_text(limit, outlook)
    value, is_range = _value_then(statement, limit.unit)
    actor = "each rank" if statement.ranks == "all" else statement.ranks
    if limit.kind == "memory":
        room = quantity_text(outlook.machine.memory_bytes, "B")
        subject = limit.subject.format(law) + growing
        if statement.status == NOT_JUDGED:
            return f"{actor} {subject}{_doubt(statement, limit)}"
        text = f"{actor} {subject}: {value} at {target} ({room} there)"
        if statement.breaks_at is not None and statement.status in (LIMIT, WARNING):
            text += f"; fits to {at_text(RANKS, max(statement.breaks_at - 1, 1))}"
        return text + _doubt(statement, limit)
    if limit.kind == "imbalance":
        return _imbalance_sentence(limit, outlook, law) + _doubt(statement, limit)

    subject = limit.subject.format(law)
    if limit.path.parent is None and limit.detail is not None:
        subject += called_by_script(limit.detail, subject)
    text = f"{actor} {subject}{growing}"
    if statement.status == NOT_JUDGED or limit.is_erratic:
        return text + _doubt(statement, limit)  # an amount at the target would be a guess
    text += ": "
    values = [value if limit.unit == "B" else f"{value} of them"]
    if limit.bytes_law is not None and limit.unit != "B":
        size = limit.bytes_law.at(outlook.target)
        if size > 0:
            values.append(quantity_text(size, "B"))
    how = "at least " if limit.is_lower_bound else "up to " * is_range
    share = _least_share(limit.growth) if is_range and limit.is_lower_bound else 1.0
    values.append(how + quantity(share * limit.cost(outlook.target), "s"))
    values[-1] += _visited_text(limit)
    return text + ", ".join(values) + f" at {target}" + _doubt(statement, limit)


def _value_then(statement: Statement, unit: str) -> tuple[str, bool]:
    """The quantity at the target, and whether that is a range: without a law, from both bounds."""
    if statement.then is not None:
        return quantity_text(statement.then, unit), False
    low, high = statement.low or 0.0, statement.high or 0.0
    is_range = low < SAME_VALUE * high
    return f"{quantity_text(low, unit)} to " * is_range + quantity_text(high, unit), is_range


def _last_step_text(limit: Limit, outlook: TargetScope) -> str:
    """` at p = 12, 6 at p = 6`: the last step, which is unlike the one before."""
    p, value = limit.growth.earlier
    now = at_text(RANKS, float(outlook.measurements.p[-1]))
    return f" at {now}, {quantity_text(value, limit.unit)} at {at_text(RANKS, p)}"


def _visited_text(limit: Limit) -> str:
    """` with the visits of weight`: functions whose time is a part of the cost of messages."""
    names = list(dict.fromkeys(fitted_name(path.name, MAX_VISITED) for path in limit.visited))
    if not names:
        return ""
    n_more = len(names) - N_VISITED
    if n_more <= 1:
        return f" with the visits of {', '.join(names)}"
    return f" with the visits of {', '.join(names[:N_VISITED])} and {n_more} more functions"


def _imbalance_sentence(limit: Limit, outlook: TargetScope, law: str) -> str:
    growth, target = limit.growth, outlook.target
    mean, most = growth.mean, growth.law
    if most is None:
        return law
    largest_p = float(outlook.measurements.p[-1])
    if mean is None or not growth.has_same_order:
        ratio = growth.now / max(growth.mean_now, 1e-300)
        return (
            f"slowest rank {limit.subject.format(law)}, {ratio:.2g} times the mean at"
            f" {at_text(RANKS, largest_p)}: {quantity_text(most.at(target), limit.unit)} of them,"
            f" {quantity(limit.cost(target), 's')} at {at_text(RANKS, target)}"
        )
    now = mean.at(largest_p) / max(most.at(largest_p), 1e-300)
    then = mean.at(target) / max(most.at(target), 1e-300)
    return (
        f"slowest rank {limit.subject.format(law)}, the mean is {mean.text(limit.unit)}:"
        f" load balance {percent(then)} at {at_text(RANKS, target)} (now {percent(now)}),"
        f" {quantity(limit.cost(target), 's')}"
    )


def _doubt(statement: Statement, limit: Limit) -> str:
    if limit.condition and statement.status != NOT_JUDGED:
        return f" {limit.condition}"
    if statement.status == NOT_JUDGED or limit.is_erratic:
        has_only_steps = limit.is_erratic and not _may_be_neighbours(limit)
        reason = "its steps differ too much to extrapolate them" if has_only_steps else NEIGHBOURS
        return f"; {reason}: run {statement.run}"
    if statement.status == UNCLEAR and limit.growth.law is not None:
        of_files = "files of neighbours" if limit.kind == "files" else "threads for neighbours"
        what = "pairs of neighbours" if _is_of_pairs(limit) else of_files
        return f", unless these are {what} in a grid: run {statement.run}"
    if statement.status == UNCLEAR:
        return f"; several laws fit: run {statement.run}"
    return ""
