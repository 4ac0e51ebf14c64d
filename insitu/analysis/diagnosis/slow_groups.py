"""A group of ranks does more than the others at all scales, by exact counts.

The ranks of one row of a grid, the leaders of nodes, or those whose part of a domain has a layer
more are several, but no more than half of all. Ranks at the walls of a domain have less to do than
those inside, which are few on few ranks as well. That imbalance goes away on more ranks, and is
told apart by two facts: the share of the ranks inside grows, and what they do compared with the
others changes with p until every kind of rank exists.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from insitu.analysis.diagnosis.budget import Baseline, lowest_price, visit_price
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi
from insitu.analysis.diagnosis.slow_ranks import LEAST_RATIO, LEAST_SHARE, counted_work
from insitu.analysis.diagnosis.statements import Statement
from insitu.analysis.diagnosis.times import ALIKE, imbalance_statement, top_ranks
from insitu.entities import VISITS, is_start_up
from insitu.modeling.measurement import FloatArray

LEAST_SCALES = 4  # above two ranks
LARGEST_SHARE = 0.5  # of the ranks, that a group may have at the largest scale


def find_slow_groups(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """Functions that several ranks visit more often than all others, at all scales."""
    scales = [i for i, p in enumerate(measurements.p) if p > 2]
    if len(scales) < LEAST_SCALES:
        return

    work = counted_work(measurements)
    largest = measurements.groups[-1]
    for owner in measurements.members:
        if is_mpi(owner) or is_start_up(owner):
            continue
        visits = measurements.series([owner], VISITS.name)
        if not visits.is_repeatable(np.max) or not visits.is_repeatable(np.mean):
            continue
        last = visits.vectors[-1][0]
        more = float(last.max() - last.mean())
        excess = certain = lowest_price(largest, owner) * more
        if measurements.has_crowded:  # what it took beyond that, ranks may have waited for a core
            certain = min(excess, visit_price(measurements, owner) * more)
        if certain < LEAST_SHARE * work or last.max() < LEAST_RATIO * last.mean():
            continue
        ratio = _steady_ratio([visits.vectors[i][0] for i in scales])
        if ratio is not None:
            yield imbalance_statement(
                measurements,
                owner,
                last,
                excess,
                baseline,
                is_counted=True,
                note=f"; {ratio:.2g} times as often as the others at all"
                f" {len(scales)} scales above two ranks",
            )


def _steady_ratio(vectors: Sequence[FloatArray]) -> float | None:
    """The largest count divided by the median of the ranks that count less.

    None unless several ranks count most at the largest scale, as steadily as at the others.

    Args:
        vectors: the visits of all ranks at each scale, (p,).
    """
    shares, ratios = [], []
    for vector in vectors:
        top = top_ranks(vector)
        others = np.delete(vector, top)
        if not others.size or not np.median(others):
            return None
        shares.append(len(top) / len(vector))
        ratios.append(float(vector.max() / np.median(others)))

    is_steady = max(ratios) <= ALIKE * min(ratios) and shares[-1] <= shares[0]
    is_group = len(top) > 1 and shares[-1] <= LARGEST_SHARE
    return ratios[-1] if is_steady and is_group else None
