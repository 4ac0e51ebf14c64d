"""Measured points and models, drawn with matplotlib."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from insitu.analysis.callpaths import last_frames
from insitu.analysis.cost import measured_points
from insitu.entities import CallPath, number
from insitu.modeling.algebra import to_latex
from insitu.modeling.base import Model, SeriesModel
from insitu.modeling.classes.match import ALL
from insitu.text import printable
from insitu.units import percent, quantity, scale_of
from insitu.views.axes import FARTHER, WIDE

# Okabe and Ito's palette: told apart by people who see no red or no green; signs help in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = ("o", "s", "D", "^", "v", "P", "X")
TOO_WIDE = 300.0  # a spread of values of which the smallest are none: a call that had nothing to do
COLUMNS = 3
NAME_WIDTH = 34
TEXT_WIDTH = 44
INCH = 25.4  # mm
SCREEN_INCHES = (4.0, 3.0)  # of a field
NARROWEST_MM = 55.0  # of a field on paper
ASPECT = 0.74  # of a field on paper: height to width
STYLE: Any = {  # Any: matplotlib names a hundred keys
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "text.parse_math": False,
}
ON_PAPER: Any = {
    "font.size": 8,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
}


@dataclass(frozen=True, slots=True)
class Look:
    """How a picture looks.

    width_mm: of a column of the paper it is for, None for a screen; logs: of `x` and `y`, those
    that are logarithmic, None where the spread of the values decides; is_joint: all call paths in
    one field.
    """

    width_mm: float | None = None
    logs: str | None = None
    is_joint: bool = False


def draw(
    series: Sequence[SeriesModel],
    share: Mapping[CallPath, float],
    *,
    title: str,
    axis: str,
    file: str,
    look: Look | None = None,
) -> None:
    """Draw one field per call path, in the order in which they come.

    Args:
        series: of one metric.
        share: of each call path in the cost of all.
        title: above everything; a paper has a caption instead.
        axis: the name of the first parameter, under every field.
        file: its suffix says the format.
        look: for a screen if not said.

    Raises:
        OSError: the file cannot be written.
    """
    look = look or Look()
    fields: dict[CallPath, list[SeriesModel]] = {}
    for one in series:
        fields.setdefault(one.key.callpath, []).append(one)
    groups = [list(series)] if look.is_joint else list(fields.values())
    with matplotlib.rc_context(STYLE | (ON_PAPER if look.width_mm else {})):
        figure, grid = _figure(len(groups), look)
        if look.width_mm is None:
            figure.suptitle(printable(title), x=0.01, ha="left", fontsize=12, fontweight="bold")
        for axes in grid[len(groups) :]:
            axes.set_axis_off()
        for axes, classes in zip(grid, groups, strict=False):
            draw_field(axes, classes, look)
            axes.set_xlabel(printable(axis))
            if not look.is_joint:
                path = classes[0].key.callpath
                room = NAME_WIDTH if look.width_mm is None else _letters(figure, len(groups))
                told = "" if look.width_mm else f"   {percent(share.get(path, 0.0))}"
                heading = f"{last_frames(str(path), room)}{told}"
                axes.set_title(heading, loc="left", fontsize="medium", fontweight="bold")
        if look.is_joint:
            _legend_below(figure, grid[0])
        figure.savefig(file, dpi=160 if look.width_mm is None else 300)


def _figure(count: int, look: Look) -> tuple[Figure, list[Axes]]:
    """A figure with a grid of so many fields, and those in the order of reading."""
    if look.width_mm is None:
        columns = count if count < 4 else 2 if count == 4 else COLUMNS
        wide, high = SCREEN_INCHES[0] * columns, SCREEN_INCHES[1]
    else:
        columns = max(1, min(count, int(look.width_mm // NARROWEST_MM)))
        wide = look.width_mm / INCH
        high = ASPECT * min(wide / columns, 3.5)
    rows = -(-count // columns)
    figure = Figure(figsize=(wide, high * rows + 0.6 * (look.width_mm is None)))
    figure.set_layout_engine("constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _legend_below(figure: Figure, axes: Axes) -> None:
    """Move the legend of many lines out of their way; the figure grows by as much."""
    legend = axes.get_legend()
    if legend is None:
        return
    lines = sum(text.get_text().count("\n") + 1 for text in legend.get_texts())
    parse = [text.get_parse_math() for text in legend.get_texts()]
    legend.remove()
    figure.set_figheight(figure.get_figheight() + 0.17 * lines)
    below = figure.legend(loc="outside lower left", fontsize=7, frameon=False, handlelength=1.4)
    for text, is_math in zip(below.get_texts(), parse, strict=True):
        text.set_parse_math(is_math)


def _letters(figure: Figure, count: int) -> int:
    """How many letters of a heading fit over a field on paper."""
    inches = figure.get_figwidth() / min(count, max(1, int(figure.get_figwidth() * INCH // 55)))
    return max(int(inches * 11), 12)


def draw_field(axes: Axes, series: Sequence[SeriesModel], look: Look | None = None) -> None:
    """Points, model and bounds of every series over the first parameter."""
    look = look or Look()
    lowest = np.inf
    largest = 0.0
    scales: set[float] = set()
    for one, colour, mark in zip(series, _colours(len(series)), _marks(len(series)), strict=True):
        points = measured_points(one.model)
        if not points:
            continue
        x = np.array([at[0] for at, _ in points])
        y = np.array([value for _, value in points])
        scales.update(x.tolist())
        lowest, largest = min(lowest, y.min()), max(largest, y.max())
        line = _model(axes, one, x, colour)
        axes.plot(x, y, mark, color=colour, markersize=4.5, markeredgecolor="white", zorder=3)
        line.set(marker=mark, markersize=4.5, markeredgecolor="white")
        line.set_markevery([])  # the sign stands in the legend, and at the points
        line.set_label(_label(one, with_path=look.is_joint))
    _scale_axes(axes, sorted(scales), lowest=lowest, largest=largest, logs=look.logs)
    _name_values(axes, series[0])
    legend = axes.legend(fontsize=7, frameon=False, loc="best", handlelength=1.4, borderaxespad=0.2)
    for text, one in zip(legend.get_texts(), series, strict=False):
        text.set_parse_math("$" not in str(one.key.callpath) + one.key.behaviour)


def _model(axes: Axes, one: SeriesModel, x: np.ndarray, colour: str) -> Any:  # Any: a line
    """The curve, dashed beyond the measured points, within its bounds; a gap where it changes."""
    model = one.model
    end = FARTHER * x.max()
    is_wide = x.min() > 0 and x.max() / x.min() >= WIDE
    at = np.geomspace(x.min(), end, 160) if is_wide else np.linspace(x.min(), end, 160)
    at = np.unique([*at, *x])
    table = _along(model, at)
    y = model.predict(table)
    bounds = model.interval(table)
    for low, high in model.change_points:
        gap = (at > low) & (at < high)
        y[gap], bounds[gap] = np.nan, np.nan
        axes.axvspan(low, high, color=colour, alpha=0.08, linewidth=0)
    axes.fill_between(at, bounds[:, 0], bounds[:, 1], color=colour, alpha=0.12, linewidth=0)
    inside, beyond = at <= x.max(), at >= x.max()
    (line,) = axes.plot(at[inside], y[inside], color=colour, linewidth=1.4)
    axes.plot(at[beyond], y[beyond], color=colour, linewidth=1.2, linestyle=(0, (3, 2)))
    return line


def _label(one: SeriesModel, *, with_path: bool) -> str:
    """The call path and the class where they are not said elsewhere, and the model by segments."""
    parts = [one.key.callpath.name] if with_path else []
    parts += [] if one.key.behaviour == ALL else [one.key.behaviour]
    name = printable(" ".join(parts)[:TEXT_WIDTH]) + ": " * bool(parts)
    if "$" in name + "".join(one.model.parameters):
        return name + printable(str(one.model))
    lines = []
    for segment in one.model.segments:
        place = ""
        if np.isfinite(segment.upper):
            place = rf",\ {one.model.parameters[0]} \leq {segment.upper:g}"
        elif np.isfinite(segment.lower):
            place = rf",\ {one.model.parameters[0]} \geq {segment.lower:g}"
        lines.append(f"${to_latex(segment.function)}{place}$")
    return name + "\n".join(lines)


def _name_values(axes: Axes, one: SeriesModel) -> None:
    """Values with their unit where the axis is logarithmic, else the unit beside the axis."""
    metric = one.metric
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, metric.unit)))
        axes.set_ylabel(metric.name.replace("_", " "))
        return
    scale, unit = scale_of(max(map(abs, axes.get_ylim())), metric.unit)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:g}"))
    told = f" [{unit}]" if unit not in ("", "1") else ""
    axes.set_ylabel(metric.name.replace("_", " ") + told)


def _along(model: Model, at: np.ndarray) -> np.ndarray:
    """Points along the first parameter, the others at their largest measured values."""
    table = np.tile(model.coordinates.max(axis=0), (len(at), 1))
    table[:, 0] = at
    return table


def _scale_axes(
    axes: Axes, scales: list[float], *, lowest: float, largest: float, logs: str | None
) -> None:
    spread = scales[-1] / scales[0] if scales and scales[0] > 0 else 0.0
    ratio = largest / lowest if 0 < lowest < np.inf else 0.0
    is_wide = spread >= WIDE if logs is None else "x" in logs and spread > 0
    if is_wide:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
    is_high = is_wide and WIDE <= ratio <= TOO_WIDE if logs is None else "y" in logs and ratio > 0
    if is_high:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(
            LogLocator(subs=(1.0, 2.0, 5.0) if ratio <= TOO_WIDE else (1.0,))
        )
        axes.yaxis.set_minor_locator(NullLocator())
        bottom, _ = axes.get_ylim()
        axes.set_ylim(bottom=max(bottom, lowest / WIDE))  # a bound that touches 0 has no place
    else:
        low, high = axes.get_ylim()
        axes.set_ylim(min(0.0, low), 1.15 * max(high, largest))


def _colours(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def _marks(count: int) -> list[str]:
    return [MARKS[i % len(MARKS)] for i in range(count)]
