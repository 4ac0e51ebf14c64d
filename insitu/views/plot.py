"""Plots of measured points and models, drawn with matplotlib."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from insitu.analysis.callpaths import last_frames, name_with_caller
from insitu.analysis.cost import measured_points
from insitu.entities import CallPath, number
from insitu.formats.table import marks_of
from insitu.modeling.algebra import to_latex
from insitu.modeling.base import ALL, Model, SeriesModel
from insitu.modeling.target import following_columns, held_columns, points_along
from insitu.text import printable
from insitu.units import percent, quantity, scale_of
from insitu.views.axes import FARTHER, WIDE

# The palette of Okabe and Ito is distinguishable with colour blindness; marks help in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = ("o", "s", "D", "^", "v", "P", "X")
TOO_WIDE = 300.0  # above this ratio the smallest values are calls without work: no logarithmic axis
COLUMNS = 3
Held = Mapping[int, float]  # values of parameters off the axis, by column
MAX_LEVELS = 3  # panels of a call path, one for each value of the other parameters
NAME_WIDTH = 34
LEAST_NAME = 12  # characters of a call path beside the values of other parameters
TEXT_WIDTH = 44
MM_PER_INCH = 25.4
SCREEN_INCHES = (4.0, 3.0)  # width and height of a panel on a screen
NARROWEST_MM = 55.0  # narrowest panel on paper
ASPECT = 0.74  # height to width of a panel on paper
CURVE_POINTS = 160
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
class PlotStyle:
    """Layout of a plot.

    width_mm: width of the column on paper; None for a screen. logs: the axes among "x" and "y"
    that are logarithmic; None to decide by the spread of the values. is_joint: whether all call
    paths share one panel.
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
    style: PlotStyle | None = None,
) -> None:
    """Draw one panel per call path, in the order of `series`, and save the figure.

    With several parameters, there is a panel for each of up to MAX_LEVELS values of the others.

    Args:
        series: models of one metric.
        share: the share of each call path in the total cost, 0 to 1.
        title: printed above everything on a screen; a paper has a caption instead.
        axis: name of the first parameter, printed below every panel.
        file: the suffix determines the format.
        style: the layout; for a screen by default.

    Raises:
        OSError: the file cannot be written.
    """
    style = style or PlotStyle()
    is_screen = style.width_mm is None
    by_path: dict[CallPath, list[SeriesModel]] = {}
    for item in series:
        by_path.setdefault(item.key.callpath, []).append(item)
    groups: list[tuple[list[SeriesModel], Held]] = [(list(series), {})]
    if not style.is_joint:
        groups = [(classes, held) for classes in by_path.values() for held in _levels_of(classes)]

    with matplotlib.rc_context(STYLE | ({} if is_screen else ON_PAPER)):
        figure, panels = _make_figure(len(groups), style)
        if is_screen:
            figure.suptitle(printable(title), x=0.01, ha="left", fontsize=12, fontweight="bold")
        for axes in panels[len(groups) :]:
            axes.set_axis_off()

        for axes, (classes, held) in zip(panels, groups, strict=False):
            draw_panel(axes, classes, style, held)
            axes.set_xlabel(printable(_axis_text(axis, classes[0].model)))
            if not style.is_joint:
                path = classes[0].key.callpath
                names = classes[0].model.parameters
                at = ", ".join(f"{names[i]} = {number(x)}" for i, x in held.items())
                room = NAME_WIDTH if is_screen else _heading_width(figure, len(groups))
                name = last_frames(str(path), max(room - len(at), LEAST_NAME) if at else room)
                cost = f"   {percent(share.get(path, 0.0))}" if is_screen else ""
                heading = f"{name}{cost}{f'   {at}' if at else ''}"
                axes.set_title(heading, loc="left", fontsize="medium", fontweight="bold")

        if style.is_joint:
            _move_legend_below(figure, panels[0])
        figure.savefig(file, dpi=160 if is_screen else 300)


def _axis_text(axis: str, model: Model) -> str:
    """The label of the axis, with the parameters that changed with the first one in all runs."""
    followers = [model.parameters[i] for i in following_columns(model.coordinates, 0)]
    return f"{axis} ({', '.join(followers)} with it)" if followers else axis


