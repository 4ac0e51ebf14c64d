"""Plots of points, models, shares and ranks as inline SVG."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from insitu.analysis.callpaths import last_frames
from insitu.analysis.cost import measured_points
from insitu.analysis.scaling import describe_line, fullest_line, is_on_line
from insitu.entities import number
from insitu.modeling.base import ALL, Model, SeriesModel
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.target import points_along
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.axes import Axis, is_wide, select_evenly

HIGHEST = 1e300  # infinite values are drawn at this one
CURVE_POINTS = 48
WIDTH, HEIGHT = 340.0, 200.0
WIDE_WIDTH, LABEL_WIDTH = 680.0, 230.0  # of the plot of shares, and of its labels
LEFT, RIGHT, TOP, BOTTOM = 62.0, 20.0, 8.0, 26.0
COLOURS = 7  # .c0 to .c6 in the style sheet
LEAST_LABELLED = 0.05  # share of a band from which it has a label
MARKS = ("circle", "square", "diamond", "up")
NAME_WIDTH = 30
# Colours come from the page around it; a notebook has none, so each has a default value.
CHART_STYLE = """
svg { width: 100%; height: auto; display: block; }
svg text { font-size: 10px; fill: var(--dim, #5f6670); }
svg.wide text { font-size: 11px; } svg .y { text-anchor: end; } svg .x { text-anchor: middle; }
svg .name { font-weight: 600; }
svg.key { width: 11px; display: inline-block; margin-right: 6px; }
.legend { list-style: none; margin: 4px 0 0; padding: 0; font-size: 12px; }
.legend li { overflow-wrap: anywhere; }
.grid { stroke: var(--line, #d9dde2); fill: none; }
.tick { stroke: var(--dim, #5f6670); fill: none; }
.line { fill: none; stroke-width: 1.6; } .far { stroke-dasharray: 4 3; }
.band { opacity: .16; } .share { opacity: .85; stroke: var(--paper, #fff); }
.c0 { --k: var(--a, #0072b2); }
.c1 { --k: var(--b, #d55e00); }
.c2 { --k: var(--c, #009e73); }
.c3 { --k: var(--d, #b0588f); }
.c4 { --k: var(--e, #b87d00); } .c5 { --k: var(--f, #2f8fc4); } .c6 { --k: var(--g, #777); }
.line { stroke: var(--k); } .band, .mark, .share, .strip rect { fill: var(--k); }
.share.rest, .strip .none { fill: var(--line, #d9dde2); }
.mark { stroke: var(--paper, #fff); stroke-width: .8; }
"""


def series_chart(series: Sequence[SeriesModel], target: Sequence[float], axis: str) -> str:
    """Measured points, models and intervals of all classes, up to the target.

    With several parameters, the points are those of the line with the most of them, which
    `describe_chart` describes.

    Args:
        series: the classes of one metric of one call path.
        target: the coordinate at which curves end; beyond the points they are dashed.
        axis: name of the parameter in which the target is farthest from the measured values.
    """
    shown = [item for item in series if measured_points(item.model)]
    if not shown:
        return ""

    along = _farthest_parameter(shown, target)
    line = fullest_line(_coordinates(shown), along)
    xs, ys = [], []
    for item in shown:
        is_shown = is_on_line(item.model.coordinates, line, along) & np.isfinite(item.model.values)
        xs.append(item.model.coordinates[is_shown, along])
        ys.append(item.model.values[is_shown])
    at = np.concatenate(xs)
    low, high = float(at.min()), max(float(target[along]), float(at.max()))
    x_axis = Axis(low, high if high > low else low + 1, LEFT, WIDTH - RIGHT, is_wide(low, high))

    curves = [_make_curve(item.model, line, along, x_axis) for item in shown]
    values = np.concatenate([*ys, *(curve.values for curve in curves)])
    least, most = float(values.min()), float(values.max())
    is_log = is_wide(least, most)
    floor = least / 1.5 if is_log else min(0.0, least)
    y_axis = Axis(floor, (most * 1.25) or 1.0, HEIGHT - BOTTOM, TOP, is_log)

    elements = [_draw_frame(x_axis, y_axis, shown[0].metric.unit, axis)]
    for index, (x, y, curve, item) in enumerate(zip(xs, ys, curves, shown, strict=True)):
        axes = (x_axis, y_axis)
        last = float(item.model.coordinates[:, along].max())
        elements.append(_draw_curve(axes, curve, last, model=item.model, index=index))
        for left, top in zip(x_axis(x), y_axis(y), strict=True):
            elements.append(_draw_mark(float(left), float(top), index))

    label = escape(f"{shown[0].key.metric} over {axis}", quote=True)
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{label}">'
        f"{''.join(elements)}</svg>"
    )


def describe_chart(series: Sequence[SeriesModel], target: Sequence[float]) -> str:
    """The values of the parameters that `series_chart` does not draw, "" without any."""
    shown = [item for item in series if measured_points(item.model)]
    if not shown:
        return ""
    along, coordinates = _farthest_parameter(shown, target), _coordinates(shown)
    line = fullest_line(coordinates, along)
    return describe_line(shown[0].model.parameters, coordinates, line, along)


def _coordinates(series: Sequence[SeriesModel]) -> FloatArray:
    """All coordinates of the series: (n_points, n_parameters)."""
    return np.asarray(np.concatenate([item.model.coordinates for item in series]))


def legend(series: Sequence[SeriesModel]) -> str:
    """The classes of a plot with their models, in the colours of the plot."""
    rows = []
    shown = [item for item in series if measured_points(item.model)]
    for index, item in enumerate(shown):
        name = "" if item.class_text == ALL else f"<b>{_text(item.class_text)}</b> "
        key = f'<svg class="key" viewBox="0 0 12 12">{_draw_mark(6, 6, index)}</svg>'
        rows.append(f"<li>{key}{name}{_text(item.text)}</li>")
    return f'<ul class="legend">{"".join(rows)}</ul>'


def shares_chart(names: Sequence[str], at: FloatArray, shares: FloatArray, axis: str) -> str:
    """Shares of the cost as stacked bands.

    Args:
        names: of the bands, the lowest first.
        at: values of the parameter, (n_points,).
        shares: (n_bands, n_points); each column sums to 1.
        axis: name of the parameter.
    """
    right = WIDE_WIDTH - LABEL_WIDTH
    x_axis = Axis(at[0], at[-1], 42.0, right, is_wide(float(at[0]), float(at[-1])))
    y_axis = Axis(0.0, 1.0, HEIGHT - BOTTOM, TOP, is_log=False)
    tops = np.cumsum(shares, axis=0)
    bottoms = tops - shares
    x = x_axis(at)

    elements = []
    for index, name in enumerate(names):
        upper = _path(x, y_axis(tops[index]))
        lower = _path(x[::-1], y_axis(bottoms[index])[::-1]).replace("M", "L", 1)
        shade = f"c{index}" if index < COLOURS - 1 else "rest"
        elements.append(f'<path class="share {shade}" d="{upper}{lower}Z"/>')

        last = float(shares[index, -1])
        if last >= LEAST_LABELLED:
            middle = float(y_axis(np.array([(tops[index, -1] + bottoms[index, -1]) / 2]))[0])
            label = _text(f"{percent(last)} {last_frames(name, NAME_WIDTH)}")
            elements.append(f'<text x="{right + 8:g}" y="{middle + 4:.1f}">{label}</text>')

    bottom = HEIGHT - 10
    for value, left in _tick_positions(x_axis, 7):
        elements.append(f'<text class="x" x="{left:.1f}" y="{bottom:g}">{number(value)}</text>')
    for value, top in _tick_positions(y_axis, 4):
        elements.append(f'<text class="y" x="38" y="{top + 4:.1f}">{percent(value)}</text>')
    elements.append(f'<text class="x name" x="20" y="{bottom:g}">{_text(axis)}</text>')

    return (
        f'<svg class="wide" viewBox="0 0 {WIDE_WIDTH:g} {HEIGHT + 4:g}" role="img" '
        f'aria-label="shares of the cost over {escape(axis, quote=True)}">'
        f"{''.join(elements)}</svg>"
    )


def rank_strip(labels: IntArray, names: Sequence[str]) -> str:
    """The ranks of a run in order, a cell each, coloured by class.

    Args:
        labels: (n_ranks,), indices into `names`; -1 for a rank without a value.
        names: of the classes.
    """
    ranks = select_evenly(len(labels))
    width = min(12.0, WIDE_WIDTH / max(len(ranks), 1))

    cells = []
    for index, rank in enumerate(ranks.tolist()):
        label = int(labels[rank])
        shade = f"c{label % COLOURS}" if label >= 0 else "none"
        name = names[label] if label >= 0 else "no value"
        cells.append(
            f'<rect class="{shade}" x="{index * width:.2f}" y="0" width="{width * 0.92:.2f}" '
            f'height="14"><title>rank {rank}: {_text(name)}</title></rect>'
        )

    total = len(ranks) * width
    return (
        f'<svg class="strip" viewBox="0 0 {total:.1f} 14" '
        f'style="max-width:{total:.0f}px" role="img" '
        f'aria-label="classes of the ranks in order">{"".join(cells)}</svg>'
    )


def _farthest_parameter(series: Sequence[SeriesModel], target: Sequence[float]) -> int:
    """Index of the parameter in which the target is farthest from the measured values."""
    largest = np.max([item.model.coordinates.max(axis=0) for item in series], axis=0)
    return int(np.argmax(np.array(target) / np.maximum(largest, 1e-300)))


class Curve(NamedTuple):
    """A model along one parameter: at (n,), values (n,), bounds (n, 2)."""

    at: FloatArray
    values: FloatArray
    bounds: FloatArray


def _make_curve(model: Model, line: FloatArray, along: int, axis: Axis) -> Curve:
    """A model over the axis, along a line."""
    space = np.geomspace if axis.is_log else np.linspace
    largest = float(model.coordinates[:, along].max())
    at = np.unique([*space(axis.low, axis.high, CURVE_POINTS), largest])

    points = points_along(line, along, at, model.coordinates)
    values = np.clip(model.predict(points), -HIGHEST, HIGHEST)
    bounds = np.clip(model.interval(points), -HIGHEST, HIGHEST)
    return Curve(at, values, bounds)


def _draw_curve(
    axes: tuple[Axis, Axis], curve: Curve, measured_to: float, *, model: Model, index: int
) -> str:
    """Interval, change points and curve of a model; the curve is dashed beyond `measured_to`."""
    x_axis, y_axis = axes
    shade = f"c{index % COLOURS}"
    x, y = x_axis(curve.at), y_axis(curve.values)

    elements = []
    if not np.isnan(curve.bounds).any():
        upper = _path(x, y_axis(curve.bounds[:, 1]))
        lower = _path(x[::-1], y_axis(curve.bounds[:, 0])[::-1]).replace("M", "L", 1)
        elements.append(f'<path class="band {shade}" d="{upper}{lower}Z"/>')
    for low, high in model.change_points:
        left, right = x_axis(np.array([low, high])).tolist()
        elements.append(
            f'<rect class="band {shade}" x="{left:.1f}" y="{TOP:g}" width="{right - left:.1f}" '
            f'height="{HEIGHT - TOP - BOTTOM:.1f}"/>'
        )

    inside = curve.at <= measured_to
    elements.append(f'<path class="line {shade}" d="{_path(x[inside], y[inside])}"/>')
    if not inside.all():
        beyond = np.append(np.flatnonzero(inside)[-1:], np.flatnonzero(~inside))
        elements.append(f'<path class="line far {shade}" d="{_path(x[beyond], y[beyond])}"/>')
    return "".join(elements)


def _draw_frame(x_axis: Axis, y_axis: Axis, unit: str, axis: str) -> str:
    """Grid, ticks and labels."""
    bottom = HEIGHT - BOTTOM
    elements = []
    for value, top in _tick_positions(y_axis, 5):
        elements.append(f'<path class="grid" d="M{LEFT:g} {top:.1f}H{WIDTH - RIGHT:g}"/>')
        label = _text(quantity(value, unit))
        elements.append(f'<text class="y" x="{LEFT - 5:g}" y="{top + 4:.1f}">{label}</text>')

    for value, left in _tick_positions(x_axis, 6):
        elements.append(f'<path class="tick" d="M{left:.1f} {bottom:g}v4"/>')
        label = number(round(value, 6))
        elements.append(f'<text class="x" x="{left:.1f}" y="{bottom + 16:g}">{label}</text>')

    elements.append(f'<path class="tick" d="M{LEFT:g} {bottom:g}H{WIDTH - RIGHT:g}"/>')
    name = f'<text class="y name" x="{LEFT - 8:g}" y="{bottom + 16:g}">{_text(axis)}</text>'
    elements.append(name)
    return "".join(elements)


def _tick_positions(axis: Axis, most: int) -> list[tuple[float, float]]:
    """Values of the ticks and their positions."""
    ticks = axis.ticks(most)
    return list(zip(ticks, axis(np.array(ticks)).tolist(), strict=True))


def _path(x: FloatArray, y: FloatArray) -> str:
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return "".join(
        f"{'L' if i else 'M'}{left:.1f} {top:.1f}" for i, (left, top) in enumerate(pairs)
    )


def _draw_mark(x: float, y: float, index: int) -> str:
    """A mark whose shape depends on the class, so that colours are not needed."""
    shade = f"mark c{index % COLOURS}"
    kind = MARKS[index % len(MARKS)]
    if kind == "circle":
        return f'<circle class="{shade}" cx="{x:.1f}" cy="{y:.1f}" r="3.4"/>'
    shapes = {"square": "m-3 -3h6v6h-6z", "diamond": "m0 -4.2l4.2 4.2l-4.2 4.2l-4.2 -4.2z"}
    shape = shapes.get(kind, "m0 -4l4 7h-8z")
    return f'<path class="{shade}" d="M{x:.1f} {y:.1f}{shape}"/>'


def _text(text: str) -> str:
    return escape(printable(text))
