"""Measured values made ready for modelers: what is missing, repeated or not finite."""

from dataclasses import dataclass

import numpy as np

from insitu.errors import ModelingError
from insitu.modeling.measurement import FloatArray, IntArray, Points


@dataclass(frozen=True, slots=True)
class Series:
    """Series on distinct coordinates in ascending order, one value per point.

    coordinates: (n_points, n_parameters). values: (n_series, n_points), the median over
    repetitions, NaN where nothing was measured. counts: (n_series, n_points), repetitions behind
    each value. deviations: (n_series, n_points), relative standard deviation of one repetition,
    NaN where fewer than two are known.
    """

    coordinates: FloatArray
    values: FloatArray
    counts: FloatArray
    deviations: FloatArray

    def part(self, rows: IntArray) -> "Series":
        """The series of these numbers (k,)."""
        return Series(self.coordinates, self.values[rows], self.counts[rows], self.deviations[rows])


def one_parameter(points: Points, modeler: str) -> list[tuple[FloatArray, FloatArray]]:
    """What was measured of each series: coordinates (n_points, 1) and values (n_points,).

    Raises:
        ModelingError: for several parameters, naming the modeler that knows only one.
    """
    if len(points.parameters) != 1:
        raise ModelingError(
            f"modeler '{modeler}' knows one parameter, not {', '.join(points.parameters)}; "
            "use 'evidence' or 'search'"
        )
    series = reduce(points)
    known = [(values, ~np.isnan(values)) for values in series.values]
    return [(series.coordinates[measured], values[measured]) for values, measured in known]


def reduce(points: Points) -> Series:
    """Merge repetitions and points with equal coordinates; what is not finite counts as not
    measured.

    Points with a coordinate that is not finite are dropped.

    Raises:
        ModelingError: if the shapes of coordinates and values do not fit.
    """
    coordinates = np.asarray(points.coordinates, dtype=np.float64)
    values = np.asarray(points.values, dtype=np.float64)
    if coordinates.ndim != 2 or values.ndim != 3 or values.shape[1] != len(coordinates):
        raise ModelingError(
            f"coordinates of shape {coordinates.shape} and values of shape {values.shape} do not "
            "fit; give (n_points, n_parameters) and (n_series, n_points, n_repetitions)"
        )
    usable = np.isfinite(coordinates).all(axis=1)
    coordinates, values = coordinates[usable], values[:, usable]
    values = np.where(np.isfinite(values), values, np.nan)
    distinct, index = np.unique(coordinates, axis=0, return_inverse=True)
    if len(distinct) < len(coordinates) or not np.array_equal(distinct, coordinates):
        values = _merge(values, index.ravel(), len(distinct))
    counts = (~np.isnan(values)).sum(axis=2).astype(float)
    return Series(distinct, *_summary(values, counts))


def _merge(values: FloatArray, index: np.ndarray, size: int) -> FloatArray:
    """Values of equal coordinates side by side, as further repetitions."""
    rounds = np.zeros(len(index), dtype=np.intp)
    for place in range(size):
        here = np.flatnonzero(index == place)
        rounds[here] = np.arange(len(here))
    repetitions = values.shape[2]
    width = (int(rounds.max()) + 1) * repetitions if len(rounds) else repetitions
    merged = np.full((values.shape[0], size, width), np.nan)
    for i, (place, turn) in enumerate(zip(index, rounds, strict=True)):
        merged[:, place, turn * repetitions : (turn + 1) * repetitions] = values[:, i]
    return merged


def _summary(values: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    if values.shape[2] == 1:
        return values[:, :, 0], counts, np.full(counts.shape, np.nan)
    filled = np.where(counts[:, :, None] > 0, values, 0.0)
    centre = np.nanmedian(filled, axis=2)
    mean = np.nansum(filled, axis=2) / np.maximum(counts, 1)
    squares = np.nansum((filled - mean[:, :, None]) ** 2, axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.sqrt(squares / (counts - 1)) / np.abs(centre)
    deviation = np.where((counts > 1) & (centre != 0), deviation, np.nan)
    return np.where(counts > 0, centre, np.nan), counts, deviation