def _levels_of(series: Sequence[SeriesModel]) -> list[Held]:
    """Measured values of the parameters off the axis: the smallest, a middle, the largest.

    Parameters that changed with the first one in all runs are on its axis.
    """
    table = np.concatenate([item.model.coordinates for item in series])
    columns = held_columns(table, 0)
    ordered = sorted({tuple(others) for others in table[:, columns].tolist()})
    if len(ordered) > MAX_LEVELS:
        ordered = [ordered[0], ordered[len(ordered) // 2], ordered[-1]]
    return [dict(zip(columns, others, strict=True)) for others in ordered] or [{}]


def _make_figure(count: int, style: PlotStyle) -> tuple[Figure, list[Axes]]:
    """A figure with a grid of at least `count` panels, returned row by row."""
    if style.width_mm is None:
        columns = count if count < 4 else 2 if count == 4 else COLUMNS
        width, height = SCREEN_INCHES[0] * columns, SCREEN_INCHES[1]
        title_height = 0.6
    else:
        columns = max(1, min(count, int(style.width_mm // NARROWEST_MM)))
        width = style.width_mm / MM_PER_INCH
        height = ASPECT * min(width / columns, 3.5)
        title_height = 0.0

    rows = -(-count // columns)
    figure = Figure(figsize=(width, height * rows + title_height))
    figure.set_layout_engine("constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _move_legend_below(figure: Figure, axes: Axes) -> None:
    """Move a long legend out of the panel; the figure grows by its height."""
    legend = axes.get_legend()
    if legend is None:
        return

    n_lines = sum(text.get_text().count("\n") + 1 for text in legend.get_texts())
    parse_math = [text.get_parse_math() for text in legend.get_texts()]
    legend.remove()
    figure.set_figheight(figure.get_figheight() + 0.17 * n_lines)
    below = figure.legend(loc="outside lower left", fontsize=7, frameon=False, handlelength=1.4)
    for text, is_math in zip(below.get_texts(), parse_math, strict=True):
        text.set_parse_math(is_math)


def _heading_width(figure: Figure, count: int) -> int:
    """How many characters of a heading fit above a panel on paper."""
    width = figure.get_figwidth()
    columns = min(count, max(1, int(width * MM_PER_INCH // NARROWEST_MM)))
    return max(int(width / columns * 11), 12)  # 11 characters per inch at this font size


def draw_panel(
    axes: Axes,
    series: Sequence[SeriesModel],
    style: PlotStyle | None = None,
    held: Held | None = None,
) -> None:
    """Draw points, model and interval of every series over the first parameter.

    Args:
        axes: where to draw.
        series: the models.
        style: the layout; for a screen by default.
        held: values of parameters off the axis by column; without them, all points are drawn, and
            the models at the largest values.
    """
    style, held = style or PlotStyle(), held or {}
    lowest, largest = np.inf, 0.0
    scales: set[float] = set()
    has_classes = any(item.key.behaviour != ALL for item in series)

    for index, item in enumerate(series):
        points = []
        for at, value in measured_points(item.model):
            if all(at[i] == x for i, x in held.items()):
                points.append((at, value))
        if not points:
            continue
        colour, mark = COLOURS[index % len(COLOURS)], MARKS[index % len(MARKS)]
        x = np.array([at[0] for at, _ in points])
        y = np.array([value for _, value in points])
        scales.update(x.tolist())
        lowest, largest = min(lowest, y.min()), max(largest, y.max())

        line = _draw_model(axes, item.model, x, colour, held)
        axes.plot(x, y, mark, color=colour, markersize=4.5, markeredgecolor="white", zorder=3)
        # The mark appears in the legend but not along the curve.
        line.set(marker=mark, markersize=4.5, markeredgecolor="white")
        line.set_markevery([])
        line.set_label(_label(item, with_path=style.is_joint, has_classes=has_classes))

    _scale_axes(axes, sorted(scales), lowest=lowest, largest=largest, logs=style.logs)
    _label_values(axes, series[0])
    legend = axes.legend(fontsize=7, frameon=False, loc="best", handlelength=1.4, borderaxespad=0.2)
    for text, item in zip(legend.get_texts(), series, strict=False):
        text.set_parse_math("$" not in str(item.key.callpath) + item.key.behaviour)


def _draw_model(
    axes: Axes, model: Model, x: np.ndarray, colour: str, held: Held
) -> Any:  # Any: a line
    """Draw curve and interval; dashed beyond the points `x`, with a gap at change points."""
    end = FARTHER * x.max()
    is_log = x.min() > 0 and x.max() / x.min() >= WIDE
    space = np.geomspace if is_log else np.linspace
    at = np.unique([*space(x.min(), end, CURVE_POINTS), *x])

    point = model.coordinates.max(axis=0)
    for i, value in held.items():
        point[i] = value
    points = points_along(point, 0, at, model.coordinates)
    y = model.predict(points)
    bounds = model.interval(points)
    for low, high in model.change_points:
        gap = (at > low) & (at < high)
        y[gap], bounds[gap] = np.nan, np.nan
        axes.axvspan(low, high, color=colour, alpha=0.08, linewidth=0)

    axes.fill_between(at, bounds[:, 0], bounds[:, 1], color=colour, alpha=0.12, linewidth=0)
    inside, beyond = at <= x.max(), at >= x.max()
    (line,) = axes.plot(at[inside], y[inside], color=colour, linewidth=1.4)
    axes.plot(at[beyond], y[beyond], color=colour, linewidth=1.2, linestyle=(0, (3, 2)))
    return line


def _label(item: SeriesModel, *, with_path: bool, has_classes: bool) -> str:
    """The legend text: call path and class if they are not printed elsewhere, and the segments."""
    words = [name_with_caller(item.key.callpath)] if with_path else []
    words += [] if item.key.behaviour == ALL and not has_classes else [item.key.behaviour]
    name = printable(" ".join(words)[:TEXT_WIDTH]) + ": " * bool(words)
    if "$" in name + "".join(item.model.parameters):
        return name + printable(item.text)

    marks = marks_of(item)
    name += f"{printable(marks)}: " if marks else ""
    lines = []
    for segment in item.model.segments:
        limit = ""
        if np.isfinite(segment.upper):
            limit = rf",\ {item.model.parameters[0]} \leq {segment.upper:g}"
        elif np.isfinite(segment.lower):
            limit = rf",\ {item.model.parameters[0]} \geq {segment.lower:g}"
        lines.append(f"${to_latex(segment.function)}{limit}$")

    return name + "\n".join(lines)


def _label_values(axes: Axes, item: SeriesModel) -> None:
    """Print units with the values on a logarithmic axis, else once in the label of the axis."""
    metric = item.metric
    name = metric.name.replace("_", " ")
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, metric.unit)))
        axes.set_ylabel(name)
        return

    scale, unit = scale_of(max(map(abs, axes.get_ylim())), metric.unit)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:g}"))
    axes.set_ylabel(f"{name} [{unit}]" if unit not in ("", "1") else name)


def _scale_axes(
    axes: Axes, scales: list[float], *, lowest: float, largest: float, logs: str | None
) -> None:
    """Choose linear or logarithmic axes, by `logs` or by the spread of the values."""
    spread = scales[-1] / scales[0] if scales and scales[0] > 0 else 0.0
    ratio = largest / lowest if 0 < lowest < np.inf else 0.0

    is_log_x = spread >= WIDE if logs is None else "x" in logs and spread > 0
    if is_log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_minor_locator(NullLocator())

    is_log_y = is_log_x and WIDE <= ratio <= TOO_WIDE if logs is None else "y" in logs and ratio > 0
    if not is_log_y:
        low, high = axes.get_ylim()
        axes.set_ylim(min(0.0, low), 1.15 * max(high, largest))
        return
    axes.set_yscale("log")
    digits = (1.0, 2.0, 5.0) if ratio <= TOO_WIDE else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=digits))
    axes.yaxis.set_minor_locator(NullLocator())
    bottom, _ = axes.get_ylim()
    axes.set_ylim(bottom=max(bottom, lowest / WIDE))  # a bound near 0 would stretch the axis
