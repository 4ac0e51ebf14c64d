"""Rules of the user: which ranks are which class, by where they are in the domain."""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from insitu.entities import RANKS, RunKey
from insitu.errors import UsageError
from insitu.modeling.classes.behaviour import MetricValues, Partition
from insitu.modeling.classes.cluster import THRESHOLD, cluster
from insitu.modeling.classes.domain import AXES, Domain, default_domain
from insitu.modeling.classes.match import Matching, match_equal
from insitu.modeling.classes.run_groups import mean_over_runs
from insitu.modeling.measurement import IntArray

JOINT, PAPER = "joint", "paper"  # ways to find behaviour classes
OTHER = "other"  # ranks that no rule names
HUGE = 1e300  # what longer numbers count as
LONGEST = 400  # characters of an expression
Value = np.ndarray  # of bool, int or float, one per rank or one for all
OPERATORS: Mapping[type[ast.AST], Callable[[Value, Value], Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}


@dataclass(frozen=True, slots=True)
class ClassRule:
    """Ranks for which the expression is true belong to the class of this name."""

    name: str
    text: str
    expression: ast.expr


@dataclass(frozen=True, slots=True)
class Rules:
    """What the user knows of the classes of some call paths and metrics.

    callpath, metric: patterns as of file names; a call path is compared whole and by its last
    frame. classes: first match wins, ranks that none names are `other`. threshold: another relative
    distance for these, where there are no classes.
    """

    classes: tuple[ClassRule, ...] = ()
    callpath: str = "*"
    metric: str = "*"
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class ClassSettings:
    """What the user says about classes: the method to find them, the distance [CLU], the rules."""

    method: str = JOINT
    threshold: float = THRESHOLD
    rules: tuple[Rules, ...] = ()


def parse_rule(text: str) -> ClassRule:
    """Read `corner: x in (0, nx-1) and y in (0, ny-1)`.

    An expression may use `rank`, `p` and every other parameter of the run; `x`, `y`, `z`, `t`, the
    place of the rank as MPI_Cart_coords gives it, and `nx`, `ny`, `nz`, `nt`, how many ranks the
    domain is long; numbers, `+ - * // %`, comparisons, `in (…)`, `and`, `or`, `not`. Where the
    program made no Cartesian communicator, the grid is what MPI_Dims_create makes of p in as many
    dimensions as are named. A rank outside the grid is at -1.

    Raises:
        UsageError: if it is no such rule.
    """
    name, colon, expression = (part.strip() for part in text.partition(":"))
    if not colon or not name or not expression or len(text) > LONGEST:
        raise UsageError(
            f"rule '{text[:60]}': write NAME: EXPRESSION of at most {LONGEST} characters, as in "
            "corner: x in (0, nx-1) and y in (0, ny-1)"
        )
    try:
        tree = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"rule '{name}': cannot read '{expression}': {error}") from error
    names = {node.id: np.array([2]) for node in ast.walk(tree) if isinstance(node, ast.Name)}
    _evaluate(tree, names, name)  # refuses at once what is not allowed
    return ClassRule(name, expression, tree)


def assign(classes: Sequence[ClassRule], run: RunKey, domain: Domain | None = None) -> IntArray:
    """The class of each rank of a run, (n_ranks,): index into `classes`, its length where none is.

    Raises:
        UsageError: if an expression names what the run does not have.
    """
    names = _names(classes, run, domain)
    labels = np.full(run.size, len(classes), dtype=np.intp)
    for index in reversed(range(len(classes))):
        rule = classes[index]
        chosen = np.broadcast_to(_evaluate(rule.expression, names, rule.name), labels.shape)
        labels[chosen.astype(bool)] = index
    return labels


def apply_rules(
    measured: MetricValues,
    partition: Partition,
    rules: Iterable[Rules],
    domains: Sequence[Domain | None],
) -> Partition:
    """Replace what was found by what the user says, for the call paths and metric it is said of."""
    labels = [one.copy() for one in partition.labels]
    matchings = list(partition.matchings)
    findings = list(partition.findings)
    chosen = [one for one in rules if fnmatchcase(measured.metric.name, one.metric)]
    for row, path in enumerate(measured.paths):
        rule = next((one for one in chosen if _is_about(one.callpath, str(path), path.name)), None)
        if rule is None:
            continue
        findings = [one for one in findings if one.where != str(path)]
        for place, one, domain in zip(measured.groups, labels, domains, strict=True):
            value = mean_over_runs([measured.tables[run][row] for run in place.runs])
            if rule.classes:
                one[row] = np.where(np.isfinite(value), assign(rule.classes, place.key, domain), -1)
            elif rule.threshold is not None:
                one[row] = cluster(value, rule.threshold)
        if rule.classes:
            names = (*(one.name for one in rule.classes), OTHER)
            matchings[row] = _named(names, [one[row] for one in labels])
        elif rule.threshold is not None:
            counts = [int(one[row].max(initial=-1)) + 1 for one in labels]
            matchings[row] = match_equal(counts, [place.coordinate for place in measured.groups])
    return Partition(labels, matchings, findings)


