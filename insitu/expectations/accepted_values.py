"""The values of an accepted campaign: whether a faster law is growth that the values show."""

import numpy as np

from insitu.entities import Metric, number
from insitu.modeling.base import Model

# By how much values of one program differ that are not counts, from campaign to campaign: memory of
# MPI by up to 4 % (examples/stencil2d.py, six campaigns with MPICH).
ALIKE = 0.05
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


def find_no_evidence(accepted: AcceptedValues, model: Model, metric: Metric) -> str:
    """Why the values of two campaigns are no evidence that one grows faster, "" if they may be.

    A law follows from few points, often without repetitions: one point that differs by chance
    makes another law of values that are otherwise the same. Whatever the laws are, a program that
    grows faster is further above the accepted values at the largest common coordinate than at
    smaller ones, by more than the quotients of the two campaigns vary otherwise.

    Args:
        accepted: the accepted values.
        model: of the same series, now.
        metric: of both.
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
    tolerance = 1.0 if metric.is_deterministic else 1.0 + ALIKE
    increase = float(quotients[-1] / np.median(quotients[:-1]))
    if increase > falls * tolerance:
        return ""
    where = ", ".join(f"{name}={number(x)}" for name, x in largest)
    return f"at {where} it is as much above the accepted campaign as at smaller scales"
