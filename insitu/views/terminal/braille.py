"""Plots of points, models and intervals made of characters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.style import Style
from rich.text import Text

from insitu.entities import number
from insitu.modeling.measurement import FloatArray
from insitu.text import printable
from insitu.units import quantity
from insitu.views.axes import Axis, is_wide

# The marks distinguish classes; colours (Okabe and Ito) only help.
MARKS = "●■◆▲○□◇△"
COLOURS = (
    "#56b4e9",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#d55e00",
    "#0072b2",
    "#f0e442",
    "#999999",
)
NOW = "✚"  # the run in progress, so far
LABEL_WIDTH = 9  # columns left of the plot
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # bits of U+2800, by row
BLANK = 0x2800
TOO_WIDE = 1e15  # above this ratio, a logarithmic axis shows nothing
BEYOND = 6.0  # models are drawn up to this multiple of the largest measured value
BOUND_STEP = 3  # bounds have a dot in every third column, models in every column
DASH, GAP = 3, 2  # dots of the dashes beyond the measured range


@dataclass(frozen=True, slots=True)
class BrailleCurve:
    """A class of a series.

    x, y: measured points, (n_points,). at: (n,), values: the model there (n,), bounds: (n, 2).
    changes: intervals of the parameter with a change point. now: coordinate and value so far of the
    run in progress.
    """

    x: FloatArray
    y: FloatArray
    at: FloatArray
    values: FloatArray
    bounds: FloatArray
    changes: tuple[tuple[float, float], ...] = ()
    now: tuple[float, float] | None = None


@dataclass(slots=True)
class Canvas:
    """Cells of eight braille dots each, or of a character that hides the dots."""

    width: int
    height: int
    dots: dict[tuple[int, int], int] = field(default_factory=dict)
    styles: dict[tuple[int, int], str] = field(default_factory=dict)
    signs: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)

    def dot(self, x: float, y: float, colour: str) -> None:
        """Set a dot: `x` in half cells from the left, `y` in quarter cells from the top."""
        if not math.isfinite(x + y):
            return
        column, row = round(x), round(y)
        cell = column // 2, row // 4
        if 0 <= cell[0] < self.width and 0 <= cell[1] < self.height and column >= 0 <= row:
            self.dots[cell] = self.dots.get(cell, 0) | DOTS[row % 4][column % 2]
            self.styles[cell] = colour

    def sign(self, x: float, y: float, sign: str, colour: str) -> None:
        """Put a character over the cell of a dot."""
        if not math.isfinite(x + y):
            return
        cell = round(x) // 2, round(y) // 4
        if 0 <= cell[0] < self.width and 0 <= cell[1] < self.height:
            self.signs[cell] = sign, colour

    def line(self, row: int) -> Text:
        """One line of cells."""
        text = Text(no_wrap=True)
        for column in range(self.width):
            cell = column, row
            if cell in self.signs:
                sign, colour = self.signs[cell]
                text.append(sign, Style(color=colour, bold=True))
            elif cell in self.dots:
                text.append(chr(BLANK + self.dots[cell]), Style(color=self.styles[cell]))
            else:
                text.append(" ")
        return text


def class_mark(index: int) -> tuple[str, str]:
    """Mark and colour of a class by its index."""
    return MARKS[index % len(MARKS)], COLOURS[index % len(COLOURS)]


def plot(
    curves: Sequence[BrailleCurve], *, width: int, height: int, unit: str, axis: str
) -> list[Text]:
    """Draw classes over one parameter: `height` lines of `width` columns.

    Lines are models, dashed beyond the measured range; sparse dots are their bounds; `┆` marks
    change points. Axes of widely spread values are logarithmic.
    """
    canvas = Canvas(max(width - LABEL_WIDTH - 1, 8), max(height - 2, 3))
    x_axis, y_axis = _make_axes(curves, canvas)
    for curve in curves:
        for low, high in curve.changes:
            middle = math.sqrt(low * high) if low > 0 else high
            x = float(x_axis(np.array([middle]))[0])
            for row in range(canvas.height):
                canvas.sign(x, 4 * row, "┆", "#999999")

    for index, curve in enumerate(curves):
        _draw_model(canvas, x_axis, y_axis, curve=curve, colour=class_mark(index)[1])
    for index, curve in enumerate(curves):
        mark, colour = class_mark(index)
        for x, y in zip(x_axis(curve.x), y_axis(curve.y), strict=True):
            canvas.sign(x, y, mark, colour)
        if curve.now is not None:
            at, value = curve.now
            x, y = x_axis(np.array([at]))[0], y_axis(np.array([value]))[0]
            canvas.sign(float(x), float(y), NOW, "default")

    return _add_frame(canvas, x_axis, y_axis, unit=unit, axis=axis)


def _make_axes(curves: Sequence[BrailleCurve], canvas: Canvas) -> tuple[Axis, Axis]:
    now = [curve.now for curve in curves if curve.now is not None]
    at = [np.concatenate([curve.x, curve.at]) for curve in curves]
    xs = np.concatenate([*at, np.array([at for at, _ in now])])
    low, high = float(xs.min()), float(xs.max())
    if low == high:
        low, high = (low / 2, high * 2) if low > 0 else (low - 1, high + 1)

    x_axis = Axis(low, high, 1.0, 2.0 * canvas.width - 2, _is_wide(low, high))
    measured = _finite([*(curve.y for curve in curves), np.array([value for _, value in now])])
    modelled = _finite([curve.values for curve in curves])
    least, most = (float(measured.min()), float(measured.max())) if len(measured) else (0.0, 1.0)

    if len(modelled):  # models may leave the plot, points may not
        most = max(most, min(float(modelled.max()), BEYOND * abs(most)))
        least = min(least, max(float(modelled.min()), least / BEYOND if least > 0 else least))

    is_log = _is_wide(least, most)
    floor = least / 1.3 if is_log else min(0.0, 1.1 * least)
    top = most * 1.15 if most > 0 else 0.0
    if not top > floor:
        top = floor + 1.0

    return x_axis, Axis(floor, top, 4.0 * canvas.height - 1, 0.0, is_log)


def _finite(values: Sequence[FloatArray]) -> FloatArray:
    joined = np.concatenate(values)
    return np.asarray(joined[np.isfinite(joined)])


def _is_wide(low: float, high: float) -> bool:
    return is_wide(low, high) and high / low <= TOO_WIDE


def _draw_model(
    canvas: Canvas, x_axis: Axis, y_axis: Axis, *, curve: BrailleCurve, colour: str
) -> None:
    """Draw the model in every column of dots and its bounds in some."""
    if not len(curve.at):
        return

    positions = x_axis(curve.at)
    measured_to = float(x_axis(np.array([curve.x.max()]))[0]) if len(curve.x) else math.inf
    columns = np.arange(math.ceil(positions[0]), math.floor(positions[-1]) + 1)
    for side in range(curve.bounds.shape[1]):
        rows = np.interp(columns, positions, y_axis(curve.bounds[:, side]))
        for column, row in zip(columns[::BOUND_STEP], rows[::BOUND_STEP], strict=True):
            if math.isfinite(row):
                canvas.dot(float(column), float(row), colour)

    rows = np.interp(columns, positions, y_axis(curve.values))
    before = rows[0] if len(rows) else 0.0
    for column, row in zip(columns.tolist(), rows.tolist(), strict=True):
        if not (math.isfinite(row) and math.isfinite(before)):
            before = row
            continue
        if column <= measured_to or column % (DASH + GAP) < DASH:
            first, last = sorted((round(before), round(row)))
            for step in range(first, last + 1) if abs(last - first) > 1 else (round(row),):
                canvas.dot(column, step, colour)
        before = row


def _add_frame(canvas: Canvas, x_axis: Axis, y_axis: Axis, *, unit: str, axis: str) -> list[Text]:
    """Add values to the left of the plot and below it."""
    labels: dict[int, str] = {}
    for value in y_axis.ticks(max(canvas.height // 3, 2)):
        row = round(float(y_axis(np.array([value]))[0])) // 4
        if 0 <= row < canvas.height:
            labels[row] = quantity(value, unit)

    lines = []
    for row in range(canvas.height):
        stop = "┤" if row in labels else "│"
        label = labels.get(row, "")[: LABEL_WIDTH - 1]
        lines.append(Text.assemble((f"{label:>{LABEL_WIDTH - 1}} ", "dim"), (stop, "dim")))
        lines[-1].append_text(canvas.line(row))

    lines.append(Text(f"{'':{LABEL_WIDTH}}└{'─' * canvas.width}", "dim"))
    below = [" "] * (canvas.width + 8)
    end = -1
    for value in x_axis.ticks(max(canvas.width // 10, 2)):
        text = number(round(value, 6))
        start = max(round(float(x_axis(np.array([value]))[0])) // 2 - len(text) // 2, 0)
        if start > end + 1 and start + len(text) <= canvas.width:
            below[start : start + len(text)] = text
            end = start + len(text)

    name = printable(axis)[: LABEL_WIDTH - 1]
    ticks = "".join(below).rstrip()
    lines.append(Text.assemble((f"{name:>{LABEL_WIDTH - 1}}  ", "bold dim"), (ticks, "dim")))
    return lines
