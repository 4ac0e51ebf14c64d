"""The content of a model page: plot, formulas, candidates, residuals, ranks."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.text import Text

from insitu.analysis.detail import candidates, describe_claim, residuals
from insitu.analysis.scaling import describe_line, fullest_line, is_on_line
from insitu.entities import number
from insitu.modeling.back_test_report import describe_back_tests
from insitu.modeling.base import ALL, Clusters, Model, ModelSet, SeriesModel
from insitu.modeling.target import points_along
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.axes import FARTHER, select_evenly
from insitu.views.terminal.braille import BrailleCurve, class_mark, plot

CURVE_POINTS = 96
NO_CLASS = ("·", "default")
BAR = 10  # columns of the weight of a candidate
BALANCE = 6  # columns on either side of zero in the bars of residuals


@dataclass(frozen=True, slots=True)
class Subject:
    """The data of a page: all classes of a metric of a call path along one parameter.

    along: index of the parameter. ranks: classes of the ranks of the largest run. now: coordinate
    and value so far of the run in progress.
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
        """Name of the parameter on the horizontal axis."""
        return self.parameters[self.along] if self.parameters else ""


def make_subject(
    models: ModelSet,
    callpath: str,
    metric: str,
    *,
    axis: str = "",
    now: tuple[float, float] | None = None,
) -> Subject:
    """Collect the models of a metric of a call path; `series` is empty if there is none."""
    along = models.parameters.index(axis) if axis in models.parameters else 0
    series = tuple(models.series_of(callpath, metric))
    ranks = [
        clusters
        for clusters in models.clusters
        if clusters.metric == metric and str(clusters.callpath) == callpath
    ]
    largest = max(ranks[::-1], key=lambda clusters: len(clusters.labels)) if ranks else None
    unit = series[0].metric.unit if series else ""
    return Subject(callpath, metric, unit, models.parameters, along, series, largest, now)


def picture(subject: Subject, width: int, height: int) -> list[Text]:
    """The plot: points, models and intervals of all classes, and the run in progress."""
    curves = [make_curve(item, subject.along) for item in subject.series if len(item.model.values)]
    if not curves:
        return [Text("no model yet: a model needs runs at three scales", "dim")]
    if subject.now is not None:
        curves[0] = replace(curves[0], now=subject.now)
    lines = plot(curves, width=width, height=height, unit=subject.unit, axis=subject.axis)
    fixed = _fixed_parameters(subject)
    return [*lines, Text(printable(fixed), "dim")] if fixed else lines


def make_curve(item: SeriesModel, along: int) -> BrailleCurve:
    """Points and curve along one parameter; the others are those of most points."""
    model = item.model
    line = fullest_line(model.coordinates, along)
    is_shown = is_on_line(model.coordinates, line, along) & np.isfinite(model.values)

    low, high = float(model.coordinates[:, along].min()), float(model.coordinates[:, along].max())
    space = np.geomspace if low > 0 else np.linspace
    at = np.asarray(space(low, max(high * FARTHER, low + 1), CURVE_POINTS))
    points = points_along(line, along, at, model.coordinates)
    changes = tuple((gap.low, gap.high) for gap in model.change_points) if along == 0 else ()
    return BrailleCurve(
        model.coordinates[is_shown, along],
        model.values[is_shown],
        at,
        model.predict(points),
        model.interval(points),
        changes,
    )


def facts(subject: Subject, width: int) -> list[Text]:
    """A block of text per class: model, change points, candidates, points."""
    lines: list[Text] = []
    for index, item in enumerate(subject.series):
        lines += _heading(subject, index)
        lines += _change_points(item.model)
        lines += _candidates(item.model)
        lines += _points(item, subject.parameters, width)
        lines.append(Text(""))
    return lines


def formulas(subject: Subject) -> list[Text]:
    """One line per class: mark, name, model."""
    lines = []
    for index, item in enumerate(subject.series):
        mark, colour = class_mark(index)
        name = "" if item.class_text == ALL else f"{printable(item.class_text)}  "
        model = printable(item.text)
        lines.append(Text.assemble((f"{mark} ", f"bold {colour}"), (name, "bold"), model))
    return lines


