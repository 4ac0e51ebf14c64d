"""The smallest experiment that still shows what there is to see [DET §3.2], and less than that.

Every call path must see a full grid over the parameters that multiply in one of its nests. What
does not meet in a call path may move together. Three designs satisfy that, and the smallest is
taken:

- *lock step*: parameters that no call path shares move together, as the paper has it: the fewest
  colours for the graph of shared parameters, a grid over the colours;
- *cover*: parameters that add up in a call path need a line each and no grid; the partial
  configurations that call paths ask for are merged into as few runs as possible;
- *array*: an orthogonal array after Bush (Orthogonal arrays of index unity, 1952) holds a full
  grid for any t of its parameters, so that chains of interactions cost no more than one of them.
"""

from collections.abc import Sequence
from itertools import combinations, permutations, product
from typing import Literal

import numpy as np
from scipy import stats
from scipy.optimize import linear_sum_assignment

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
Partial = dict[str, float]
RANK_CORRELATION_LIMIT = 0.3  # of parameters that are paired in mixed order
PERMUTED_LEVELS = 7  # more are not permuted one by one
INCOMPATIBLE = 1e9  # price of a pair that must not be; larger than any sum of prices


def deduce_design(
    structure: Structure,
    levels: Levels,
    *,
    rule: Rule = "additive",
    pairing: Pairing = "ascending",
    cost: Cost | None = None,
    iterations: int = MIN_ITERATIONS,
) -> ExperimentDesign:
    """The smallest design for what is known of a program.

    Args:
        structure: which call path depends on what.
        levels: values by parameter, those of the iteration parameter included where there is one.
        rule: "paper" asks for a full grid over all parameters of a call path; "additive" only over
            those that multiply in one of its nests.
        pairing: of parameters that move together: "ascending", which extrapolates best; "cheapest",
            most ranks with least work; "mixed", the cheapest that is not correlated.
        cost: of one run, in any unit; by default its ranks.
        iterations: of the main loop that give its mean well enough, see `iterations_for`.

    Raises:
        UsageError: a parameter has no levels, or levels are given for none.
    """
    _check(structure, levels)
    varied = {name: sorted(set(of)) for name, of in levels.items() if name != structure.iteration}
    found = structure.resolve()
    cost = cost or core_seconds(structure.ranks)
    groups = _colours(list(varied), _edges(found))
    points = _lock_step(groups, varied, pairing, cost)
    confounded = _together(groups)
    method = "lock step"
    if rule == "additive" and pairing == "ascending":
        for name, other in (("cover", _cover(found, varied)), ("array", _array(found, varied))):
            if other and len(other) < len(points):
                points, method = other, name
                confounded = () if name == "array" else _never_apart(points, list(varied), found)
    confounded = tuple(pair for pair in confounded if all(len(varied[n]) > 1 for n in pair))
    is_loop = bool(structure.iteration)
    return ExperimentDesign(
        points=tuple(sorted(points, key=lambda point: (cost(point), point.values))),
        repetitions=1 if is_loop else REPETITIONS,
        iterations=max(iterations, MIN_ITERATIONS) if is_loop else 0,
        full=count_combinations(levels),
        insights=_insights(structure, found, groups, method),
        confounded=confounded,
        checks=_checks(confounded, varied, set(points)),
    )


def _check(structure: Structure, levels: Levels) -> None:
    unknown = sorted(set(levels) - set(structure.parameters))
    known = ", ".join(structure.parameters)
    if unknown:
        raise UsageError(f"'{unknown[0]}' is no independent parameter; there are {known}")
    missing = [n for n in structure.parameters if n not in levels and n != structure.iteration]
    if missing:
        example = f"--levels {missing[0]}=8..128:5"
        raise UsageError(f"no levels of {', '.join(missing)}: say them, as in {example}")


def _edges(dependencies: Sequence[Dependency]) -> set[frozenset[str]]:
    """Pairs of parameters that one call path depends on."""
    return {
        frozenset(pair) for one in dependencies for pair in combinations(sorted(one.parameters), 2)
    }


def _colours(names: Sequence[str], edges: set[frozenset[str]]) -> list[list[str]]:
    """The fewest groups of parameters such that no group holds a pair that is connected.

    Exact: every partition is tried, in the order of growing numbers of groups.
    """
    for count in range(1, len(names) + 1):
        groups: list[list[str]] = []
        if _place(names, 0, groups, count, edges):
            return groups
    return [[name] for name in names]


def _place(
    names: Sequence[str], at: int, groups: list[list[str]], count: int, edges: set[frozenset[str]]
) -> bool:
    if at == len(names):
        return True
    for group in groups:
        if all(frozenset((names[at], other)) not in edges for other in group):
            group.append(names[at])
            if _place(names, at + 1, groups, count, edges):
                return True
            group.pop()
    if len(groups) < count:
        groups.append([names[at]])
        if _place(names, at + 1, groups, count, edges):
            return True
        groups.pop()
    return False


