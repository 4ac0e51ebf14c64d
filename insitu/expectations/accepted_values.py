"""The values of an accepted campaign: whether a faster law is growth that the values show."""

from collections.abc import Mapping

import numpy as np

from insitu.entities import Metric, number
from insitu.expectations.rounding import find_unit
from insitu.modeling.base import Model
from insitu.modeling.measurement import FloatArray

# By how much values of one program differ that are not counts, from campaign to campaign: memory of
# MPI by up to 4 % (examples/stencil2d.py, six campaigns with MPICH).
ALIKE = 0.05
# Standard deviations of one measurement by which a quotient must be above the others.
DEVIATIONS = 3.0
At = tuple[tuple[str, float], ...]
AcceptedValues = tuple[tuple[At, float], ...]


def accepted_values(model: Model) -> AcceptedValues:
    """The values of a model by their coordinates, such as ((("p", 8.0),), 0.5)."""
    points = model.coordinates.tolist()
    names = model.parameters
    return tuple(
        (tuple(zip(names, point, strict=True)), value)
        for point, value in zip(points, model.values.tolist(), strict=True)
    )


def are_as_accepted(accepted: AcceptedValues, model: Model) -> bool:
    """Whether all values of a series are equal to accepted ones, as counts of one program are."""
    values = dict(accepted_values(model))
    return bool(values) and values.items() <= dict(accepted).items()


def find_no_evidence(
    accepted: AcceptedValues, model: Model, metric: Metric, *, noise: float = 0.0
) -> str:
    """Why the values of two campaigns are no evidence that one grows faster, "" if they may be.

    A law follows from few points, often without repetitions: one point that differs by chance
    makes another law of values that are otherwise the same. Whatever the laws are, a program that
    grows faster is further above the accepted values at the largest common coordinate than at
    smaller ones, by more than the quotients of the two campaigns vary otherwise, and than their
    noise. It is so at a second coordinate as well: one may be that of a disturbed run.

    Args:
        accepted: the accepted values.
        model: of the same series, now.
        metric: of both.
        noise: relative, of one measurement; NaN if it is unknown.
    """
    values, before = dict(accepted_values(model)), dict(accepted)
    common = sorted(
        values.keys() & before.keys(), key=lambda at: (float(np.prod([x for _, x in at])), at)
    )
    largest = tuple(zip(model.parameters, model.coordinates.max(axis=0).tolist(), strict=True))
    if len(common) < 2 or common[-1] != largest:
        return ""
    if min(min(values[at], before[at]) for at in common) <= 0:
        return ""

    quotients = np.array([values[at] / before[at] for at in common])
    points = np.array([[x for _, x in at] for at in common])
    is_smaller = (points[:, None] <= points[None]).all(axis=2)  # in every parameter
    falls = float(np.where(is_smaller, quotients[:, None] / quotients[None], 1.0).max())
    increase = float(quotients[-1] / np.median(quotients[:-1]))
    if metric.is_deterministic:
        tolerance = 1.0 + _rounding(values, before, common[-1], quotients)
        is_seen_twice = True
    else:
        tolerance = max(1.0 + ALIKE, float(np.exp(DEVIATIONS * np.nan_to_num(noise))))
        others = np.sort(quotients[:-1])
        is_seen_twice = len(others) == 1 or bool(others[-1] > tolerance * others[0])
    if increase > falls * tolerance and is_seen_twice:
        return ""
    where = ", ".join(f"{name}={number(x)}" for name, x in largest)
    return f"at {where} it is as much above the accepted campaign as at smaller scales"


def _rounding(
    values: Mapping[At, float], before: Mapping[At, float], at: At, quotients: FloatArray
) -> float:
    """By how much the rounding of counts may change the quotient at a coordinate.

    Counts are whole numbers, those of a factor of other counts only nearly. Counts that are equal
    to the accepted ones at smaller scales are not rounded.
    """
    if np.all(quotients[:-1] == 1.0):
        return 0.0
    unit = find_unit([*values.values(), *before.values()])
    return unit / values[at] + unit / before[at]
