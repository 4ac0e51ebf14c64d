"""Class rules of the user: which ranks are which class, by their number and grid position."""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from insitu.entities import RANKS, CallPath, RunKey
from insitu.errors import UsageError
from insitu.modeling.base import ALL, MAXIMUM
from insitu.modeling.classes.behaviour import MetricValues, Partition
from insitu.modeling.classes.cluster import THRESHOLD, cluster
from insitu.modeling.classes.domain import AXES, Domain, default_domain
from insitu.modeling.classes.match import Matching, match_equal
from insitu.modeling.classes.run_groups import mean_over_runs
from insitu.modeling.measurement import IntArray

JOINT, PAPER = "joint", "paper"  # methods that find behaviour classes
OTHER = "other"  # the class of ranks that no rule covers
HUGE = 1e300  # larger numbers in an expression are cut to it: they would overflow
MAX_LENGTH = 400  # characters of a rule
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
    """Ranks for which the expression is true belong to the class with this name."""

    name: str
    text: str
    expression: ast.expr


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for the classes of some call paths and metrics.

    classes: the first match wins, ranks without a match are `other`; callpath, metric: patterns as
    of file names, a call path is compared whole and by its last frame; threshold: the relative
    distance for these call paths, if there are no classes.
    """

    classes: tuple[ClassRule, ...] = ()
    callpath: str = "*"
    metric: str = "*"
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class ClassSettings:
    """The settings of a campaign: the method, its relative distance [CLU], and the rules."""

    method: str = JOINT
    threshold: float = THRESHOLD
    rules: tuple[Rules, ...] = ()


def parse_rule(text: str) -> ClassRule:
    """Read `corner: x in (0, nx-1) and y in (0, ny-1)`.

    An expression may use

    - `rank`, `p` and every other parameter of the run;
    - `x`, `y`, `z`, `t`, the grid position of the rank as MPI_Cart_coords returns it, -1 outside of
      the grid, and `nx`, `ny`, `nz`, `nt`, the number of ranks along each axis. Without a Cartesian
      communicator the grid is what MPI_Dims_create makes of p, in as many dimensions as are used;
    - numbers, `+ - * // %`, comparisons, `in (…)`, `and`, `or`, `not`.

    Raises:
        UsageError: the text is no such rule.
    """
    name, colon, expression = (token.strip() for token in text.partition(":"))
    if not colon or not name or not expression or len(text) > MAX_LENGTH:
        raise UsageError(
            f"rule '{text[:60]}': write NAME: EXPRESSION of at most {MAX_LENGTH} characters, as in "
            "corner: x in (0, nx-1) and y in (0, ny-1)"
        )
    if name in (ALL, MAXIMUM):
        raise UsageError(f"rule '{name}': this name has a meaning of its own; choose another")
    try:
        tree = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"rule '{name}': cannot read '{expression}': {error}") from error
    names = {node.id: np.array([2]) for node in ast.walk(tree) if isinstance(node, ast.Name)}

    # Evaluate once, so that what is not allowed is refused here and not in the middle of a refit.
    _evaluate(tree, names, name)
    return ClassRule(name, expression, tree)


def assign(classes: Sequence[ClassRule], run: RunKey, domain: Domain | None = None) -> IntArray:
    """The class of each rank of a run, by the first rule that is true.

    Returns:
        Shape (n_ranks,): index into `classes`, or its length where no rule is true.

    Raises:
        UsageError: an expression uses a parameter that the run does not have.
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
    """Replace the classes of the call paths and metrics that have rules.

    Args:
        measured: one metric.
        partition: its classes without rules.
        rules: the first that matches a call path and the metric applies.
        domains: of each run group, None where it is not known.

    Raises:
        UsageError: an expression uses a parameter that a run does not have.
    """
    labels = [group_labels.copy() for group_labels in partition.labels]
    matchings = list(partition.matchings)
    findings = list(partition.findings)
    applicable = [rule for rule in rules if fnmatchcase(measured.metric.name, rule.metric)]

    for row, path in enumerate(measured.paths):
        rule = next((rule for rule in applicable if _matches_path(rule.callpath, path)), None)
        if rule is None:
            continue
        findings = [finding for finding in findings if finding.where != str(path)]

        for group, group_labels, domain in zip(measured.groups, labels, domains, strict=True):
            values = mean_over_runs([measured.tables[run][row] for run in group.runs])
            if rule.classes:
                classes = assign(rule.classes, group.key, domain)
                group_labels[row] = np.where(np.isfinite(values), classes, -1)
            elif rule.threshold is not None:
                group_labels[row] = cluster(values, rule.threshold)

        path_labels = [group_labels[row] for group_labels in labels]
        if rule.classes:
            names = (*(class_rule.name for class_rule in rule.classes), OTHER)
            matchings[row] = _match_by_name(names, path_labels)
        elif rule.threshold is not None:
            counts = [int(group_labels.max(initial=-1)) + 1 for group_labels in path_labels]
            matchings[row] = match_equal(counts, [group.coordinate for group in measured.groups])
    return Partition(labels, matchings, findings)