def _lock_step(
    groups: Sequence[Sequence[str]], levels: Levels, pairing: Pairing, cost: Cost
) -> list[Point]:
    """A grid over groups whose parameters move together."""
    steps = [_steps(group, levels) for group in groups]
    points = _grid(steps, levels)
    if pairing == "ascending":
        return points
    for at, group in enumerate(groups):
        for name in group[1:]:
            base = [dict(step) for step in steps[at]]
            best = None
            for order in _orders(len(base), is_mixed=pairing == "mixed"):
                tried = [
                    tuple((step | {name: base[i][name]}).items())
                    for step, i in zip(base, order, strict=True)
                ]
                steps[at] = tried
                price = sum(map(cost, _grid(steps, levels)))
                if best is None or price < best[0]:
                    best = price, tried
            steps[at] = best[1] if best else steps[at]
    return _grid(steps, levels)


def _steps(group: Sequence[str], levels: Levels) -> list[tuple[tuple[str, float], ...]]:
    """The values that a group takes together, ascending; shorter lists are spread over longer."""
    most = max(len(levels[name]) for name in group)
    return [
        tuple((name, levels[name][_spread(i, most, len(levels[name]))]) for name in group)
        for i in range(most)
    ]


def _spread(at: int, of: int, over: int) -> int:
    return at if of == over else round(at * (over - 1) / max(of - 1, 1))


def _grid(steps: Sequence[Sequence[tuple[tuple[str, float], ...]]], levels: Levels) -> list[Point]:
    chosen = (dict(part for step in one for part in step) for one in product(*steps))
    return list(dict.fromkeys(Point.of(values, levels) for values in chosen))


