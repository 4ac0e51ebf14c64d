"""Intervals that certainly contain the offset between the clocks of two nodes.

Nothing that a rank does ends before the event that it waited for. If a rank of node B leaves a call
that a rank of node A had to enter first, then B's clock at the exit shows at least A's clock at the
entry plus the offset; the other direction bounds the offset from below. Asymmetric links and busy
processors widen the interval, but cannot make it wrong [1, 2].

The offset changes, since clocks tick at different rates. Over a short window it is nearly a
straight line. All lines between the bounds of a window form a convex polygon, whose corners give
the extreme offsets at every time in it. Windows of several lengths overlap, and each is right.

[1] Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989.
[2] Duda, Harrus, Haddad, Bernard, Estimating global time in distributed systems, ICDCS 1987.
"""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

MAX_RATE = 2e-3  # of the offset: clocks are slewed by at most 500 ppm (adjtimex), and so is ours
# How fast the rate may change, per second, if neither clock is slewed. Quartz changes by at most
# 1 ppm per kelvin at its temperature extremes, and a board heats up by less than 0.1 K a second.
MAX_RATE_CHANGE = 1e-7
MAX_SLEW_CHANGE = 2e-3  # of the rate at any moment, if both clocks are slewed
READING_S = 1e-7  # of the time stamp counter, which is not ordered with other instructions
WINDOWS = (8, 64, 512)  # bounds in a window
MAX_WINDOW_S = 30.0
UNKNOWN_S = 1e4  # offset from the middle, where nothing bounds it
TOLERANCE_S = 1e-9  # of rounding


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """What is known of an offset (s) between two clocks.

    Attributes:
        upper_at: shape (n,), times of the reference clock (s), ascending.
        upper: shape (n,), the offset is at most this; inf where unknown.
        lower_at: shape (n,), times of the reference clock (s).
        lower: shape (n,), the offset is at least this; -inf where unknown.
    """

    upper_at: FloatArray
    upper: FloatArray
    lower_at: FloatArray
    lower: FloatArray


@dataclass(frozen=True, slots=True)
class _LineWindow:
    """The corners of the polygon of all lines, for the bounds from `start` to `stop`."""

    start: int
    stop: int
    middle: float  # time
    offsets: FloatArray  # shape (n_corners,), at the middle; no corners if no line is possible
    rates: FloatArray
    half_span: float  # s
    slack_s: float  # by which the offset may leave a line, inside of the window