def _is_about(pattern: str, path: str, name: str) -> bool:
    return fnmatchcase(path, pattern) or fnmatchcase(name, pattern)


def _named(names: Sequence[str], labels: Sequence[IntArray]) -> Matching:
    """Make labels dense per run, in place, and say which class each then is."""
    used = sorted({int(label) for one in labels for label in one if label >= 0})
    assigned: list[tuple[int, ...] | None] = []
    for one in labels:
        here = [label for label in used if np.any(one == label)]
        one[one >= 0] = np.searchsorted(here, one[one >= 0])
        assigned.append(tuple(used.index(label) for label in here) or None)
    return Matching(tuple(names[label] for label in used), tuple(assigned), True, is_given=True)


def _names(classes: Sequence[ClassRule], run: RunKey, domain: Domain | None) -> dict[str, Value]:
    """What expressions may name, for all ranks of a run."""
    rank = np.arange(run.size)
    names = {name: np.array([value]) for name, value in run.parameters}
    names |= {"rank": rank, RANKS: np.array([run.size])}
    used = {
        node.id
        for one in classes
        for node in ast.walk(one.expression)
        if isinstance(node, ast.Name)
    }
    wanted = used - set(names)  # what the user calls t is no axis
    dimensions = max(
        (index + 1 for index, axis in enumerate(AXES) if {axis, f"n{axis}"} & wanted), default=0
    )
    if dimensions:
        domain = domain or default_domain(run.size, dimensions)
        for index, axis in enumerate(AXES[:dimensions]):
            is_known = index < len(domain.shape)
            at = (
                domain.positions[:, index]
                if is_known
                else np.where(domain.positions[:, 0] < 0, -1, 0)
            )
            names.setdefault(axis, at)
            names.setdefault(f"n{axis}", np.array([domain.shape[index] if is_known else 1]))
    return names


def _evaluate(node: ast.expr, names: Mapping[str, Value], rule: str) -> Value:
    """Evaluate an expression for all ranks; only what a rule may say is understood."""
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return np.array([float(min(value, HUGE))])
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name):
            raise UsageError(
                f"rule '{rule}': the run has no '{name}'; it has {', '.join(sorted(names))}"
            )
        case ast.BoolOp(op=operation, values=values):
            join = np.logical_and if isinstance(operation, ast.And) else np.logical_or
            result = _evaluate(values[0], names, rule)
            for part in values[1:]:
                result = join(result, _evaluate(part, names, rule))
            return result
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return np.asarray(np.logical_not(_evaluate(operand, names, rule)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return np.asarray(np.negative(_evaluate(operand, names, rule)))
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in OPERATORS:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                return OPERATORS[type(operation)](
                    _evaluate(left, names, rule), _evaluate(right, names, rule)
                )
        case ast.Compare(left=left, ops=operations, comparators=rights):
            return _compare(left, operations, rights, names, rule)
    raise UsageError(
        f"rule '{rule}': '{ast.unparse(node)}' is not understood; use rank, p, x, y, z, t, nx, ny, "
        "nz, nt, numbers, + - * // %, comparisons, in (…), and, or, not"
    )


def _compare(
    left: ast.expr,
    operations: Sequence[ast.cmpop],
    rights: Sequence[ast.expr],
    names: Mapping[str, Value],
    rule: str,
) -> Value:
    """`a < b <= c`, `a in (b, c)`."""
    result = np.array([True])
    for operation, right in zip(operations, rights, strict=True):
        value = _evaluate(left, names, rule)
        if isinstance(operation, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List):
            found = np.zeros(value.shape, dtype=bool)
            for item in right.elts:
                found = np.logical_or(found, np.equal(value, _evaluate(item, names, rule)))
            step = found if isinstance(operation, ast.In) else np.logical_not(found)
        elif type(operation) in OPERATORS:
            step = OPERATORS[type(operation)](value, _evaluate(right, names, rule))
        else:
            raise UsageError(f"rule '{rule}': write 'in' with the values in brackets: x in (0, 1)")
        result = np.logical_and(result, step)
        left = right
    return result