def _orders(count: int, *, is_mixed: bool) -> list[tuple[int, ...]]:
    """Orders in which levels may be paired with ascending ones."""
    falling = tuple(reversed(range(count)))
    if not is_mixed:
        return [tuple(range(count)), falling]
    if count > PERMUTED_LEVELS:
        half = (count + 1) // 2
        return [tuple(i // 2 if i % 2 == 0 else half + i // 2 for i in range(count))]
    apart = [
        order
        for order in permutations(range(count))
        if abs(stats.spearmanr(order, range(count)).statistic) <= RANK_CORRELATION_LIMIT
    ]
    return apart or [falling]


def _cover(dependencies: Sequence[Dependency], levels: Levels) -> list[Point]:
    """Merge the partial configurations that call paths ask for into as few runs as possible.

    One call path after the other, those that ask for most first: its partial configurations are
    assigned to runs that agree with them so that levels ascend together (Hungarian method).
    """
    runs: list[dict[str, float]] = []
    for asked in sorted(_asked(dependencies, levels), key=len, reverse=True):
        left = list(asked)
        if runs:
            price = np.array([[_misfit(run, one, levels) for run in runs] for one in left])
            for i, j in zip(*linear_sum_assignment(price), strict=True):
                if price[i, j] < INCOMPATIBLE:
                    runs[j].update(left[i])
                    left[i] = {}
        runs += [dict(one) for one in left if one]
    for name in levels:
        if not any(name in run for run in runs):  # no call path depends on it: the lowest will do
            for run in runs or [{}]:
                run[name] = levels[name][0]
    return list(dict.fromkeys(_filled(run, levels) for run in runs))


def _asked(dependencies: Sequence[Dependency], levels: Levels) -> list[list[Partial]]:
    """The partial configurations of each distinct kind of call path."""
    kinds = dict.fromkeys(_kinds(dependencies))
    found = []
    for nests in kinds:
        everything = frozenset().union(*nests)
        partial: dict[tuple[tuple[str, float], ...], Partial] = {}
        for nest in nests:
            names = [name for name in levels if name in nest]
            base = {name: levels[name][0] for name in levels if name in everything - nest}
            for at in product(*(levels[name] for name in names)):
                values = base | dict(zip(names, at, strict=True))
                partial[tuple(sorted(values.items()))] = values
        found.append(list(partial.values()))
    return found


def _kinds(dependencies: Sequence[Dependency]) -> list[frozenset[frozenset[str]]]:
    """What multiplies in each call path: the largest sets of parameters of its nests."""
    found = []
    for one in dependencies:
        sets = {nest.parameters for nest in one.nests}
        largest = frozenset(s for s in sets if not any(s < other for other in sets))
        if largest:
            found.append(largest)
    return found


def _misfit(run: Partial, asked: Partial, levels: Levels) -> float:
    """How far a run is from what is asked for: infinite where they contradict, else in levels."""
    shared = run.keys() & asked.keys()
    if any(run[name] != asked[name] for name in shared):
        return INCOMPATIBLE
    new = asked.keys() - run.keys()
    if not new:
        return 0.0 if shared else 1.0
    own = run.keys() - asked.keys()
    place = np.mean([_place_of(run, name, levels) for name in own]) if own else 0.5
    return 0.01 + float(sum((_place_of(asked, name, levels) - place) ** 2 for name in new))


def _place_of(values: Partial, name: str, levels: Levels) -> float:
    of = levels[name]
    return of.index(values[name]) / max(len(of) - 1, 1)


def _filled(run: Partial, levels: Levels) -> Point:
    """What no call path asked for in a run goes up with the rest."""
    place = float(np.mean([_place_of(run, name, levels) for name in run]))
    free = {name: levels[name][round(place * (len(levels[name]) - 1))] for name in levels}
    return Point.of(free | run, levels)


def _array(dependencies: Sequence[Dependency], levels: Levels) -> list[Point]:
    """An orthogonal array of strength t for call paths in which at most t parameters multiply.

    Bush's construction over a prime s: the values of all polynomials of degree below t at 0 … s-1,
    and their leading coefficient; s is the smallest prime that is not below the number of levels,
    and a parameter with fewer levels takes some of them more often. Empty where there are too many
    parameters for it, or it would save nothing.
    """
    strength = max((len(nest) for kind in _kinds(dependencies) for nest in kind), default=0)
    prime = max((len(of) for of in levels.values()), default=0)
    while not _is_prime(prime):
        prime += 1
    if not 2 <= strength < len(levels) <= prime + 1:
        return []
    found = []
    for powers in product(range(prime), repeat=strength):
        row = [sum(c * x**i for i, c in enumerate(powers)) % prime for x in range(prime)]
        symbols = [*row[: len(levels) - 1], powers[-1]] if len(levels) <= prime + 1 else row
        values = {
            name: of[_spread(symbol, prime, len(of))]
            for (name, of), symbol in zip(levels.items(), symbols, strict=True)
        }
        found.append(Point.of(values, levels))
    return list(dict.fromkeys(found))


def _is_prime(number: int) -> bool:
    return number >= 2 and all(number % of for of in range(2, int(number**0.5) + 1))


def _together(groups: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple(pair for group in groups for pair in combinations(group, 2))


def _never_apart(
    points: Sequence[Point], names: Sequence[str], dependencies: Sequence[Dependency]
) -> tuple[tuple[str, str], ...]:
    """Pairs that no call path shares and whose levels always come in the same pairs."""
    edges = _edges(dependencies)
    found = []
    for one, other in combinations(names, 2):
        pairs = {(point[one], point[other]) for point in points}
        count = max(len({a for a, _ in pairs}), len({b for _, b in pairs}))
        if frozenset((one, other)) not in edges and len(pairs) <= count:
            found.append((one, other))
    return tuple(found)


def _checks(
    confounded: Sequence[tuple[str, str]], levels: Levels, taken: set[Point]
) -> tuple[Point, ...]:
    """Cheap points off the diagonal, where what moved together moves apart: two for a pair.

    At each point one parameter of those that move together is high and the others are low; of three
    or more, the last is low at all points, so that three need two points, four need three.
    """
    if not confounded:
        return ()
    turn: dict[str, int] = {}
    for name in dict.fromkeys(name for pair in confounded for name in pair):
        beside = {turn.get(other) for pair in confounded if name in pair for other in pair}
        turn[name] = next(at for at in range(len(levels)) if at not in beside)
    found = []
    for at in range(max(2, *turn.values())):
        values = {
            name: (of[1:-1] or of)[-1] if turn.get(name) == at else of[0]
            for name, of in levels.items()
        }
        found.append(Point.of(values, levels))
    return tuple(point for point in dict.fromkeys(found) if point not in taken)


def _insights(
    structure: Structure,
    dependencies: Sequence[Dependency],
    groups: Sequence[Sequence[str]],
    method: str,
) -> tuple[str, ...]:
    found = []
    if structure.iteration:
        found.append(
            f"{structure.iteration} acts linearly through the main loop: it is not varied, and runs"
            " are not repeated"
        )
    for name, powers in structure.derived:
        found.append(f"{name} follows from {', '.join(base for base, _ in powers)}: not varied")
    if method == "lock step":
        found += [
            f"{' and '.join(group)} influence different call paths: varied together"
            for group in groups
            if len(group) > 1
        ]
    elif method == "cover":
        found.append("parameters that only add up in a call path are varied one at a time")
    else:
        found.append("an orthogonal array holds a full grid for each call path")
    idle = set(structure.parameters) - {structure.iteration}
    idle -= set().union(*(one.parameters for one in dependencies)) if dependencies else set()
    found += [f"no call path depends on {name}" for name in sorted(idle)]
    return tuple(found)
