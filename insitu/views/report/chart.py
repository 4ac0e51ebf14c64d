"""Pictures of points, models, shares and ranks as SVG that stands inside a page."""

from collections.abc import Sequence
from html import escape

import numpy as np

from insitu.analysis.callpaths import last_frames
from insitu.analysis.cost import measured_points
from insitu.entities import number
from insitu.modeling.base import Model, SeriesModel
from insitu.modeling.classes.match import ALL
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.axes import Axis, is_wide, select_evenly

HIGHEST = 1e300  # value where a curve leaves the picture
STEPS = 48  # points of a curve
WIDTH, HEIGHT = 340.0, 200.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 20.0, 8.0, 26.0
COLOURS = 7  # of the style sheet, .c0 to .c6
MARKS = ("circle", "square", "diamond", "up")
NAME_WIDTH = 30
# Colours are those of the page around it; a notebook has none, so each has a value of its own.
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
    """The measured points of every class with model and bounds, up to the target.

    Args:
        series: the classes of one metric of one call path.
        target: a coordinate; the curve ends there, beyond the points it is dashed.
        axis: the name of the parameter that is farthest from its measured values.
    """
    drawn = [one for one in series if measured_points(one.model)]
    if not drawn:
        return ""
    along = _along(drawn, target)
    xs = [np.array([at[along] for at, _ in measured_points(one.model)]) for one in drawn]
    ys = [np.array([value for _, value in measured_points(one.model)]) for one in drawn]
    low, high = min(float(x.min()) for x in xs), float(target[along])
    high = max(high, *(float(x.max()) for x in xs))
    x_axis = Axis(low, high if high > low else low + 1, LEFT, WIDTH - RIGHT, is_wide(low, high))
    curves = [_curve(one.model, along, x_axis) for one in drawn]
    values = np.concatenate([*ys, *(curve[1] for curve in curves)])
    least, most = float(values.min()), float(values.max())
    is_log = is_wide(least, most)
    floor = least / 1.5 if is_log else min(0.0, least)
    y_axis = Axis(floor, (most * 1.25) or 1.0, HEIGHT - BOTTOM, TOP, is_log)
    unit = drawn[0].metric.unit
    parts = [_frame(x_axis, y_axis, unit, axis)]
    for index, (x, y, curve, one) in enumerate(zip(xs, ys, curves, drawn, strict=True)):
        parts.append(
            _drawn(
                x_axis,
                y_axis,
                curve=curve,
                measured_to=float(x.max()),
                index=index,
                model=one.model,
            )
        )
        parts += [
            _mark(float(a), float(b), index) for a, b in zip(x_axis(x), y_axis(y), strict=True)
        ]
    words = escape(f"{drawn[0].key.metric} over {axis}", quote=True)
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{words}">'
        f"{''.join(parts)}</svg>"
    )


def legend(series: Sequence[SeriesModel]) -> str:
    """The classes of a chart with their models, in its colours."""
    rows = []
    for index, one in enumerate(one for one in series if measured_points(one.model)):
        name = "" if one.key.behaviour == ALL else f"<b>{_text(one.key.behaviour)}</b> "
        sign = f'<svg class="key" viewBox="0 0 12 12">{_mark(6, 6, index)}</svg>'
        rows.append(f"<li>{sign}{name}{_text(str(one.model))}</li>")
    return f'<ul class="legend">{"".join(rows)}</ul>'


def shares_chart(names: Sequence[str], at: FloatArray, parts: FloatArray, axis: str) -> str:
    """Shares of the cost as bands above each other.

    Args:
        names: of the bands, the lowest first.
        at: (n_points,) values of the parameter.
        parts: (n_bands, n_points), each column a whole.
        axis: the name of the parameter.
    """
    width, right = 680.0, 230.0
    x_axis = Axis(at[0], at[-1], 42.0, width - right, is_wide(float(at[0]), float(at[-1])))
    y_axis = Axis(0.0, 1.0, HEIGHT - BOTTOM, TOP, is_log=False)
    tops = np.cumsum(parts, axis=0)
    bottoms = tops - parts
    x = x_axis(at)
    bands = []
    for index, name in enumerate(names):
        line = _path(x, y_axis(tops[index]))
        back = _path(x[::-1], y_axis(bottoms[index])[::-1]).replace("M", "L", 1)
        shade = f"c{index}" if index < COLOURS - 1 else "rest"
        bands.append(f'<path class="share {shade}" d="{line}{back}Z"/>')
        middle = float(y_axis(np.array([(tops[index, -1] + bottoms[index, -1]) / 2]))[0])
        if parts[index, -1] >= 0.05:
            label = f"{percent(float(parts[index, -1]))} {last_frames(name, NAME_WIDTH)}"
            bands.append(
                f'<text x="{width - right + 8:g}" y="{middle + 4:.1f}">{_text(label)}</text>'
            )
    ticks = [
        f'<text class="x" x="{place:.1f}" y="{HEIGHT - 10:g}">{number(value)}</text>'
        for value, place in _placed(x_axis, 7)
    ] + [
        f'<text class="y" x="38" y="{place + 4:.1f}">{percent(value)}</text>'
        for value, place in _placed(y_axis, 4)
    ]
    word = f'<text class="x name" x="20" y="{HEIGHT - 10:g}">{_text(axis)}</text>'
    return (
        f'<svg class="wide" viewBox="0 0 {width:g} {HEIGHT + 4:g}" role="img" '
        f'aria-label="shares of the cost over {escape(axis, quote=True)}">'
        f"{''.join(bands)}{''.join(ticks)}{word}</svg>"
    )