def _matches_path(pattern: str, path: CallPath) -> bool:
    return fnmatchcase(str(path), pattern) or fnmatchcase(path.name, pattern)


def _match_by_name(names: Sequence[str], labels: Sequence[IntArray]) -> Matching:
    """Match classes by name. The labels of each run group are made dense, in place.

    Args:
        names: of all classes, by label.
        labels: per run group (n_ranks,).
    """
    used = sorted({int(label) for group_labels in labels for label in group_labels if label >= 0})
    assigned: list[tuple[int, ...] | None] = []
    for group_labels in labels:
        present = [label for label in used if np.any(group_labels == label)]
        has_class = group_labels >= 0
        group_labels[has_class] = np.searchsorted(present, group_labels[has_class])
        assigned.append(tuple(used.index(label) for label in present) or None)

    return Matching(
        names=tuple(names[label] for label in used),
        assigned=tuple(assigned),
        is_complete=True,
        is_given=True,
    )


def _names(classes: Sequence[ClassRule], run: RunKey, domain: Domain | None) -> dict[str, Value]:
    """The values of all names that expressions may use, for all ranks of a run."""
    rank = np.arange(run.size)
    names = {name: np.array([value]) for name, value in run.parameters}
    names |= {"rank": rank, RANKS: np.array([run.size])}

    # A parameter of the user that is called t is no axis.
    axis_names = _used_names(classes) - set(names)
    dimensions = 0
    for index, axis in enumerate(AXES):
        if {axis, f"n{axis}"} & axis_names:
            dimensions = index + 1
    if not dimensions:
        return names

    domain = domain or default_domain(run.size, dimensions)
    for index, axis in enumerate(AXES[:dimensions]):
        if index < len(domain.shape):
            position, length = domain.positions[:, index], domain.shape[index]
        else:  # an axis that the program's domain does not have is one rank wide
            position, length = np.where(domain.positions[:, 0] < 0, -1, 0), 1
        names.setdefault(axis, position)
        names.setdefault(f"n{axis}", np.array([length]))
    return names


def _used_names(classes: Sequence[ClassRule]) -> set[str]:
    used = set()
    for rule in classes:
        for node in ast.walk(rule.expression):
            if isinstance(node, ast.Name):
                used.add(node.id)
    return used


def _evaluate(node: ast.expr, names: Mapping[str, Value], rule: str) -> Value:
    """Evaluate an expression for all ranks. Python syntax that rules do not have is an error."""
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
            for operand in values[1:]:
                result = join(result, _evaluate(operand, names, rule))
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
    """Evaluate `a < b <= c`, `a in (b, c)`."""
    result = np.array([True])
    for operation, right in zip(operations, rights, strict=True):
        value = _evaluate(left, names, rule)
        if isinstance(operation, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List):
            is_in = np.zeros(value.shape, dtype=bool)
            for item in right.elts:
                is_in = np.logical_or(is_in, np.equal(value, _evaluate(item, names, rule)))
            step = is_in if isinstance(operation, ast.In) else np.logical_not(is_in)
        elif type(operation) in OPERATORS:
            step = OPERATORS[type(operation)](value, _evaluate(right, names, rule))
        else:
            raise UsageError(f"rule '{rule}': write 'in' with the values in brackets: x in (0, 1)")
        result = np.logical_and(result, step)
        left = right
    return result
