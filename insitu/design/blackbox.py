"""Dependencies from exact counts: which parameters a count depends on, and by which law.

A site is a piece of code that counts: a loop, a function, an operation on arrays. Its counts in the
pilot runs show on which parameters it depends, which of them multiply, which of them add up, and
often the exact exponents. Runs are deterministic, or equal pilot runs show that they are not. The
tolerance of 2 % only allows for sizes that do not divide evenly.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product

import numpy as np

from insitu.design.dependencies import Dependency, DependencyStatus, Nest, Structure
from insitu.design.pilot import changed_parameters
from insitu.errors import UsageError
from insitu.modeling.measurement import FloatArray

TOLERANCE = 0.02  # of a count; 10 % misses dependencies, 0 reports false ones at uneven sizes
_SIMPLEST_FIRST = "1 -1 2 1/2 -2 -1/2 3 3/2 -3/2 1/3 -1/3 2/3 -2/3 4/3 4 5/2"
EXPONENTS = tuple(map(Fraction, _SIMPLEST_FIRST.split()))
ROUNDING = 1e-9  # of the largest count
LOOPS = ("loop", "region")  # by line, or by the number of the compiler's counter
LOOP_SHARE = 0.5  # the main loop does at least this share of all work
LOOP_REST = 0.05  # up to this share may follow another law, e.g. work done every tenth iteration
EXPONENTS_TRIED = 3  # per parameter, where several parameters multiply

Site = tuple[str, str]  # call path, and what counts there: loop:12, visits, array:30
Configurations = Sequence[Mapping[str, float]]
Derived = tuple[tuple[str, tuple[tuple[str, Fraction], ...]], ...]


@dataclass(frozen=True, slots=True)
class MainLoop:
    """A loop that is entered once and runs as many iterations as the value of a parameter.

    Attributes:
        parameter: its number of iterations.
        callpath, site: where the loop is; "" if the counts do not show it.
        share: of all work that is proportional to the iterations.
    """

    parameter: str
    callpath: str
    site: str
    share: float


def deduce_structure(
    configurations: Configurations,
    counts: Mapping[Site, FloatArray],
    *,
    ranks: str = "",
    derived: Derived = (),
    iteration: str = "",
) -> tuple[Structure, MainLoop | None]:
    """Return the dependencies of each call path, and the main loop if there is one.

    Args:
        configurations: of the pilot runs; some are equal.
        counts: (n_configurations,) by site, the largest of all ranks.
        ranks: the parameter that is the number of ranks, "" if none is.
        derived: dependent parameters, copied to the result.
        iteration: the number of iterations of the main loop, if it is known; needed where the
            counts are per function and show no loops, as those of valgrind.

    Raises:
        UsageError: the work is not proportional to `iteration`.
    """
    sites = {site: np.asarray(values, dtype=float) for site, values in counts.items()}
    work = {site: values for site, values in sites.items() if not site[1].startswith("entries")}
    total = sum(values[0] for values in work.values()) or 1.0

    counts_by_path: dict[str, list[FloatArray]] = {}
    for (path, _), values in work.items():
        counts_by_path.setdefault(path, []).append(values)

    dependencies = [
        _deduce_dependency(path, configurations, columns, total)
        for path, columns in counts_by_path.items()
    ]
    dependencies.sort(key=lambda dependency: (-dependency.share, dependency.callpath))
    loop = _find_main_loop(configurations, sites, work)
    if iteration:
        loop = _check_main_loop(configurations, work, iteration)

    structure = Structure(
        parameters=tuple(configurations[0]),
        dependencies=tuple(dependencies),
        derived=derived,
        iteration=loop.parameter if loop else "",
        ranks=ranks,
    )
    return structure, loop


def deduce_nests(configurations: Configurations, counts: FloatArray) -> tuple[Nest, ...]:
    """Return the nests of one site.

    Args:
        configurations: of the pilot runs.
        counts: (n_configurations,).
    """
    names = _affecting_parameters(configurations, counts)
    if not names:
        return ()

    pairs = _interacting_pairs(configurations, counts, names)
    cliques = _maximal_cliques(names, pairs)

    nests = []
    for clique in cliques:
        others = set().union(*cliques) - clique
        powers = _fit_exponents(configurations, counts, sorted(clique), others)
        nests.append(Nest.of(powers) if powers else Nest.of(clique))

    return tuple(nests)


def _deduce_dependency(
    path: str, configurations: Configurations, columns: Sequence[FloatArray], total: float
) -> Dependency:
    """Collect the nests of all sites of a call path.

    Sites whose counts differ between equal runs are ignored. A nest without exponents is
    dropped if another one over the same parameters has them.
    """
    share = float(sum(values[0] for values in columns) / total)
    equal = [
        (i, j)
        for i, j in combinations(range(len(configurations)), 2)
        if configurations[i] == configurations[j]
    ]
    steady = [values for values in columns if all(_is_same(values[i], values[j]) for i, j in equal)]
    if not steady:
        return Dependency(path, (), share, DependencyStatus.NONDETERMINISTIC)

    nests: dict[Nest, None] = {}
    for values in steady:
        nests |= dict.fromkeys(deduce_nests(configurations, values))

    exact = {nest.parameters for nest in nests if _has_exponents(nest)}
    selected = [nest for nest in nests if nest.parameters not in exact or _has_exponents(nest)]
    return Dependency(path, tuple(selected), share)


def _has_exponents(nest: Nest) -> bool:
    return all(power for _, power in nest.factors)


def _is_same(first: float, second: float) -> bool:
    return abs(first - second) <= TOLERANCE * max(abs(first), abs(second))


def _affecting_parameters(configurations: Configurations, counts: FloatArray) -> list[str]:
    """Return the parameters that change the count when nothing else changes."""
    affecting = set()
    for i, j in combinations(range(len(counts)), 2):
        names = changed_parameters(configurations[i], configurations[j])
        if len(names) == 1 and not _is_same(counts[i], counts[j]):
            affecting.add(names[0])
    return [name for name in configurations[0] if name in affecting]


def _interacting_pairs(
    configurations: Configurations, counts: FloatArray, names: Sequence[str]
) -> set[frozenset[str]]:
    """Return the pairs of parameters whose effects do not add up."""
    base = configurations[0]
    count_at = {
        tuple(configuration.values()): count
        for configuration, count in zip(configurations, counts, strict=True)
    }

    pairs = set()
    for first, second in combinations(names, 2):
        for both in configurations:
            if set(changed_parameters(base, both)) != {first, second}:
                continue
            first_alone = count_at.get(tuple((dict(base) | {first: both[first]}).values()))
            second_alone = count_at.get(tuple((dict(base) | {second: both[second]}).values()))
            if first_alone is None or second_alone is None:
                continue

            values = [counts[0], count_at[tuple(both.values())], first_alone, second_alone]
            excess = values[1] - values[2] - values[3] + values[0]
            if abs(excess) > TOLERANCE * max(map(abs, values)):
                pairs.add(frozenset((first, second)))

    if len(names) == 3 and _has_triple_interaction(configurations, count_at, names):
        pairs.update(map(frozenset, combinations(names, 2)))
    return pairs


def _has_triple_interaction(
    configurations: Configurations,
    count_at: Mapping[tuple[float, ...], float],
    names: Sequence[str],
) -> bool:
    """Whether three parameters multiply: together they add more than they and their pairs do.

    Pairs alone do not show this if the count is zero at the base, as for messages between
    neighbours on a single rank.
    """
    base = configurations[0]
    subsets = [subset for size in range(len(names)) for subset in combinations(names, size)]
    signs = [(-1) ** (len(names) - len(subset)) for subset in subsets]

    for configuration in configurations:
        if not set(names) <= set(changed_parameters(base, configuration)):
            continue

        counts = []
        for subset in subsets:
            changes = {name: configuration[name] for name in subset}
            count = count_at.get(tuple((dict(base) | changes).values()))
            if count is not None:
                counts.append(count)
        if len(counts) < len(subsets):
            continue

        # The interaction by inclusion and exclusion. It sums twice as many counts as that of a
        # pair does, so the tolerance is twice as large.
        whole = count_at[tuple(configuration.values())]
        excess = whole + sum(sign * count for sign, count in zip(signs, counts, strict=True))
        if abs(excess) > 2 * TOLERANCE * max(map(abs, (whole, *counts))):
            return True

    return False


def _maximal_cliques(names: Sequence[str], pairs: set[frozenset[str]]) -> list[frozenset[str]]:
    """Return the maximal sets of parameters that all interact with each other.

    There are few parameters, so all subsets are tried, the largest first.
    """
    cliques: list[frozenset[str]] = []
    for size in range(len(names), 0, -1):
        for subset in combinations(names, size):
            is_clique = all(frozenset(pair) in pairs for pair in combinations(subset, 2))
            is_covered = any(set(subset) <= larger for larger in cliques)
            if is_clique and not is_covered:
                cliques.append(frozenset(subset))
    return cliques


def _fit_exponents(
    configurations: Configurations, counts: FloatArray, names: Sequence[str], others: Iterable[str]
) -> dict[str, Fraction | None]:
    """Return exponents such that the counts are a polynomial in these powers; {} if none fit.

    Only runs in which no other parameter changes are used. All products of the powers may add to
    the leading one, as in (n - 1) * (m - 2).
    """
    base = configurations[0]
    fixed = set(others) | (set(base) - set(names))
    rows = [
        i
        for i, configuration in enumerate(configurations)
        if not set(changed_parameters(base, configuration)) & fixed
    ]
    values = counts[rows]
    ratios = {
        name: np.array([configurations[i][name] / base[name] for i in rows]) for name in names
    }
    choices = [_rank_exponents(configurations, counts, name) for name in names]

    for powers in product(*choices):
        columns = [ratios[name] ** float(power) for name, power in zip(names, powers, strict=True)]
        matrix = _products_of_columns(columns, len(rows))
        if len(rows) <= len(names) + 1:
            continue

        fitted = matrix @ np.linalg.lstsq(matrix, values, rcond=None)[0]
        allowed = np.maximum(TOLERANCE / 2 * np.abs(values), ROUNDING * np.max(np.abs(values)))
        if np.all(np.abs(fitted - values) <= allowed):
            return dict(zip(names, powers, strict=True))

    return {}


def _products_of_columns(columns: Sequence[FloatArray], n_rows: int) -> FloatArray:
    """Return the products of all subsets of columns, the empty one included: (n_rows, 2^n)."""
    products = []
    for size in range(len(columns) + 1):
        for subset in combinations(range(len(columns)), size):
            chosen = [columns[k] for k in subset]
            products.append(np.prod(chosen, axis=0) if chosen else np.ones(n_rows))
    return np.stack(products, axis=1)


def _rank_exponents(
    configurations: Configurations, counts: FloatArray, name: str
) -> list[Fraction]:
    """Return the powers that fit the three counts of one parameter, closest and simplest first."""
    base = configurations[0]
    rows = _rows_of_parameter(configurations, name)
    x = np.array([configurations[i][name] / base[name] for i in rows])
    values = counts[rows]
    size = float(np.max(np.abs(values)))
    if np.ptp(values) <= TOLERANCE * size:  # the parameter acts only together with others
        return list(EXPONENTS[:EXPONENTS_TRIED])

    fits = []
    for simplicity, power in enumerate(EXPONENTS):
        matrix = np.stack([np.ones(len(x)), x ** float(power)], axis=1)
        fitted = matrix @ np.linalg.lstsq(matrix, values, rcond=None)[0]
        misfit = float(np.max(np.abs(fitted - values))) / size
        if misfit <= TOLERANCE / 2:
            fits.append((round(misfit, 4), simplicity, power))

    return [power for _, _, power in sorted(fits)[:EXPONENTS_TRIED]]


def _rows_of_parameter(configurations: Configurations, name: str) -> list[int]:
    """Return the runs in which at most this parameter differs from the base."""
    base = configurations[0]
    return [
        i
        for i, configuration in enumerate(configurations)
        if set(changed_parameters(base, configuration)) <= {name}
    ]


def _find_main_loop(
    configurations: Configurations,
    sites: Mapping[Site, FloatArray],
    work: Mapping[Site, FloatArray],
) -> MainLoop | None:
    """Find the loop that is entered once, runs as a parameter says, and does most of the work."""
    for name in configurations[0]:
        iterations = np.array([configuration[name] for configuration in configurations])
        for (path, site), values in sites.items():
            kind, _, line = site.partition(":")
            entries = sites.get((path, f"entries:{line}"))
            if kind not in LOOPS or entries is None or np.any(entries != 1):
                continue
            if not np.array_equal(values, iterations):
                continue

            share = _linear_share(configurations, work, name)
            if share >= LOOP_SHARE:
                return MainLoop(name, path, site, share)

    return None


def _check_main_loop(
    configurations: Configurations, work: Mapping[Site, FloatArray], name: str
) -> MainLoop:
    """The main loop that the user declares, if the counts are as they must be.

    Raises:
        UsageError: the parameter has no values, or the work is not proportional to it.
    """
    if name not in configurations[0]:
        raise UsageError(f"--iteration {name}: there is no --param {name}=A,B,C")
    share = _linear_share(configurations, work, name)
    if share < LOOP_SHARE:
        raise UsageError(
            f"--iteration {name}: {share:.0%} of the work is proportional to {name}, and"
            f" {LOOP_SHARE:.0%} are needed; vary it like the other parameters"
        )
    return MainLoop(name, "", "", share)


def find_loop_candidates(
    configurations: Configurations, counts: Mapping[Site, FloatArray]
) -> tuple[str, ...]:
    """The parameters that may be the number of iterations of a main loop, by the work alone.

    A size of the problem may have the same effect, so only the user knows which of them it is.

    Args:
        configurations: of the pilot runs.
        counts: (n_configurations,) by site, as for `deduce_structure`.
    """
    work = {site: values for site, values in counts.items() if not site[1].startswith("entries")}
    return tuple(
        name
        for name in configurations[0]
        if _linear_share(configurations, work, name) >= LOOP_SHARE
    )


def _linear_share(
    configurations: Configurations, work: Mapping[Site, FloatArray], name: str
) -> float:
    """The share of the work that is proportional to a parameter; 0 if too much is not linear."""
    slopes = [_slope(configurations, counts, name) for counts in work.values()]
    nonlinear = np.zeros(len(configurations))
    for counts, slope in zip(work.values(), slopes, strict=True):
        if slope is None:
            nonlinear = nonlinear + counts
    if np.any(nonlinear > LOOP_REST * sum(work.values())):
        return 0.0

    total = sum(values[0] for values in work.values())
    return float(sum(filter(None, slopes)) * configurations[0][name] / total) if total else 0.0


def _slope(configurations: Configurations, counts: FloatArray, name: str) -> float | None:
    """Return how fast a count grows with a parameter at the base; None if it is not linear."""
    rows = _rows_of_parameter(configurations, name)
    x = np.array([configurations[i][name] for i in rows])
    matrix = np.stack([np.ones(len(x)), x], axis=1)
    solution = np.linalg.lstsq(matrix, counts[rows], rcond=None)[0]

    misfit = float(np.max(np.abs(matrix @ solution - counts[rows])))
    if misfit > TOLERANCE * float(np.max(np.abs(counts[rows]))):
        return None
    return float(solution[1])
