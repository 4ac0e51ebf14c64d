"""Series: measured values made ready for modelers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.errors import ModelingError
from insitu.modeling.measurement import FloatArray, IntArray, SeriesKey

# Errors are relative to the value, but those of a zero to this share of the largest value.
SIZE_OF_ZERO = 1e-3
CLIPPED_TRIPLE = 3.5  # deviations of three repetitions together; larger ones count like that


@dataclass(frozen=True, slots=True)
class Series:
    """Series over the same distinct coordinates in ascending order, one value per point.

    parameters: names of the columns of coordinates. coordinates: (n_points, n_parameters). values:
    (n_series, n_points), the median over repetitions, NaN where nothing was measured. counts:
    (n_series, n_points), repetitions behind each value. deviations: (n_series, n_points), relative
    standard deviation of one repetition, NaN for fewer than two. lags: (n_series, n_points, 3),
    sums of the squared differences between repetitions in order, those next to each other and those
    two apart, and of how many triples, see `_compare_successive`. keys: one per series, or none.
    known_variances: (n_series, n_points), relative variance of one repetition that is known before
    any fit, such as that of samples, of zeros relative to SIZE_OF_ZERO; None for no series.
    is_exact: a repetition has the same value.
    """

    parameters: tuple[str, ...]
    coordinates: FloatArray
    values: FloatArray
    counts: FloatArray
    deviations: FloatArray
    lags: FloatArray
    keys: Sequence[SeriesKey] = field(default=())
    known_variances: FloatArray | None = None
    is_exact: bool = False

    def select(self, rows: IntArray) -> "Series":
        """Return some of the series, by index (k,)."""
        return replace(
            self,
            values=self.values[rows],
            counts=self.counts[rows],
            deviations=self.deviations[rows],
            lags=self.lags[rows],
            keys=[self.keys[row] for row in rows] if self.keys else (),
            known_variances=None if self.known_variances is None else self.known_variances[rows],
        )

    def at_points(self, points: IntArray) -> "Series":
        """Return the same series at some of their points, by index (k,)."""
        known = self.known_variances
        return replace(
            self,
            coordinates=self.coordinates[points],
            values=self.values[:, points],
            counts=self.counts[:, points],
            deviations=self.deviations[:, points],
            lags=self.lags[:, points],
            known_variances=None if known is None else known[:, points],
        )

    def require_one_parameter(self, modeler: str) -> None:
        """Fail if there are several parameters, which this modeler does not support.

        Raises:
            ModelingError: there are.
        """
        if len(self.parameters) != 1:
            raise ModelingError(
                f"modeler '{modeler}' supports one parameter, not {', '.join(self.parameters)}; "
                "use 'evidence', 'search' or 'refine'"
            )

    def measured_points(self) -> list[tuple[FloatArray, FloatArray]]:
        """Return what was measured of each series: coordinates (n, m) and values (n,)."""
        points = []
        for values in self.values:
            is_measured = ~np.isnan(values)
            points.append((self.coordinates[is_measured], values[is_measured]))
        return points


def reduce_repetitions(
    parameters: Sequence[str],
    coordinates: FloatArray,
    values: FloatArray,
    keys: Sequence[SeriesKey] = (),
    *,
    known_variances: FloatArray | None = None,
    is_exact: bool = False,
) -> Series:
    """Return series of one value per point.

    Points with equal coordinates count as repetitions. Values that are not finite count as not
    measured. Points whose coordinate is not finite are dropped.

    Args:
        parameters: names of the columns of coordinates.
        coordinates: (n_points, n_parameters).
        values: (n_series, n_points, n_repetitions), NaN where nothing was measured.
        keys: one per series, or none.
        known_variances: relative variance of each value, shaped as the values, or None.
        is_exact: a repetition has the same value.

    Raises:
        ModelingError: the shapes of coordinates and values do not fit.
    """
    coordinates = np.asarray(coordinates, dtype=np.float64)
    values = np.asarray(values, dtype=np.float64)
    if coordinates.ndim != 2 or values.ndim != 3 or values.shape[1] != len(coordinates):
        raise ModelingError(
            f"coordinates of shape {coordinates.shape} and values of shape {values.shape} do not "
            "fit; give (n_points, n_parameters) and (n_series, n_points, n_repetitions)"
        )

    is_usable = np.isfinite(coordinates).all(axis=1)
    coordinates, values = coordinates[is_usable], values[:, is_usable]
    values = np.where(np.isfinite(values), values, np.nan)
    if known_variances is not None:
        known_variances = np.where(np.isnan(values), np.nan, known_variances[:, is_usable])

    # Sorting takes a tenth of the time of a single series, and most coordinates are sorted.
    is_sorted = coordinates.shape[1] == 1 and bool((np.diff(coordinates[:, 0]) > 0).all())
    distinct, index = coordinates, np.arange(len(coordinates))
    if not is_sorted:
        distinct, index = np.unique(coordinates, axis=0, return_inverse=True)
    if len(distinct) < len(coordinates) or not np.array_equal(distinct, coordinates):
        values = _merge_points(values, index.ravel(), len(distinct))
        if known_variances is not None:
            known_variances = _merge_points(known_variances, index.ravel(), len(distinct))

    counts = (~np.isnan(values)).sum(axis=2).astype(float)
    centre, deviations = _summarize(values, counts)
    if known_variances is not None:
        known_variances = np.nansum(known_variances, axis=2) / np.maximum(counts, 1)
    return Series(
        parameters=tuple(parameters),
        coordinates=distinct,
        values=centre,
        counts=counts,
        deviations=deviations,
        lags=_compare_successive(values, centre, deviations),
        keys=keys,
        known_variances=known_variances,
        is_exact=is_exact,
    )


def _merge_points(values: FloatArray, index: IntArray, n_points: int) -> FloatArray:
    """Place values of equal coordinates side by side, as further repetitions.

    Args:
        values: (n_series, n, n_repetitions). index: (n,), the distinct point of each of the n.
    """
    occurrence = np.zeros(len(index), dtype=np.intp)  # 0 for the first value at a point, then 1 …
    for point in range(n_points):
        at_point = np.flatnonzero(index == point)
        occurrence[at_point] = np.arange(len(at_point))

    repetitions = values.shape[2]
    width = (int(occurrence.max()) + 1) * repetitions if len(occurrence) else repetitions
    merged = np.full((values.shape[0], n_points, width), np.nan)
    for i, (point, number) in enumerate(zip(index, occurrence, strict=True)):
        merged[:, point, number * repetitions : (number + 1) * repetitions] = values[:, i]
    return merged


def _summarize(values: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The median and the relative standard deviation over repetitions: (n_series, n_points)."""
    if values.shape[2] == 1:
        return values[:, :, 0], np.full(counts.shape, np.nan)

    filled = np.where(counts[:, :, None] > 0, values, 0.0)  # nanmedian warns of all NaN
    # The median that skips what is not measured takes a hundred times as long for a few series.
    is_complete = not np.isnan(filled).any()
    centre = np.median(filled, axis=2) if is_complete else np.nanmedian(filled, axis=2)
    mean = np.nansum(filled, axis=2) / np.maximum(counts, 1)
    squares = np.nansum((filled - mean[:, :, None]) ** 2, axis=2)

    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.sqrt(squares / (counts - 1)) / np.abs(centre)
    deviation = np.where((counts > 1) & (centre != 0), deviation, np.nan)
    return np.where(counts > 0, centre, np.nan), deviation


