"""An earlier point that is off: the smallest run has a law of its own, or a single run was odd.

The smallest run often lacks what all others have: one rank does not communicate, and a node that is
not full has memory to spare. Any run may have been disturbed. Such a point bends every function of
all points. So the law of the other points competes, with one value that is e^w times as large, w
with the prior of `newest.weigh_shift`.
"""

import numpy as np

from insitu.modeling.evidence.answer import Answer, mix_claims
from insitu.modeling.evidence.newest import (
    DETECTED,
    MAX_LOG_ODDS,
    SIZE,
    OffPoint,
    compare_point,
    mix,
    weigh_shift,
)
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.measurement import FloatArray

MIN_POINTS = 6  # of a series whose first point is examined: five others determine a law
MIN_POINTS_OF_ODD = 5  # of a series with an odd point, which noise does not explain
OFF_PRIOR = 0.02  # that a certain point leaves the law, before any data
LARGEST_DENSITY = 1 / (SIZE * np.sqrt(2 * np.pi))  # of the logarithm of a point that is off
ODD = 1.0  # of a logarithm: a point that is a factor of e off its neighbours is odd. The model of
# noise ends at 40 %, so that neighbours differ by so much from noise once in a hundred times.


def weigh_point(
    data: RelativeData, candidates: Candidates, levels: FloatArray, *, point: int
) -> OffPoint:
    """Return the evidence that a point is off.

    Args:
        data: all n points of the series. candidates: fits of the other n - 1 points, in the units
            of the data. levels: (L,) of noise. point: its index.
    """
    beside = compare_point(data, candidates, levels, point=point)
    shift = weigh_shift(beside.logarithm[:, :, None], beside.variance[..., None], np.ones(1))
    return OffPoint(beside.is_usable, beside.log_joint(candidates, shift.log_density))


def oddness(x: FloatArray, values: FloatArray) -> FloatArray:
    """Return how far each point is from its neighbours, as the logarithm of a factor: (s, n).

    From their line on logarithmic axes. At the ends, from the nearer of the line through the next
    two points and of the next point.

    Args:
        x: (n,), ascending and positive, at least three. values: (s, n), positive.
    """
    log_x, log_y = np.log(x), np.log(values)
    result = np.empty(values.shape)
    share = (log_x[1:-1] - log_x[:-2]) / (log_x[2:] - log_x[:-2])
    result[:, 1:-1] = np.abs(log_y[:, 1:-1] - (1 - share) * log_y[:, :-2] - share * log_y[:, 2:])

    for end, next_point, third in ((0, 1, 2), (-1, -2, -3)):
        slope = (log_y[:, next_point] - log_y[:, third]) / (log_x[next_point] - log_x[third])
        on_line = log_y[:, next_point] + slope * (log_x[end] - log_x[next_point])
        of_line = np.abs(log_y[:, end] - on_line)
        result[:, end] = np.minimum(of_line, np.abs(log_y[:, end] - log_y[:, next_point]))
    return result


def find_odd_points(x: FloatArray, values: FloatArray, is_usable: BoolArray) -> np.ndarray:
    """Return the oddest point of each series, -1 where none is odd or the newest is: (s,).

    Args:
        x: (n,), ascending. values: (s, n). is_usable: (s,), whether all values are positive.
    """
    odd = np.full(len(values), -1, dtype=np.intp)
    if len(x) < MIN_POINTS_OF_ODD or x[0] <= 0:
        return odd
    distance = oddness(x, np.where(is_usable[:, None], values, 1.0))
    oddest = distance.argmax(axis=1)
    is_odd = (distance.max(axis=1) > ODD) & (oddest < len(x) - 1)
    return np.where(is_odd & is_usable, oddest, odd)


def combine_earlier(
    whole: Answer,
    law: Answer,
    *,
    log_odds: float,
    log_evidence: float,
    x: FloatArray,
    point: int,
    value: float,
) -> Answer:
    """Return one answer of two: one law of all points, and a law that one point leaves.

    Args:
        whole, law: answers on all points, and on all but this one.
        log_odds, log_evidence: that the point is off.
        x: (n,), values of the parameter. point: its index. value: measured there.
    """
    spread, of_law = whole.spreads[0], law.spreads[0]
    if spread is None or of_law is None:
        return whole

    share = float(1 / (1 + np.exp(-np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS))))
    mixed = mix(spread, of_law, share)
    if share <= DETECTED:
        probability = mix_claims(whole, law, share, at=float(x[-1]))
        return whole._replace(spreads=(mixed,), probability=probability)
    return law._replace(
        spreads=(mixed,),
        probability=mix_claims(law, whole, 1 - share, at=float(x[-1])),
        off_point=point,
        off_factor=value / float(law.functions[0](x[point : point + 1])[0]),
        log_evidence=log_evidence,
    )
