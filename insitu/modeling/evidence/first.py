"""A first point that is off: the smallest run has a law of its own.

The smallest run often lacks what all others have: one rank does not communicate, and a node that is
not full has memory to spare. Such a point bends every function of all points. So the law of the
other points competes, with a first value that is e^w times as large, w from N(0, SIZE²).
"""

import numpy as np

from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.newest import (
    DETECTED,
    MAX_LOG_ODDS,
    OffPoint,
    compare_point,
    mix,
    weigh_shift,
)
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.measurement import FloatArray

MIN_POINTS = 6  # of a series whose first point is examined: five others determine a law
OFF_PRIOR = 0.02  # that the first point leaves the law, before any data


def weigh_first_point(data: RelativeData, candidates: Candidates, levels: FloatArray) -> OffPoint:
    """Return the evidence that the first point is off.

    Args:
        data: all n points of the series. candidates: fits of the last n - 1 points, in the units
            of the data. levels: (L,) of noise.
    """
    first = compare_point(data, candidates, levels, point=0)
    shift = weigh_shift(first.logarithm[:, :, None], first.variance[..., None], np.ones(1))
    return OffPoint(first.is_usable, first.log_joint(candidates, shift.log_density))


def combine_first(
    whole: Answer, law: Answer, *, log_odds: float, log_evidence: float, x: float, value: float
) -> Answer:
    """Return one answer of two: one law of all points, and a law that the first point leaves.

    Args:
        whole, law: answers on all points, and on all but the first.
        log_odds, log_evidence: that the first point is off.
        x, value: of the first point.
    """
    spread, of_law = whole.spreads[0], law.spreads[0]
    if spread is None or of_law is None:
        return whole

    share = float(1 / (1 + np.exp(-np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS))))
    mixed = mix(spread, of_law, share)
    if share <= DETECTED:
        return whole._replace(spreads=(mixed,))
    factor = value / float(law.functions[0](np.array([x]))[0])
    return law._replace(spreads=(mixed,), first_factor=factor, log_evidence=log_evidence)