def _compare_successive(
    values: FloatArray, centre: FloatArray, deviations: FloatArray
) -> FloatArray:
    """How far apart successive repetitions are: (n_series, n_points, 3).

    Per triple of repetitions in order: the mean of both squared differences of neighbours, the
    squared difference of the first and the last, and 1. In units of the deviation that a series
    usually has. A triple that scatters by more than CLIPPED_TRIPLE of it is shrunk as a whole, so
    that outliers do not decide; clipping each difference would make neighbours look less alike.

    Args:
        values: (n_series, n_points, n_repetitions). centre, deviations: (n_series, n_points).
    """
    sums = np.zeros((*centre.shape, 3))
    if values.shape[2] < 3:
        return sums

    usual = np.nan_to_num(deviations)
    usual = np.median(usual, axis=1, keepdims=True) * np.abs(np.nan_to_num(centre))
    is_usable = usual > 0
    unit = np.where(is_usable, usual, 1.0)[:, :, None]
    differences = np.diff(values, axis=2) / unit
    of_one = (differences[:, :, 1:] ** 2 + differences[:, :, :-1] ** 2) / 2
    of_two = (differences[:, :, 1:] + differences[:, :, :-1]) ** 2
    is_triple = np.isfinite(of_two) & is_usable[:, :, None]

    # Independent repetitions of deviation 1 have a mean of 2 in both, and of 1 in this.
    scatter = (2 * of_one + of_two) / 6
    shrink = 1 / np.maximum(np.where(is_triple, scatter, 0.0) / CLIPPED_TRIPLE**2, 1.0)
    of_one, of_two = of_one * shrink, of_two * shrink

    sums[:, :, 0] = np.where(is_triple, of_one, 0.0).sum(axis=2)
    sums[:, :, 1] = np.where(is_triple, of_two, 0.0).sum(axis=2)
    sums[:, :, 2] = is_triple.sum(axis=2)
    return sums
