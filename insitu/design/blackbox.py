"""Dependencies from exact counts: what changes with what, and by which law.

A site is a place in the code that counts: a loop, a function, an operation on arrays. Its count in
each pilot run tells on which parameters it depends, which of them multiply and which add up, and
often the exact form. Runs are deterministic or are found not to be, so a tolerance of 2 % is only
for sizes that do not divide evenly.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product

import numpy as np

from insitu.design.dependencies import Dependency, DependencyStatus, Nest, Structure
from insitu.design.pilot import changed
from insitu.modeling.measurement import FloatArray

TOLERANCE = 0.02  # of a count; at 10 % dependencies are missed, at 0 uneven sizes give false ones
_SIMPLEST_FIRST = "1 -1 2 1/2 -2 -1/2 3 3/2 -3/2 1/3 -1/3 2/3 -2/3 4/3 4 5/2"
EXPONENTS = tuple(map(Fraction, _SIMPLEST_FIRST.split()))
ROUNDING = 1e-9  # of the largest count
LOOPS = ("loop", "region")  # by its line, or by its number among the compiler's counters
LOOP_SHARE = 0.5  # of all work that the main loop does at least
LOOP_REST = 0.05  # of all work that may follow another law, as what is done every tenth time
FORMS_TRIED = 3  # of each parameter, where several multiply

Site = tuple[str, str]  # call path, and what counts there: loop:12, visits, array:30
Configurations = Sequence[Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class MainLoop:
    """A loop that is entered once and runs as often as a parameter says."""

    parameter: str
    callpath: str
    site: str
    share: float


def deduce_structure(
    configurations: Configurations,
    counts: Mapping[Site, FloatArray],
    *,
    ranks: str = "",
    derived: tuple[tuple[str, tuple[tuple[str, Fraction], ...]], ...] = (),
) -> tuple[Structure, MainLoop | None]:
    """What each call path depends on, and the main loop where there is one.

    Args:
        configurations: of the pilot runs, the first two equal.
        counts: (n_configurations,) by site, the greatest of all ranks.
        ranks: the parameter that is the number of ranks, "" where none is.
        derived: dependent parameters, passed on.
    """
    sites = {site: np.asarray(values, dtype=float) for site, values in counts.items()}
    work = {site: values for site, values in sites.items() if not site[1].startswith("entries")}
    total = sum(values[0] for values in work.values()) or 1.0
    paths: dict[str, list[FloatArray]] = {}
    for (path, _), values in work.items():
        paths.setdefault(path, []).append(values)
    found = [_dependency(path, configurations, columns, total) for path, columns in paths.items()]
    loop = _main_loop(configurations, sites, work)
    return (
        Structure(
            parameters=tuple(configurations[0]),
            dependencies=tuple(sorted(found, key=lambda one: (-one.share, one.callpath))),
            derived=derived,
            iteration=loop.parameter if loop else "",
            ranks=ranks,
        ),
        loop,
    )


def deduce_nests(configurations: Configurations, counts: FloatArray) -> tuple[Nest, ...]:
    """The nests of one site.

    Args:
        configurations: of the pilot runs.
        counts: (n_configurations,).
    """
    names = _affecting(configurations, counts)
    if not names:
        return ()
    edges = _interacting(configurations, counts, names)
    parts = _cliques(names, edges)
    found = []
    for part in parts:
        others = set().union(*parts) - part
        powers = _form(configurations, counts, sorted(part), others)
        found.append(Nest.of(powers) if powers else Nest.of(part))
    return tuple(found)


def _dependency(
    path: str, configurations: Configurations, columns: Sequence[FloatArray], total: float
) -> Dependency:
    """The nests of all sites of a call path; those that differ between equal runs say nothing."""
    steady = [values for values in columns if _is_same(values[0], values[1])]
    share = float(sum(values[0] for values in columns) / total)
    if not steady:
        return Dependency(path, (), share, DependencyStatus.NONDETERMINISTIC)
    nests = dict.fromkeys(
        nest for values in steady for nest in deduce_nests(configurations, values)
    )
    known = {nest.parameters for nest in nests if all(power for _, power in nest.factors)}
    kept = [n for n in nests if n.parameters not in known or all(power for _, power in n.factors)]
    return Dependency(path, tuple(kept), share)


def _is_same(one: float, other: float) -> bool:
    return abs(one - other) <= TOLERANCE * max(abs(one), abs(other))


def _affecting(configurations: Configurations, counts: FloatArray) -> list[str]:
    """Parameters that change the count when nothing else changes."""
    found = set()
    for i, j in combinations(range(len(counts)), 2):
        names = changed(configurations[i], configurations[j])
        if len(names) == 1 and not _is_same(counts[i], counts[j]):
            found.add(names[0])
    return [name for name in configurations[0] if name in found]


def _interacting(
    configurations: Configurations, counts: FloatArray, names: Sequence[str]
) -> set[frozenset[str]]:
    """Pairs whose effects do not add up."""
    base = configurations[0]
    value = {tuple(one.values()): c for one, c in zip(configurations, counts, strict=True)}
    found = set()
    for one, other in combinations(names, 2):
        for both in configurations:
            if set(changed(base, both)) != {one, other}:
                continue
            single = [dict(base) | {name: both[name]} for name in (one, other)]
            alone = [value.get(tuple(at.values())) for at in single]
            if None in alone:
                continue
            values = [counts[0], value[tuple(both.values())], *alone]
            excess = values[1] - values[2] - values[3] + values[0]
            if abs(excess) > TOLERANCE * max(map(abs, values)):
                found.add(frozenset((one, other)))
    if len(names) == 3 and _is_triple(configurations, value, names):
        found.update(map(frozenset, combinations(names, 2)))
    return found


def _is_triple(
    configurations: Configurations, value: Mapping[tuple[float, ...], float], names: Sequence[str]
) -> bool:
    """Whether three multiply: all together are more than what they and their pairs add.

    Pairs alone do not show it where nothing is done at the base, as between neighbours on one rank.
    """
    base = configurations[0]
    for all_ in configurations:
        if not set(names) <= set(changed(base, all_)):
            continue
        some = [of for size in range(len(names)) for of in combinations(names, size)]
        parts = [
            value.get(tuple((dict(base) | {name: all_[name] for name in of}).values()))
            for of in some
        ]
        if None in parts:
            continue
        whole = value[tuple(all_.values())]
        signs = [(-1) ** (len(names) - len(of)) for of in some]
        excess = whole + sum(s * v for s, v in zip(signs, parts, strict=True) if v is not None)
        known = [v for v in parts if v is not None]
        if abs(excess) > 2 * TOLERANCE * max(map(abs, (whole, *known))):  # of twice as many sizes
            return True
    return False


def _cliques(names: Sequence[str], edges: set[frozenset[str]]) -> list[frozenset[str]]:
    """The largest sets of parameters that all interact with each other (few: tried one by one)."""
    found: list[frozenset[str]] = []
    for size in range(len(names), 0, -1):
        for some in combinations(names, size):
            if all(frozenset(pair) in edges for pair in combinations(some, 2)) and not any(
                set(some) <= larger for larger in found
            ):
                found.append(frozenset(some))
    return found


def _form(
    configurations: Configurations, counts: FloatArray, names: Sequence[str], others: Iterable[str]
) -> dict[str, Fraction | None]:
    """Exponents such that the counts are a polynomial in these powers; empty where none fit.

    Only runs in which nothing else changes are looked at; all products of the powers may add to the
    leading one, as in (n - 1) * (m - 2).
    """
    base = configurations[0]
    rows = [
        i
        for i, at in enumerate(configurations)
        if not set(changed(base, at)) & (set(others) | (set(base) - set(names)))
    ]
    values = counts[rows]
    choices = [_exponents(configurations, counts, name) for name in names]
    for powers in product(*choices):
        columns = [
            np.array([at[name] / base[name] for at in map(configurations.__getitem__, rows)])
            ** float(power)
            for name, power in zip(names, powers, strict=True)
        ]
        products = [
            np.prod([columns[k] for k in some], axis=0) if some else np.ones(len(rows))
            for size in range(len(names) + 1)
            for some in combinations(range(len(names)), size)
        ]
        matrix = np.stack(products, axis=1)
        if len(rows) <= len(names) + 1:
            continue
        fitted = matrix @ np.linalg.lstsq(matrix, values, rcond=None)[0]
        allowed = np.maximum(TOLERANCE / 2 * np.abs(values), ROUNDING * np.max(np.abs(values)))
        if np.all(np.abs(fitted - values) <= allowed):
            return dict(zip(names, powers, strict=True))
    return {}


def _exponents(configurations: Configurations, counts: FloatArray, name: str) -> list[Fraction]:
    """Powers of one parameter that go through its own three counts, the simplest first."""
    base = configurations[0]
    rows = [i for i, at in enumerate(configurations) if set(changed(base, at)) <= {name}]
    x = np.array([configurations[i][name] / base[name] for i in rows])
    values = counts[rows]
    size = float(np.max(np.abs(values)))
    if np.ptp(values) <= TOLERANCE * size:  # it only acts together with others
        return list(EXPONENTS[:FORMS_TRIED])
    found = []
    for power in EXPONENTS:
        matrix = np.stack([np.ones(len(x)), x ** float(power)], axis=1)
        fitted = matrix @ np.linalg.lstsq(matrix, values, rcond=None)[0]
        misfit = float(np.max(np.abs(fitted - values))) / size
        if misfit <= TOLERANCE / 2:
            found.append((round(misfit, 4), power))
    found.sort(key=lambda one: (one[0], EXPONENTS.index(one[1])))
    return [power for _, power in found[:FORMS_TRIED]]


def _main_loop(
    configurations: Configurations,
    sites: Mapping[Site, FloatArray],
    work: Mapping[Site, FloatArray],
) -> MainLoop | None:
    """The loop that is entered once, runs as a parameter says, and does most of the work."""
    total = sum(values[0] for values in work.values())
    for name in configurations[0]:
        times = np.array([one[name] for one in configurations])
        for (path, site), values in sites.items():
            kind, _, line = site.partition(":")
            entries = sites.get((path, f"entries:{line}"))
            if kind not in LOOPS or entries is None or np.any(entries != 1):
                continue
            if not np.array_equal(values, times):
                continue
            slopes = [_slope(configurations, one, name) for one in work.values()]
            others = [of for of, slope in zip(work.values(), slopes, strict=True) if slope is None]
            if np.any(sum(others, np.zeros(len(times))) > LOOP_REST * sum(work.values())):
                continue
            share = sum(filter(None, slopes)) * times[0] / total if total else 0.0
            if share >= LOOP_SHARE:
                return MainLoop(name, path, site, float(share))
    return None


def _slope(configurations: Configurations, counts: FloatArray, name: str) -> float | None:
    """How fast a count grows with a parameter at the base; None where it is no straight line."""
    base = configurations[0]
    rows = [i for i, at in enumerate(configurations) if set(changed(base, at)) <= {name}]
    x = np.array([configurations[i][name] for i in rows])
    matrix = np.stack([np.ones(len(x)), x], axis=1)
    solution = np.linalg.lstsq(matrix, counts[rows], rcond=None)[0]
    worst = float(np.max(np.abs(matrix @ solution - counts[rows])))
    if worst > TOLERANCE * float(np.max(np.abs(counts[rows]))):
        return None
    return float(solution[1])