class ClockOffset:
    """The offset of a clock against a reference clock, as intervals."""

    def __init__(self, bounds: OffsetBounds, *, is_steady: bool) -> None:
        """Compute the windows.

        Args:
            bounds: of the offset.
            is_steady: neither clock is slewed.
        """
        self._times = bounds.upper_at
        self._is_steady = is_steady
        finite = np.concatenate([bounds.upper, bounds.lower])
        finite = finite[np.isfinite(finite)]
        self._base = float(np.median(finite)) if finite.size else 0.0
        self._windows: list[_LineWindow] = []
        for length in WINDOWS:
            for start, stop in _split(bounds.upper_at, length):
                window = _fit_lines(bounds, self._base, (start, stop), is_steady=is_steady)
                self._windows.append(window)

    def at(self, times: FloatArray, near: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
        """The least and the largest offset (s) at some times.

        Args:
            times: shape (n,), times of the reference clock (s).
            near: shape (n,), the bounds near these times, ascending; by default, each bound once.

        Returns:
            Two arrays of shape (n,): infinite where nothing is known, NaN where the bounds
            contradict each other, so that no interval can be right.
        """
        low, high = np.full(times.size, -np.inf), np.full(times.size, np.inf)
        for window in self._windows:
            start, stop = window.start, window.stop
            if near is not None:
                start, stop = np.searchsorted(near, [start, stop]).tolist()
            inside = slice(start, stop)
            if not window.offsets.size:
                low[inside] = high[inside] = np.nan
                continue
            elapsed = times[inside, np.newaxis] - window.middle
            offsets = window.offsets + window.rates * elapsed + self._base
            slack = self._slack(window, np.abs(elapsed[:, 0]))
            low[inside] = np.maximum(low[inside], offsets.min(axis=1) - slack)
            high[inside] = np.minimum(high[inside], offsets.max(axis=1) + slack)

        is_open = high - low >= UNKNOWN_S / 2
        low[is_open & (low < self._base - UNKNOWN_S / 4)] = -np.inf
        high[is_open & (high > self._base + UNKNOWN_S / 4)] = np.inf
        is_contradiction = low > high
        low[is_contradiction] = high[is_contradiction] = np.nan

        # The time itself may be wrong by the width of the interval.
        margin = np.where(np.isfinite(high - low), MAX_RATE * (high - low), 0.0)
        return low - margin, high + margin

    def between(self, times: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The least and the largest offset (s) at any times, as `at`.

        Args:
            times: shape (n,), times of the reference clock (s), ascending.
        """
        return self.at(times, np.searchsorted(self._times[1:], times))

    def to_reference(self, times: FloatArray) -> FloatArray:
        """When this clock shows these times: times of the reference clock, the middle of intervals.

        Where an offset has one bound or none, it is taken for the median of all bounds.

        Args:
            times: shape (n,), times of this clock (s), ascending.
        """
        by_reference = times - self._base
        for _ in range(2):  # each step reduces the error by the rate
            low, high = self.between(by_reference)
            is_known = np.isfinite(low) & np.isfinite(high)
            offsets = np.full_like(times, self._base)
            offsets[is_known] = (low[is_known] + high[is_known]) / 2
            by_reference = times - offsets
        return by_reference

    def _slack(self, window: _LineWindow, elapsed: FloatArray) -> FloatArray:
        """By how much the offset may leave the lines of a window, also before and after it (s)."""
        outside = np.maximum(elapsed - window.half_span, 0.0)
        if self._is_steady:
            change = MAX_RATE_CHANGE * (2 * window.half_span + outside)
        else:
            change = np.full_like(outside, MAX_SLEW_CHANGE)
        slack: FloatArray = window.slack_s + change * outside
        return slack


def _split(times: FloatArray, length: int) -> list[tuple[int, int]]:
    """Windows of at most so many bounds and so many seconds; each bound is in one or two."""
    windows: list[tuple[int, int]] = []
    start, last_stop = 0, 0
    while last_stop < times.size:
        in_time = int(np.searchsorted(times, times[start] + MAX_WINDOW_S, side="right"))
        stop = min(start + length, max(in_time, start + 1), times.size)
        windows.append((start, stop))
        last_stop = stop
        start = min(start + max((stop - start + 1) // 2, 1), times.size - 1)
    return windows


def _fit_lines(
    bounds: OffsetBounds, base: float, inside: tuple[int, int], *, is_steady: bool
) -> _LineWindow:
    """All lines between the bounds of a window."""
    start, stop = inside
    upper_at, upper = bounds.upper_at[start:stop], bounds.upper[start:stop] - base
    lower_at, lower = bounds.lower_at[start:stop], bounds.lower[start:stop] - base
    times = np.concatenate([upper_at, lower_at])
    first, last = float(times.min()), float(times.max())
    middle, half = (first + last) / 2, max((last - first) / 2, 1e-6)

    # By how much the offset leaves its chord; the best line is in the middle between both.
    span = last - first
    bend_s = MAX_RATE_CHANGE * span**2 / 8 if is_steady else MAX_SLEW_CHANGE * span / 4
    slack_s = READING_S + bend_s / 2

    ends = np.array([first, last])
    is_upper, is_lower = np.isfinite(upper), np.isfinite(lower)
    top = _lower_hull(
        np.concatenate([upper_at[is_upper], ends]),
        np.concatenate([upper[is_upper] + slack_s, [UNKNOWN_S, UNKNOWN_S]]),
    )
    bottom = _lower_hull(
        np.concatenate([lower_at[is_lower], ends]),
        -np.concatenate([lower[is_lower] - slack_s, [-UNKNOWN_S, -UNKNOWN_S]]),
    )

    # Constraints x . (offset, rate * half) <= limit, with times relative to the window.
    rows = [(1.0, (at - middle) / half, limit) for at, limit in top]
    rows += [(-1.0, -(at - middle) / half, limit) for at, limit in bottom]
    rows += [(0.0, 1.0, MAX_RATE * half), (0.0, -1.0, MAX_RATE * half)]
    corners = _corners(np.array(rows))
    return _LineWindow(start, stop, middle, corners[:, 0], corners[:, 1] / half, span / 2, slack_s)


def _lower_hull(times: FloatArray, values: FloatArray) -> list[tuple[float, float]]:
    """The points of the lower convex hull: a line below them is below all points."""
    hull: list[tuple[float, float]] = []
    for index in np.lexsort((values, times)):
        point = float(times[index]), float(values[index])
        if hull and hull[-1][0] == point[0]:
            continue  # the lower one of the same time comes first
        while len(hull) >= 2 and _turns_right(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _turns_right(
    first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]
) -> bool:
    """Whether the second point is not below the line from the first to the third."""
    rise = (second[1] - first[1]) * (third[0] - first[0])
    return rise >= (third[1] - first[1]) * (second[0] - first[0])


def _corners(constraints: FloatArray) -> FloatArray:
    """The corners of the polygon x . normal <= limit, shape (n_corners, 2)."""
    normals, limits = constraints[:, :2], constraints[:, 2]
    first, second = np.triu_indices(limits.size, k=1)
    determinants = normals[first, 0] * normals[second, 1] - normals[first, 1] * normals[second, 0]
    is_crossing = np.abs(determinants) > 1e-12
    first, second = first[is_crossing], second[is_crossing]

    x = limits[first] * normals[second, 1] - limits[second] * normals[first, 1]
    y = normals[first, 0] * limits[second] - normals[second, 0] * limits[first]
    points = np.column_stack([x, y]) / determinants[is_crossing, np.newaxis]
    # Nearly parallel constraints cross far away, where rounding matters and nothing is feasible.
    is_inside = (points @ normals.T <= limits + TOLERANCE_S).all(axis=1)
    corners: FloatArray = points[is_inside]
    return corners