def strip(ranks: Clusters, shown: Sequence[str], width: int) -> list[Text]:
    """The classes of the ranks of the largest run, in rank order.

    Args:
        ranks: the classes.
        shown: names of the classes in the order of their marks.
        width: columns of a line.
    """
    order = [*shown, *(name for name in ranks.names if name not in shown)]
    signs = [class_mark(order.index(name)) for name in ranks.names]
    labels = ranks.labels
    selected = select_evenly(len(labels))
    some = "" if len(selected) == len(labels) else f", {len(selected)} of them"
    lines = [Text(f"{len(labels)} ranks at {printable(str(ranks.run))}{some}", "bold")]
    for start in range(0, len(selected), max(width - 2, 1)):
        line = Text(no_wrap=True)
        for rank in selected[start : start + max(width - 2, 1)].tolist():
            sign, colour = signs[labels[rank]] if labels[rank] >= 0 else NO_CLASS
            line.append(sign, colour)
        lines.append(line)

    legend = Text()
    for index, name in enumerate(ranks.names):
        count = int((labels == index).sum())
        legend.append(f"{signs[index][0]} ", f"bold {signs[index][1]}")
        legend.append(f"{count} {printable(name)}   ")

    missing = int((labels < 0).sum())
    if missing:
        legend.append(f"{NO_CLASS[0]} {missing} without a value")

    return [*lines, legend]


def _fixed_parameters(subject: Subject) -> str:
    """The values of the parameters that are not drawn."""
    table = np.concatenate([item.model.coordinates for item in subject.series])
    line = fullest_line(table, subject.along)
    return describe_line(subject.parameters, table, line, subject.along)


def _heading(subject: Subject, index: int) -> Iterator[Text]:
    item = subject.series[index]
    mark, colour = class_mark(index)
    if item.key.behaviour == ALL:
        name = "all ranks" if item.class_text == ALL else item.class_text
    else:
        name = f"class {item.key.behaviour}"
    modeler = f"  by {item.model.modeler}"
    yield Text.assemble(
        (f"{mark} ", f"bold {colour}"), (printable(name), "bold"), (printable(modeler), "dim")
    )
    yield Text(f"  {printable(item.text)}")
    model = item.model
    words = [f"error {percent(model.smape / 100)}"]
    if math.isfinite(model.adjusted_r2):
        words.append(f"adjusted R² {model.adjusted_r2:.3f}")
    if claim := describe_claim(model):
        words.append(f"leading term {claim}")

    yield Text(f"  {' · '.join(words)}", "dim")
    for finding in model.findings:
        yield Text(f"  {printable(finding.code)}: {printable(finding.text)}", "yellow")
    for sentence in describe_back_tests([item]).values():
        yield Text(f"  {printable(sentence)}", "dim")


def _change_points(model: Model) -> Iterator[Text]:
    """The change points and their probabilities."""
    name = model.parameters[0] if model.parameters else ""
    for index, gap in enumerate(model.change_points):
        probabilities = model.change_probabilities[index : index + 1]
        odds = f", {percent(probabilities[0])} probable" if probabilities else ""
        yield Text(
            f"  ┆ behaviour changes between {printable(name)} = {number(gap.low)} and "
            f"{number(gap.high)}{odds}"
        )


def _candidates(model: Model) -> Iterator[Text]:
    """The candidate functions with their weights."""
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


def _points(item: SeriesModel, parameters: Sequence[str], width: int) -> Iterator[Text]:
    """A line per point: measured and predicted value, residual as number and bar."""
    model, unit = item.model, item.metric.unit
    off = residuals(model)
    predicted = model.formula_at(model.coordinates)
    worst = float(np.nanmax(np.abs(off))) if np.isfinite(off).any() else 0.0
    names = ",".join(parameters)
    yield Text(printable(f"  {names:>12}  {'measured':>9} {'model':>9} {'off':>8}"), "bold")
    order = sorted(range(len(model.values)), key=lambda i: tuple(model.coordinates[i].tolist()))
    for i in order:
        if not math.isfinite(model.values[i]):
            continue
        at = ",".join(number(value) for value in model.coordinates[i].tolist())
        numbers = (
            f"  {at:>12}  {quantity(float(model.values[i]), unit):>9} "
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
