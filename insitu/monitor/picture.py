"""Measured points and models, drawn with matplotlib."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from insitu.entities import CallPath, number
from insitu.modeling.base import Model, SeriesModel
from insitu.modeling.match import ALL
from insitu.monitor.cost import measured
from insitu.monitor.names import last_frames, printable
from insitu.units import percent, quantity

# Okabe and Ito's palette: told apart by people who see no red or no green.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
FARTHER = 2.0  # the models are drawn that many times beyond the last point
WIDE = 8.0  # a spread above which an axis is logarithmic
TOO_WIDE = 300.0  # a spread of values of which the smallest are none: a call that had nothing to do
COLUMNS = 3
NAME_WIDTH = 34
TEXT_WIDTH = 44
STYLE: Any = {  # Any: matplotlib names a hundred keys
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "text.parse_math": False,
}


def draw(
    series: Sequence[SeriesModel],
    share: Mapping[CallPath, float],
    *,
    title: str,
    axis: str,
    file: str,
) -> None:
    """Draw one field per call path, in the order in which they come.

    Args:
        series: of one metric.
        share: of each call path in the cost of all.
        title: above everything.
        axis: the name of the first parameter, under every field.
        file: its suffix says the format.

    Raises:
        OSError: the file cannot be written.
    """
    fields: dict[CallPath, list[SeriesModel]] = {}
    for one in series:
        fields.setdefault(one.key.callpath, []).append(one)
    columns = len(fields) if len(fields) < 4 else 2 if len(fields) == 4 else COLUMNS
    rows = -(-len(fields) // columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.0 * columns, 3.0 * rows + 0.6), layout="constrained")
        figure.suptitle(printable(title), x=0.01, ha="left", fontsize=12, fontweight="bold")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.flat[len(fields) :]:
            axes.set_axis_off()
        for axes, (path, classes) in zip(grid.flat, fields.items(), strict=False):
            draw_field(axes, classes)
            axes.set_xlabel(printable(axis))
            heading = f"{last_frames(str(path), NAME_WIDTH)}   {percent(share.get(path, 0.0))}"
            axes.set_title(heading, loc="left", fontsize=9, fontweight="bold")
        figure.savefig(file, dpi=160)


def draw_field(axes: Axes, classes: Sequence[SeriesModel]) -> None:
    """Points, model and bounds of every class over the first parameter."""
    lowest = np.inf
    largest = 0.0
    scales: set[float] = set()
    for one, colour in zip(classes, _colours(len(classes)), strict=True):
        points = measured(one.model)
        if not points:
            continue
        x = np.array([at[0] for at, _ in points])
        y = np.array([value for _, value in points])
        scales.update(x.tolist())
        lowest, largest = min(lowest, y.min()), max(largest, y.max())
        _model(axes, one, x, colour)
        axes.plot(x, y, "o", color=colour, markersize=4.5, markeredgecolor="white", zorder=3)
    unit = classes[0].metric.unit
    _scale_axes(axes, sorted(scales), lowest=lowest, largest=largest)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, unit)))
    axes.legend(fontsize=7, frameon=False, loc="best", handlelength=1.4, borderaxespad=0.2)


def _model(axes: Axes, one: SeriesModel, x: np.ndarray, colour: str) -> None:
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
    axes.plot(at[inside], y[inside], color=colour, linewidth=1.4, label=_label(one))
    axes.plot(at[beyond], y[beyond], color=colour, linewidth=1.2, linestyle=(0, (3, 2)))


def _label(one: SeriesModel) -> str:
    """The class and its model, a line for each segment."""
    name = "" if one.key.behaviour == ALL else f"{one.key.behaviour}: "
    lines = (name + str(one.model)).split("; ")
    cut = (line if len(line) <= TEXT_WIDTH else line[: TEXT_WIDTH - 1] + "…" for line in lines)
    return "\n".join(map(printable, cut))


def _along(model: Model, at: np.ndarray) -> np.ndarray:
    """Points along the first parameter, the others at their largest measured values."""
    table = np.tile(model.coordinates.max(axis=0), (len(at), 1))
    table[:, 0] = at
    return table


def _scale_axes(axes: Axes, scales: list[float], *, lowest: float, largest: float) -> None:
    is_wide = bool(scales) and scales[0] > 0 and scales[-1] / scales[0] >= WIDE
    if is_wide:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
    if is_wide and lowest > 0 and WIDE <= largest / lowest <= TOO_WIDE:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        low, high = axes.get_ylim()
        axes.set_ylim(min(0.0, low), 1.15 * max(high, largest))


def _colours(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]
