"""A metric of a call path as a person reads it: picture, formulas, candidates, residuals, ranks."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.text import Text

from insitu.analysis.detail import candidates, residuals
from insitu.entities import number
from insitu.modeling.base import Clusters, Model, ModelSet, SeriesModel
from insitu.modeling.classes.match import ALL
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.axes import FARTHER, select_evenly
from insitu.views.terminal.braille import Curve, mark_of, plot

STEPS = 96  # points of a curve
NOBODY = ("·", "default")
BAR = 10  # columns of the weight of a candidate
BALANCE = 6  # columns on either side of zero in the picture of residuals


@dataclass(frozen=True, slots=True)
class Subject:
    """What a page is about: all classes of a metric of a call path along one parameter.

    now: the value of the run in progress so far, at its coordinate.
    """

    callpath: str
    metric: str
    unit: str
    parameters: tuple[str, ...]
    along: int
    series: tuple[SeriesModel, ...]
    ranks: Clusters | None
    now: tuple[float, float] | None = None

    @property
    def axis(self) -> str:
        """The parameter along which it is drawn."""
        return self.parameters[self.along] if self.parameters else ""


def subject_of(
    models: ModelSet,
    callpath: str,
    metric: str,
    *,
    axis: str = "",
    now: tuple[float, float] | None = None,
) -> Subject:
    """Gather what is known of a metric of a call path; without series where nothing is."""
    along = models.parameters.index(axis) if axis in models.parameters else 0
    series = tuple(
        one
        for one in models.models
        if one.key.metric == metric and str(one.key.callpath) == callpath
    )
    ranks = [
        one for one in models.clusters if one.metric == metric and str(one.callpath) == callpath
    ]
    largest = max(ranks[::-1], key=lambda one: len(one.labels)) if ranks else None
    unit = series[0].metric.unit if series else ""
    return Subject(callpath, metric, unit, models.parameters, along, series, largest, now)


def picture(subject: Subject, width: int, height: int) -> list[Text]:
    """Points, models and intervals of all classes, and the run in progress."""
    curves = [curve_of(one, subject.along) for one in subject.series if len(one.model.values)]
    if not curves:
        return [Text("no model yet: it takes runs at three coordinates", "dim")]
    if subject.now is not None:
        first = curves[0]
        curves[0] = Curve(
            first.x, first.y, first.at, first.values, first.bounds, first.changes, subject.now
        )
    lines = plot(curves, width=width, height=height, unit=subject.unit, axis=subject.axis)
    held = _held(subject)
    return [*lines, Text(printable(held), "dim")] if held else lines


def curve_of(one: SeriesModel, along: int) -> Curve:
    """Points and curve along one parameter, the others at their largest values."""
    model = one.model
    rest = np.delete(model.coordinates, along, axis=1)
    here = (rest == rest.max(axis=0)).all(axis=1) & np.isfinite(model.values)
    low, high = float(model.coordinates[:, along].min()), float(model.coordinates[:, along].max())
    space = np.geomspace if low > 0 else np.linspace
    at = np.asarray(space(low, max(high * FARTHER, low + 1), STEPS))
    table = np.tile(model.coordinates.max(axis=0), (len(at), 1))
    table[:, along] = at
    changes = tuple((gap.low, gap.high) for gap in model.change_points) if along == 0 else ()
    return Curve(
        model.coordinates[here, along],
        model.values[here],
        at,
        model.predict(table),
        model.interval(table),
        changes,
    )


def facts(subject: Subject, width: int) -> list[Text]:
    """Everything that is no picture: a block per class."""
    lines: list[Text] = []
    for index, one in enumerate(subject.series):
        lines += [*_head(subject, index), *_segments(one.model), *_rivals(one.model)]
        lines += [*_points(one, subject.parameters, width), Text("")]
    return lines


def formulas(subject: Subject) -> list[Text]:
    """One line per class: its mark, its name, its model."""
    lines = []
    for index, one in enumerate(subject.series):
        mark, colour = mark_of(index)
        name = "" if one.key.behaviour == ALL else f"{printable(one.key.behaviour)}  "
        lines.append(
            Text.assemble((f"{mark} ", f"bold {colour}"), (name, "bold"), printable(str(one.model)))
        )
    return lines


def strip(ranks: Clusters, shown: Sequence[str], width: int) -> list[Text]:
    """The classes of the ranks of the largest run, in the order of the ranks.

    shown: the classes in the order of their marks.
    """
    order = [*shown, *(name for name in ranks.names if name not in shown)]
    signs = [mark_of(order.index(name)) for name in ranks.names]
    labels = ranks.labels
    chosen = select_evenly(len(labels))
    some = "" if len(chosen) == len(labels) else f", {len(chosen)} of them"
    lines = [Text(f"{len(labels)} ranks at {printable(str(ranks.run))}{some}", "bold")]
    for start in range(0, len(chosen), max(width - 2, 1)):
        line = Text(no_wrap=True)
        for rank in chosen[start : start + max(width - 2, 1)].tolist():
            sign, colour = signs[labels[rank]] if labels[rank] >= 0 else NOBODY
            line.append(sign, colour)
        lines.append(line)
    legend = Text()
    for index, name in enumerate(ranks.names):
        count = int((labels == index).sum())
        legend.append(f"{signs[index][0]} ", f"bold {signs[index][1]}")
        legend.append(f"{count} {printable(name)}   ")
    missing = int((labels < 0).sum())
    if missing:
        legend.append(f"{NOBODY[0]} {missing} without a value")
    return [*lines, legend]


def _held(subject: Subject) -> str:
    """The parameters that are not drawn, and where they are held."""
    if len(subject.parameters) < 2:
        return ""
    largest = np.max([one.model.coordinates.max(axis=0) for one in subject.series], axis=0)
    rest = [
        f"{name} = {number(value)}"
        for index, (name, value) in enumerate(zip(subject.parameters, largest, strict=True))
        if index != subject.along
    ]
    return f"at {', '.join(rest)}"


def _head(subject: Subject, index: int) -> Iterator[Text]:
    one = subject.series[index]
    mark, colour = mark_of(index)
    name = "all ranks" if one.key.behaviour == ALL else f"class {one.key.behaviour}"
    modeler = f"  by {one.model.modeler}"
    yield Text.assemble(
        (f"{mark} ", f"bold {colour}"), (printable(name), "bold"), (printable(modeler), "dim")
    )
    yield Text(f"  {printable(str(one.model))}")
    model = one.model
    parts = [f"error {percent(model.smape / 100)}"]
    if math.isfinite(model.adjusted_r2):
        parts.append(f"adjusted R² {model.adjusted_r2:.3f}")
    if math.isfinite(model.probability):
        parts.append(f"leading term {percent(model.probability)} probable")
    yield Text(f"  {' · '.join(parts)}", "dim")
    for finding in model.findings:
        yield Text(f"  {printable(finding.code)}: {printable(finding.text)}", "yellow")


def _segments(model: Model) -> Iterator[Text]:
    """Where behaviour changes, how surely."""
    name = model.parameters[0] if model.parameters else ""
    for index, gap in enumerate(model.change_points):
        sure = model.change_probabilities[index : index + 1]
        odds = f", {percent(sure[0])} probable" if sure else ""
        yield Text(
            f"  ┆ behaviour changes between {printable(name)} = {number(gap.low)} and "
            f"{number(gap.high)}{odds}"
        )


def _rivals(model: Model) -> Iterator[Text]:
    """The functions that compete, with their weights."""
    found = candidates(model)
    if not found:
        return
    where = "" if len(model.segments) == 1 else " for the last segment"
    yield Text(f"  candidates{where}", "bold")
    for function, weight in found:
        filled = round(BAR * weight)
        yield Text.assemble(
            f"  {percent(weight):>6} ",
            (f"{'█' * filled}{'·' * (BAR - filled)} ", "dim"),
            printable(str(function)),
        )


def _points(one: SeriesModel, parameters: Sequence[str], width: int) -> Iterator[Text]:
    """Measured, modelled, and how far off, as numbers and as a picture."""
    model, unit = one.model, one.metric.unit
    off = residuals(model)
    predicted = model.predict(model.coordinates)
    worst = float(np.nanmax(np.abs(off))) if np.isfinite(off).any() else 0.0
    names = ",".join(parameters)
    yield Text(printable(f"  {names:>12}  {'measured':>9} {'model':>9} {'off':>8}"), "bold")
    order = sorted(range(len(model.values)), key=lambda i: tuple(model.coordinates[i].tolist()))
    for i in order:
        if not math.isfinite(model.values[i]):
            continue
        place = ",".join(number(value) for value in model.coordinates[i].tolist())
        numbers = (
            f"  {place:>12}  {quantity(float(model.values[i]), unit):>9} "
            f"{quantity(float(predicted[i]), unit):>9} {_signed(float(off[i])):>8}"
        )
        line = Text(printable(numbers))
        if width >= len(numbers) + 2 * BALANCE + 3:
            line.append(f"  {_balance(float(off[i]), worst)}", "dim")
        yield line


def _signed(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{percent(abs(value))}"


def _balance(value: float, worst: float) -> str:
    """A bar to the left of zero for values below the model, to the right for those above."""
    filled = round(BALANCE * abs(value) / worst) if worst > 0 and math.isfinite(value) else 0
    left, right = (filled, 0) if value < 0 else (0, filled)
    return f"{'█' * left:>{BALANCE}}│{'█' * right:<{BALANCE}}"
