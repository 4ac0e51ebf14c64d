"""The smallest experiment that still shows all dependencies [DET §3.2], and smaller ones.

Every call path must be measured on a full grid over the parameters that multiply in one of its
nests. Parameters that no call path shares may move together. Three designs satisfy this, and the
smallest is chosen:

- *lock step*: parameters that no call path shares move together, as in the paper. The groups are
  the fewest colours of the graph of shared parameters; the design is a grid over the groups.
- *cover*: parameters that add up in a call path need a line each, not a grid. The partial
  configurations that call paths require are merged into as few runs as possible.
- *array*: an orthogonal array after Bush (Orthogonal arrays of index unity, 1952) contains a full
  grid for any t of its parameters, so a chain of interactions costs as little as one of them.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations, permutations, product
from typing import Literal

import numpy as np

from insitu.design.dependencies import Dependency, Structure
from insitu.design.factorial import (
    REPETITIONS,
    Cost,
    ExperimentDesign,
    Levels,
    Point,
    core_seconds,
    count_combinations,
)
from insitu.design.mainloop import MIN_ITERATIONS
from insitu.errors import UsageError

Rule = Literal["additive", "paper"]
Pairing = Literal["ascending", "cheapest", "mixed"]
PartialConfiguration = dict[str, float]  # values of some parameters
Step = tuple[tuple[str, float], ...]  # values that the parameters of a group take together
Pair = tuple[str, str]

RANK_CORRELATION_LIMIT = 0.3  # of parameters that are paired in mixed order
PERMUTED_LEVELS = 7  # up to so many levels all permutations are tried
INCOMPATIBLE = 1e9  # cost of a forbidden assignment; larger than any sum of allowed ones
NEW_RUN_COST = 1.0  # of an assignment to a run that shares no parameter and adds none
EXTENSION_COST = 0.01  # prefers runs that already have all required values


def deduce_design(
    structure: Structure,
    levels: Levels,
    *,
    rule: Rule = "additive",
    pairing: Pairing = "ascending",
    cost: Cost | None = None,
    iterations: int = MIN_ITERATIONS,
) -> ExperimentDesign:
    """Return the smallest design for the known dependencies of a program.

    Args:
        structure: which call path depends on what.
        levels: values by parameter, including the iteration parameter if there is one.
        rule: "paper" requires a full grid over all parameters of a call path; "additive" only over
            those that multiply in one of its nests.
        pairing: order of parameters that move together: "ascending", which extrapolates best;
            "cheapest", most ranks with least work; "mixed", the cheapest uncorrelated one.
        cost: of one run, in any unit; default: its number of ranks.
        iterations: of the main loop that give its mean precisely enough, see `iterations_for`.

    Raises:
        UsageError: a parameter has no levels, or levels are given for an unknown one.
    """
    _check_levels(structure, levels)
    varied = {
        name: sorted(set(values)) for name, values in levels.items() if name != structure.iteration
    }
    dependencies = structure.resolve()
    cost = cost or core_seconds(structure.ranks)

    groups = _colour(list(varied), _shared_pairs(dependencies))
    points = _lock_step(groups, varied, pairing, cost)
    confounded = _pairs_within(groups)
    method = "lock step"

    if rule == "additive" and pairing == "ascending":
        cover = _cover(dependencies, varied)
        if cover and len(cover) < len(points):
            points, method = cover, "cover"
            confounded = _confounded_pairs(points, list(varied), dependencies)
        array = _orthogonal_array(dependencies, varied)
        if array and len(array) < len(points):
            points, method, confounded = array, "array", ()

    confounded = tuple(pair for pair in confounded if all(len(varied[name]) > 1 for name in pair))
    has_loop = bool(structure.iteration)
    return ExperimentDesign(
        points=tuple(sorted(points, key=lambda point: (cost(point), point.values))),
        repetitions=1 if has_loop else REPETITIONS,
        iterations=max(iterations, MIN_ITERATIONS) if has_loop else 0,
        full=count_combinations(levels),
        insights=_explain(structure, dependencies, groups, method),
        confounded=confounded,
        checks=_check_points(confounded, varied, set(points)),
    )


def _check_levels(structure: Structure, levels: Levels) -> None:
    unknown = sorted(set(levels) - set(structure.parameters))
    if unknown:
        raise UsageError(
            f"'{unknown[0]}' is not an independent parameter; the parameters are"
            f" {', '.join(structure.parameters)}"
        )

    needed = [name for name in structure.parameters if name != structure.iteration]
    missing = [name for name in needed if name not in levels]
    if missing:
        raise UsageError(
            f"no levels of {', '.join(missing)}; give them, as in --levels {missing[0]}=8..128:5"
        )


def _shared_pairs(dependencies: Sequence[Dependency]) -> set[frozenset[str]]:
    """Return the pairs of parameters on which the same call path depends."""
    pairs: set[frozenset[str]] = set()
    for dependency in dependencies:
        pairs.update(map(frozenset, combinations(sorted(dependency.parameters), 2)))
    return pairs


def _colour(names: Sequence[str], edges: set[frozenset[str]]) -> list[list[str]]:
    """Return the fewest groups of parameters such that no group contains an edge.

    The result is exact: every partition is tried, with a growing number of groups.
    """
    for count in range(1, len(names) + 1):
        groups: list[list[str]] = []
        if _assign_groups(names, 0, groups, count, edges):
            return groups
    return [[name] for name in names]


def _assign_groups(
    names: Sequence[str],
    index: int,
    groups: list[list[str]],
    count: int,
    edges: set[frozenset[str]],
) -> bool:
    """Assign the names from `index` on to at most `count` groups, by backtracking."""
    if index == len(names):
        return True

    for group in groups:
        if all(frozenset((names[index], other)) not in edges for other in group):
            group.append(names[index])
            if _assign_groups(names, index + 1, groups, count, edges):
                return True
            group.pop()

    if len(groups) < count:
        groups.append([names[index]])
        if _assign_groups(names, index + 1, groups, count, edges):
            return True
        groups.pop()
    return False


def _lock_step(
    groups: Sequence[Sequence[str]], levels: Levels, pairing: Pairing, cost: Cost
) -> list[Point]:
    """Return a grid over groups whose parameters move together."""
    steps = [_group_steps(group, levels) for group in groups]
    if pairing == "ascending":
        return _grid(steps, levels)

    # Choose the cheapest order of each further parameter of a group, one after the other.
    for index, group in enumerate(groups):
        for name in group[1:]:
            ascending = [dict(step) for step in steps[index]]
            cheapest = None
            for order in _orders(len(ascending), is_mixed=pairing == "mixed"):
                steps[index] = [
                    tuple((step | {name: ascending[i][name]}).items())
                    for step, i in zip(ascending, order, strict=True)
                ]
                price = sum(map(cost, _grid(steps, levels)))
                if cheapest is None or price < cheapest[0]:
                    cheapest = price, steps[index]
            if cheapest:
                steps[index] = cheapest[1]

    return _grid(steps, levels)


def _group_steps(group: Sequence[str], levels: Levels) -> list[Step]:
    """Return the values that a group takes together, ascending.

    Parameters with fewer levels than the longest repeat some of them.
    """
    count = max(len(levels[name]) for name in group)
    steps = []
    for i in range(count):
        step = [(name, levels[name][_scale_index(i, count, len(levels[name]))]) for name in group]
        steps.append(tuple(step))
    return steps


def _scale_index(index: int, count: int, target_count: int) -> int:
    """Map an index below `count` to the proportional one below `target_count`."""
    if count == target_count:
        return index
    return round(index * (target_count - 1) / max(count - 1, 1))


def _grid(steps: Sequence[Sequence[Step]], levels: Levels) -> list[Point]:
    points: dict[Point, None] = {}
    for combination in product(*steps):
        values: PartialConfiguration = {}
        for step in combination:
            values |= dict(step)
        points[Point.of(values, levels)] = None
    return list(points)


def _orders(count: int, *, is_mixed: bool) -> list[tuple[int, ...]]:
    """Return the orders in which levels may be paired with ascending ones."""
    descending = tuple(reversed(range(count)))
    if not is_mixed:
        return [tuple(range(count)), descending]
    if count > PERMUTED_LEVELS:
        # The lowest, the highest, the second lowest, and so on.
        return [tuple(i // 2 if i % 2 == 0 else count - 1 - i // 2 for i in range(count))]

    # Spearman's coefficient of ranks without ties is 1 - 6 Σd² / (n³ - n).
    cubes = count**3 - count
    uncorrelated = []
    for order in permutations(range(count)):
        squares = sum((rank - index) ** 2 for index, rank in enumerate(order))
        if abs(cubes - 6 * squares) <= RANK_CORRELATION_LIMIT * cubes:
            uncorrelated.append(order)
    return uncorrelated or [descending]


def _cover(dependencies: Sequence[Dependency], levels: Levels) -> list[Point]:
    """Merge the partial configurations that call paths require into as few runs as possible.

    Call paths with the most configurations come first. The configurations of each are assigned to
    compatible runs so that levels ascend together (Hungarian method).
    """
    from scipy.optimize import linear_sum_assignment  # slow to import, and seldom needed

    runs: list[PartialConfiguration] = []
    for required in sorted(_required(dependencies, levels), key=len, reverse=True):
        remaining = list(required)
        if runs:
            prices = np.array(
                [[_misfit(run, partial, levels) for run in runs] for partial in remaining]
            )
            for i, j in zip(*linear_sum_assignment(prices), strict=True):
                if prices[i, j] < INCOMPATIBLE:
                    runs[j].update(remaining[i])
                    remaining[i] = {}
        runs += [dict(partial) for partial in remaining if partial]

    # A parameter on which no call path depends stays at its lowest level.
    for name in levels:
        if not any(name in run for run in runs):
            for run in runs or [{}]:
                run[name] = levels[name][0]

    return list(dict.fromkeys(_complete(run, levels) for run in runs))


def _required(
    dependencies: Sequence[Dependency], levels: Levels
) -> list[list[PartialConfiguration]]:
    """Return the partial configurations that each distinct kind of call path requires.

    A nest requires a grid over its parameters, with the other parameters of the call path at their
    lowest level.
    """
    required = []
    for nests in dict.fromkeys(_nest_sets(dependencies)):
        all_names = frozenset().union(*nests)
        partials: dict[Step, PartialConfiguration] = {}
        for nest in nests:
            names = [name for name in levels if name in nest]
            base = {name: levels[name][0] for name in levels if name in all_names - nest}
            for values in product(*(levels[name] for name in names)):
                partial = base | dict(zip(names, values, strict=True))
                partials[tuple(sorted(partial.items()))] = partial
        required.append(list(partials.values()))

    return required


def _nest_sets(dependencies: Sequence[Dependency]) -> list[frozenset[frozenset[str]]]:
    """Return what multiplies in each call path: the maximal parameter sets of its nests."""
    nest_sets = []
    for dependency in dependencies:
        names = {nest.parameters for nest in dependency.nests}
        maximal = _maximal_sets(names)
        if maximal:
            nest_sets.append(maximal)
    return nest_sets


def _maximal_sets(sets: Iterable[frozenset[str]]) -> frozenset[frozenset[str]]:
    candidates = set(sets)
    return frozenset(
        names for names in candidates if not any(names < other for other in candidates)
    )


def _misfit(run: PartialConfiguration, required: PartialConfiguration, levels: Levels) -> float:
    """Return the cost of extending a run by required values; INCOMPATIBLE if they contradict it.

    The cost grows with the distance between the relative levels, so that levels ascend together.
    """
    shared = run.keys() & required.keys()
    if any(run[name] != required[name] for name in shared):
        return INCOMPATIBLE
    new = required.keys() - run.keys()
    if not new:
        return 0.0 if shared else NEW_RUN_COST

    own = run.keys() - required.keys()
    level = np.mean([_relative_level(run, name, levels) for name in own]) if own else 0.5
    distances = [(_relative_level(required, name, levels) - level) ** 2 for name in new]
    return EXTENSION_COST + float(sum(distances))


def _relative_level(values: PartialConfiguration, name: str, levels: Levels) -> float:
    """Return 0 for the lowest level of a parameter, 1 for the highest."""
    of_parameter = levels[name]
    return of_parameter.index(values[name]) / max(len(of_parameter) - 1, 1)


def _complete(run: PartialConfiguration, levels: Levels) -> Point:
    """Set the parameters that no call path requires in a run to about the level of the others."""
    level = float(np.mean([_relative_level(run, name, levels) for name in run]))
    defaults = {name: levels[name][round(level * (len(levels[name]) - 1))] for name in levels}
    return Point.of(defaults | run, levels)


def _orthogonal_array(dependencies: Sequence[Dependency], levels: Levels) -> list[Point]:
    """Return an orthogonal array of strength t if at most t parameters multiply in a call path.

    Bush's construction over a prime s takes the values of all polynomials of degree below t at
    0 … s-1, and their leading coefficient. s is the smallest prime that is not below the number of
    levels; a parameter with fewer levels repeats some of them. The result is empty if there are too
    many parameters for it, or if it would save nothing.
    """
    strength = max((len(nest) for nests in _nest_sets(dependencies) for nest in nests), default=0)
    prime = max((len(values) for values in levels.values()), default=0)

    while not _is_prime(prime):
        prime += 1
    if not 2 <= strength < len(levels) <= prime + 1:
        return []

    points: dict[Point, None] = {}
    for coefficients in product(range(prime), repeat=strength):
        row = [sum(c * x**i for i, c in enumerate(coefficients)) % prime for x in range(prime)]
        symbols = [*row[: len(levels) - 1], coefficients[-1]]
        values = {
            name: of_parameter[_scale_index(symbol, prime, len(of_parameter))]
            for (name, of_parameter), symbol in zip(levels.items(), symbols, strict=True)
        }
        points[Point.of(values, levels)] = None

    return list(points)


def _is_prime(number: int) -> bool:
    return number >= 2 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def _pairs_within(groups: Sequence[Sequence[str]]) -> tuple[Pair, ...]:
    pairs: list[Pair] = []
    for group in groups:
        pairs += combinations(group, 2)
    return tuple(pairs)


def _confounded_pairs(
    points: Sequence[Point], names: Sequence[str], dependencies: Sequence[Dependency]
) -> tuple[Pair, ...]:
    """Return the pairs that no call path shares and whose levels always occur together."""
    shared = _shared_pairs(dependencies)
    confounded = []
    for first, second in combinations(names, 2):
        levels = {(point[first], point[second]) for point in points}
        count = max(len({a for a, _ in levels}), len({b for _, b in levels}))
        if frozenset((first, second)) not in shared and len(levels) <= count:
            confounded.append((first, second))
    return tuple(confounded)


def _check_points(
    confounded: Sequence[Pair], levels: Levels, existing: set[Point]
) -> tuple[Point, ...]:
    """Return cheap points at which the confounded parameters move apart: two for a pair.

    At each point one of the parameters that move together is high and the others are low. Of three
    or more parameters the last one is low at all points, so three parameters need two points and
    four need three.
    """
    if not confounded:
        return ()

    # Parameters of a confounded pair must not be high at the same point.
    high_at: dict[str, int] = {}
    for name in dict.fromkeys(name for pair in confounded for name in pair):
        used: set[int | None] = set()
        for pair in confounded:
            if name in pair:
                used.update(high_at.get(other) for other in pair)
        high_at[name] = next(number for number in range(len(levels)) if number not in used)

    points: dict[Point, None] = {}
    for number in range(max(2, *high_at.values())):
        values = {}
        for name, of_parameter in levels.items():
            high = (of_parameter[1:-1] or of_parameter)[-1]
            values[name] = high if high_at.get(name) == number else of_parameter[0]
        points[Point.of(values, levels)] = None

    return tuple(point for point in points if point not in existing)


def _explain(
    structure: Structure,
    dependencies: Sequence[Dependency],
    groups: Sequence[Sequence[str]],
    method: str,
) -> tuple[str, ...]:
    """Return sentences that say why the design may be smaller than the full one."""
    reasons = []
    if structure.iteration:
        reasons.append(
            f"{structure.iteration} acts linearly through the main loop: it is not varied, and runs"
            " are not repeated"
        )

    for name, powers in structure.derived:
        sources = ", ".join(base for base, _ in powers)
        reasons.append(f"{name} follows from {sources}: it is not varied")

    if method == "lock step":
        for group in groups:
            if len(group) > 1:
                names = " and ".join(group)
                reasons.append(f"{names} influence different call paths: they are varied together")
    elif method == "cover":
        reasons.append("parameters that only add up in a call path are varied one at a time")
    else:
        reasons.append("an orthogonal array contains a full grid for each call path")

    unused = set(structure.parameters) - {structure.iteration}

    for dependency in dependencies:
        unused -= dependency.parameters
    reasons += [f"no call path depends on {name}" for name in sorted(unused)]
    return tuple(reasons)
