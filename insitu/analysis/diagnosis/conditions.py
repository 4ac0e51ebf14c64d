"""What must be true for a limit to hold on more ranks, where the runs leave it open."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.followers import Followers
from insitu.analysis.diagnosis.laws import ROWS_AND_COLUMNS
from insitu.analysis.diagnosis.limit import Limit
from insitu.analysis.diagnosis.measurements import Measurements
from insitu.analysis.diagnosis.split_communicators import settle_split
from insitu.entities import RunRecord, number
from insitu.modeling.measurement import FloatArray


def with_conditions(
    limits: Sequence[Limit],
    measurements: Measurements,
    records: Sequence[RunRecord],
    followers: Followers,
) -> list[Limit]:
    """Limits with conditions, without those that end with a node."""
    return list(_settle_grids(settle_split(measurements, records, limits), measurements, followers))


def _settle_grids(
    limits: Iterable[Limit], measurements: Measurements, followers: Followers
) -> Iterator[Limit]:
    """A condition for laws of the sides of a grid that a parameter explains as well.

    Few values of a parameter that rise in equal steps may by chance be the rows and columns of a
    grid of ranks.
    """
    p = measurements.p
    for limit in limits:
        name = None
        law = limit.growth.law if limit.is_exact else None
        if law is not None and any(factor.term is ROWS_AND_COLUMNS for factor in law.factors):
            name = _find_explaining(np.array([law.at(scale) for scale in p.tolist()]), p, followers)
        if name is None:
            yield limit
        else:
            run = f"p = {number(p[-1])} with another {name}"
            yield replace(limit, condition=f"unless it grows with {name}: run {run}", run=run)


def _find_explaining(counts: FloatArray, p: FloatArray, followers: Followers) -> str | None:
    """The first parameter of which counts (n_scales,) are a multiple and a constant; or None."""
    for name, by_ranks in followers.items():
        values = np.array([by_ranks.get(scale, np.nan) for scale in p.tolist()])
        if np.isnan(values).any() or np.ptp(values) == 0:
            continue
        line = np.polyval(np.polyfit(values, counts, 1), values)
        if np.allclose(line, counts, rtol=1e-9):
            return name
    return None
