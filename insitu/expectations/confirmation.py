"""Whether a violation is more than one measurement that was disturbed.

A law follows from few points. Where a point is measured once or twice, one disturbed run makes
another law, of which the posterior is certain: it knows the noise of usual runs alone. Such a
violation counts if it is seen without any of these points as well.
"""

from fractions import Fraction

import numpy as np

from insitu.entities import number
from insitu.expectations.growth import CONSTANT, Growth
from insitu.expectations.limits import Expectation
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import Factor

MIN_REPETITIONS = 3  # of which the median is that of usual runs if one is disturbed
DEVIATIONS = 2.0  # times the noise, root mean square, within which values are as expected


def find_disturbing_point(
    coordinates: FloatArray,
    values: FloatArray,
    expectation: Expectation,
    *,
    parameters: tuple[str, ...],
    noise: float,
) -> str:
    """A point without which the values are as expected, such as "p=16"; "" if there is none.

    Args:
        coordinates: (n_points, n_parameters).
        values: (n_points, n_repetitions), positive, NaN where not measured.
        expectation: that the values of all points violate.
        parameters: of the coordinates.
        noise: relative, of one measurement.
    """
    counts = np.isfinite(values).sum(axis=1)
    points, measured = coordinates[counts > 0], values[counts > 0]
    counts = counts[counts > 0]
    medians = np.nanmedian(measured, axis=1)
    if np.any(medians <= 0):
        return ""

    columns = _columns(points, expectation, parameters)
    for i in np.flatnonzero(counts < MIN_REPETITIONS)[::-1].tolist():
        others = np.arange(len(points)) != i
        if _is_as_expected(columns[others], medians[others], noise):
            at = zip(parameters, points[i].tolist(), strict=True)
            return ", ".join(f"{name}={number(value)}" for name, value in at)
    return ""


def _columns(
    points: FloatArray, expectation: Expectation, parameters: tuple[str, ...]
) -> FloatArray:
    """What values as expected are a sum of, at each point: (n_points, n_columns).

    Beside a constant, the expected growth and its limits; where growth below is as expected, too,
    what falls.
    """
    growths: list[Growth] = [CONSTANT, expectation.growth, expectation.upper]
    if expectation.is_bound or expectation.growth.is_constant:
        growths += [Growth(((Factor(name, alpha=Fraction(-1)),),)) for name in parameters]
    else:
        growths.append(expectation.lower)
    rows = [dict(zip(parameters, point, strict=True)) for point in points.tolist()]
    return np.array([[growth.at(row) for growth in growths] for row in rows])


def _is_as_expected(columns: FloatArray, values: FloatArray, noise: float) -> bool:
    """Whether a sum with coefficients that are not negative describes values up to their noise."""
    from scipy.optimize import nnls  # takes a second to import, and few violations need it

    relative = columns / values[:, None]
    relative = relative / np.maximum(relative.max(axis=0), np.finfo(float).tiny)
    if not np.isfinite(relative).all():
        return False
    _, distance = nnls(relative, np.ones(len(values)))
    return bool(distance <= DEVIATIONS * noise * np.sqrt(len(values)))
