"""Adaptive-grid subspace clustering, MAFIA: exponential in the dimensions k of a cluster.

    insitu run -n 1 --param k=8 --campaign mafia.insitu -- examples/mafia.py --dimensions 8

The second case study of [VAL §4.3]. Points lie in a space of 20 dimensions; a cluster is dense in k
of them. Each dimension is cut into windows, as wide as points are equally dense (the adaptive
grid). Dense windows are units of one dimension; from level to level units that share all windows
but one are joined (gen), what was generated several times is kept once (dedup), points are counted
(pcount), and units that belong to a denser one above are taken out (unjoin). The cluster has
C(k, j) units of j dimensions, each generated j (j - 1) / 2 times from its C(j, 2) pairs, so with
one cluster there are, below mafia.py->main->cluster,

    call path         visits                                        grows as
    gen->join         k (k - 1) 2^k / 8                             k^2 2^k
    gen->join->extend the sum over j of j C(j, 2) C(k, j)           k^3 2^k
    dedup->same       the sum over j of C(C(j, 2), 2) C(k, j)       k^4 2^k
    pcount->narrow    k 2^(k - 1) - k                               k 2^k
    unjoin->absorb    k (k - 1) 2^k / 4                             k^2 2^k

where j goes from 2 to k.
"""

import argparse
import sys
from collections import defaultdict
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 20
CELLS = 20  # of the histogram of a dimension
ALIKE = 0.5  # neighbouring cells are one window where the smaller has this share of the larger
DENSE = 2.0  # times the points that a unit would hold if they were spread evenly
SHARE = 0.6  # of the points that are in the cluster
LOW, HIGH = 0.2, 0.3  # where the cluster lies in each of its dimensions

Points = NDArray[np.float64]
Window = tuple[int, float, float]  # dimension, from, to
Unit = tuple[Window, ...]  # windows of different dimensions, ascending
Pair = tuple[Unit, Unit]


def main(dimensions: int, points: int) -> list[Unit]:
    """Make points with one cluster, find it, and return its maximal dense units."""
    table = scatter(dimensions, points)
    found = cluster(table)
    print(f"k={dimensions}: {len(found)} cluster of {len(found[0]) if found else 0} dimensions")
    return found


def scatter(dimensions: int, points: int) -> Points:
    """Return evenly spread points, except those of the cluster in its first dimensions."""
    generator = np.random.default_rng(dimensions)
    table = generator.random((points, DIMENSIONS))
    inside = int(SHARE * points)
    table[:inside, :dimensions] = LOW + (HIGH - LOW) * table[:inside, :dimensions]
    return table


def cluster(table: Points) -> list[Unit]:
    """Join dense units, from windows upwards, until no dense unit can be joined."""
    members = {}
    for dimension in range(DIMENSIONS):
        for window in grid(table[:, dimension], dimension):
            inside = within(table, window)
            if is_dense((window,), inside):
                members[window] = inside
    dense: list[Unit] = [(window,) for window in members]
    kept: list[Unit] = []
    while dense:
        pairs = gen(dense)
        above: list[Unit] = []
        for unit in dedup(pairs):
            if pcount(unit, members):
                above.append(unit)
        kept += unjoin(dense, pairs, set(above))
        dense = above
    return kept


def grid(values: Points, dimension: int) -> list[Window]:
    """Return the windows of a dimension: neighbouring cells of similar counts are merged."""
    counts, edges = np.histogram(values, CELLS, (0.0, 1.0))
    windows, start = [], 0
    for i in range(1, CELLS + 1):
        here = counts[start:i].mean()
        if i == CELLS or min(counts[i], here) < ALIKE * max(counts[i], here):
            windows.append((dimension, float(edges[start]), float(edges[i])))
            start = i
    return windows


def within(table: Points, window: Window) -> NDArray[np.bool_]:
    """Return which points lie in a window."""
    dimension, low, high = window
    values = table[:, dimension]
    return np.asarray((values >= low) & (values < high))


def is_dense(unit: Unit, inside: NDArray[np.bool_]) -> bool:
    """Whether a unit holds more points than an even spread would put there."""
    volume = 1.0
    for _, low, high in unit:
        volume *= high - low
    return bool(inside.sum() > DENSE * volume * len(inside))


def gen(dense: list[Unit]) -> list[tuple[Unit, Pair]]:
    """Return candidates of one more dimension with their parents, including duplicates."""
    sharing = defaultdict(list)
    for unit in dense:
        for i in range(len(unit)):
            sharing[unit[:i] + unit[i + 1 :]].append(unit)
    candidates = []
    for common, units in sharing.items():
        for a, b in combinations(units, 2):
            joined = join(common, a, b)
            if joined:
                candidates.append((joined, (a, b)))
    return candidates


def join(common: Unit, a: Unit, b: Unit) -> Unit:
    """Return the windows of both in order; nothing if they differ within a dimension."""
    (first,) = set(a) - set(common)
    (second,) = set(b) - set(common)
    if first[0] == second[0]:
        return ()
    joined: list[Window] = []
    for window in sorted((*common, first, second)):
        extend(joined, window)
    return tuple(joined)


def extend(unit: list[Window], window: Window) -> None:
    """Add a window."""
    unit.append(window)


def dedup(candidates: list[tuple[Unit, Pair]]) -> list[Unit]:
    """Remove duplicates: candidates with equal keys are compared pair by pair."""
    alike = defaultdict(list)
    for unit, _ in candidates:
        alike[hash(unit)].append(unit)
    unique = []
    for units in alike.values():
        repeated = [False] * len(units)
        for i, j in combinations(range(len(units)), 2):
            repeated[j] |= same(units[i], units[j])
        unique += [unit for unit, again in zip(units, repeated, strict=True) if not again]
    return unique


def same(a: Unit, b: Unit) -> bool:
    """Whether two candidates are equal."""
    return a == b


def pcount(unit: Unit, members: dict[Window, NDArray[np.bool_]]) -> bool:
    """Whether a candidate is dense: its points are those in all of its windows."""
    inside = np.ones(len(members[unit[0]]), dtype=bool)
    for window in unit:
        inside = narrow(inside, members[window])
    return is_dense(unit, inside)


def narrow(inside: NDArray[np.bool_], window: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the points that are also in a further window."""
    return np.asarray(inside & window)


def unjoin(dense: list[Unit], pairs: list[tuple[Unit, Pair]], above: set[Unit]) -> list[Unit]:
    """Return the units that are part of no dense unit of more dimensions."""
    absorbed: set[Unit] = set()
    for joined, pair in pairs:
        for unit in pair:
            absorb(unit, joined in above, absorbed)
    return [unit for unit in dense if unit not in absorbed]


def absorb(unit: Unit, is_dense_above: bool, absorbed: set[Unit]) -> None:
    """Remove a unit if a unit that was joined from it is dense."""
    if is_dense_above:
        absorbed.add(unit)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Adaptive-grid subspace clustering.")
    parser.add_argument("--dimensions", type=int, default=6, help="k, of the cluster; 2 to 16")
    parser.add_argument("--points", type=int, default=2000)
    options = parser.parse_args()
    if not 2 <= options.dimensions <= 16 or options.points < 500:
        sys.exit("mafia.py: --dimensions 2 to 16, --points 500 or more")
    main(options.dimensions, options.points)
