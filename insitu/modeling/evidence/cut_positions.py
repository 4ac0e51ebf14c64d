"""Cut positions: where a series may be cut, and the segments that this needs.

The work grows with the cube of their number. So a series of many points may be cut at some of them
only, and where it is cut is then found among the points nearby.
"""

from collections.abc import Sequence

import numpy as np

from insitu.modeling.evidence.segment import Span
from insitu.modeling.measurement import FloatArray

ALL_UP_TO = 48  # points of a series that may be cut anywhere
# Cuts of a longer series: so many at equal steps of the index, and so many at equal ratios of x,
# which resolves the cores of a node and the nodes of a machine.
CHOSEN = 20


def possible_cuts(x: FloatArray) -> list[int]:
    """Return the first points of segments that a series at x (n,) may have, ascending."""
    n = len(x)
    if n <= ALL_UP_TO:
        return list(range(1, n))
    by_index = np.linspace(1, n - 1, CHOSEN)
    by_ratio = np.interp(np.linspace(0, 1, CHOSEN), _log_positions(x), np.arange(n))
    chosen = np.unique(np.concatenate([by_index, by_ratio]).round().astype(int))
    return [cut for cut in chosen.tolist() if 1 <= cut < n]


def cuts_near(cuts: Sequence[int], x: FloatArray) -> list[int]:
    """Return the points between the possible cuts on either side of each of these, ascending.

    About `ALL_UP_TO` of them at most, at equal steps; the cuts themselves always.
    """
    possible = [0, *possible_cuts(x), len(x)]
    at_most = ALL_UP_TO // len(cuts)
    found: set[int] = set(cuts)
    for cut in cuts:
        i = possible.index(cut)
        between = range(possible[i - 1] + 1, possible[i + 1])
        step = -(-len(between) // at_most)
        found.update(between[::step])
    return sorted(found)


def list_spans(n: int, cuts: Sequence[int], *, min_points: int, several: bool) -> list[Span]:
    """Return the segments [i, j) into which these cuts may divide n points.

    Also each first segment with one point more, which a bend needs; without the whole series.

    Args:
        cuts: ascending. min_points: of a segment. several: more than one cut.
    """
    ends = sorted({*cuts, *(cut + 1 for cut in cuts), n})
    spans = []
    for i in (0, *cuts):
        for j in ends:
            is_end = i == 0 or j == n
            if j - i >= min_points and (i, j) != (0, n) and (several or is_end):
                spans.append((i, j))
    return spans


def _log_positions(x: FloatArray) -> FloatArray:
    """Positions of points on an axis from 0 to 1, logarithmic if all are positive: (n,)."""
    positions = np.log(x) if x[0] > 0 else x
    return np.asarray((positions - positions[0]) / (positions[-1] - positions[0]))