def rank_strip(labels: IntArray, names: Sequence[str]) -> str:
    """The ranks in their order, one cell each, coloured by class."""
    chosen = select_evenly(len(labels))
    cell = min(12.0, 680.0 / max(len(chosen), 1))
    cells = []
    for place, rank in enumerate(chosen.tolist()):
        label = int(labels[rank])
        shade = f"c{label % COLOURS}" if label >= 0 else "none"
        name = names[label] if label >= 0 else "no value"
        cells.append(
            f'<rect class="{shade}" x="{place * cell:.2f}" y="0" width="{cell * 0.92:.2f}" '
            f'height="14"><title>rank {rank}: {_text(name)}</title></rect>'
        )
    return (
        f'<svg class="strip" viewBox="0 0 {len(chosen) * cell:.1f} 14" '
        f'style="max-width:{len(chosen) * cell:.0f}px" role="img" '
        f'aria-label="classes of the ranks in their order">{"".join(cells)}</svg>'
    )


def _along(series: Sequence[SeriesModel], target: Sequence[float]) -> int:
    """The parameter in which the target is farthest from what was measured."""
    largest = np.max([one.model.coordinates.max(axis=0) for one in series], axis=0)
    return int(np.argmax(np.array(target) / np.maximum(largest, 1e-300)))


def _curve(model: Model, along: int, axis: Axis) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Places along the parameter, values (n,), bounds (n, 2); others at their largest values."""
    if axis.is_log:
        at = np.geomspace(axis.low, axis.high, STEPS)
    else:
        at = np.linspace(axis.low, axis.high, STEPS)
    at = np.unique([*at, float(model.coordinates[:, along].max())])
    table = np.tile(model.coordinates.max(axis=0), (len(at), 1))
    table[:, along] = at
    values, bounds = (
        np.clip(found, -HIGHEST, HIGHEST) for found in (model.predict(table), model.interval(table))
    )
    return at, values, bounds


def _drawn(
    x_axis: Axis,
    y_axis: Axis,
    *,
    curve: tuple[FloatArray, FloatArray, FloatArray],
    measured_to: float,
    index: int,
    model: Model,
) -> str:
    at, values, bounds = curve
    shade = f"c{index % COLOURS}"
    x, y = x_axis(at), y_axis(values)
    inside = at <= measured_to
    parts = []
    if not np.isnan(bounds).any():
        upper = _path(x, y_axis(bounds[:, 1]))
        lower = _path(x[::-1], y_axis(bounds[:, 0])[::-1]).replace("M", "L", 1)
        parts.append(f'<path class="band {shade}" d="{upper}{lower}Z"/>')
    for low, high in model.change_points:
        left, right = (float(place) for place in x_axis(np.array([low, high])))
        parts.append(
            f'<rect class="band {shade}" x="{left:.1f}" y="{TOP:g}" width="{right - left:.1f}" '
            f'height="{HEIGHT - TOP - BOTTOM:.1f}"/>'
        )
    parts.append(f'<path class="line {shade}" d="{_path(x[inside], y[inside])}"/>')
    if not inside.all():
        beyond = np.append(np.flatnonzero(inside)[-1:], np.flatnonzero(~inside))
        parts.append(f'<path class="line far {shade}" d="{_path(x[beyond], y[beyond])}"/>')
    return "".join(parts)


def _frame(x_axis: Axis, y_axis: Axis, unit: str, axis: str) -> str:
    bottom = HEIGHT - BOTTOM
    parts = []
    for value, place in _placed(y_axis, 5):
        parts.append(f'<path class="grid" d="M{LEFT:g} {place:.1f}H{WIDTH - RIGHT:g}"/>')
        label = _text(quantity(value, unit))
        parts.append(f'<text class="y" x="{LEFT - 5:g}" y="{place + 4:.1f}">{label}</text>')
    for value, place in _placed(x_axis, 6):
        parts.append(f'<path class="tick" d="M{place:.1f} {bottom:g}v4"/>')
        parts.append(
            f'<text class="x" x="{place:.1f}" y="{bottom + 16:g}">{number(round(value, 6))}</text>'
        )
    parts.append(f'<path class="tick" d="M{LEFT:g} {bottom:g}H{WIDTH - RIGHT:g}"/>')
    parts.append(f'<text class="y name" x="{LEFT - 8:g}" y="{bottom + 16:g}">{_text(axis)}</text>')
    return "".join(parts)


def _placed(axis: Axis, most: int) -> list[tuple[float, float]]:
    ticks = axis.ticks(most)
    return list(zip(ticks, axis(np.array(ticks)).tolist(), strict=True))


def _path(x: FloatArray, y: FloatArray) -> str:
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return "".join(f"{'L' if i else 'M'}{a:.1f} {b:.1f}" for i, (a, b) in enumerate(pairs))


def _mark(x: float, y: float, index: int) -> str:
    """A sign of its own for each class, so that no colour is needed to tell them apart."""
    shade = f"mark c{index % COLOURS}"
    kind = MARKS[index % len(MARKS)]
    if kind == "circle":
        return f'<circle class="{shade}" cx="{x:.1f}" cy="{y:.1f}" r="3.4"/>'
    shape = {"square": "m-3 -3h6v6h-6z", "diamond": "m0 -4.2l4.2 4.2l-4.2 4.2l-4.2 -4.2z"}
    d = shape.get(kind, "m0 -4l4 7h-8z")
    return f'<path class="{shade}" d="M{x:.1f} {y:.1f}{d}"/>'


def _text(text: str) -> str:
    return escape(printable(text))
