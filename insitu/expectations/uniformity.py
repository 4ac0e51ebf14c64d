"""Rules about behaviour classes: `one class only`, `corner within 10 % of inner`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from insitu.errors import UsageError
from insitu.modeling.base import Clusters, SeriesModel
from insitu.modeling.classes.run_groups import coordinate_name

EXAMPLE = "`one class only` or `corner within 10 % of inner`"
_WITHIN = re.compile(r"\s*(.+?)\s+within\s+(\d+(?:\.\d+)?)\s*%\s+of\s+(.+?)\s*\Z")


@dataclass(frozen=True, slots=True)
class ClassExpectation:
    """All ranks behave alike; with `names`, two classes differ by at most `apart`.

    apart: relative, 0.1 is 10 %.
    """

    text: str
    names: tuple[str, str] | None = None
    apart: float = 0.0


@dataclass(frozen=True, slots=True)
class Uniformity:
    """Whether a rule about classes holds, and where it is violated most."""

    is_met: bool
    text: str


def parse_class_rule(text: str) -> ClassExpectation:
    """Parse a rule about classes.

    Raises:
        UsageError: the text has another form.
    """
    if re.fullmatch(r"\s*(one|1)\s+class(\s+only)?\s*", text):
        return ClassExpectation(text)
    fields = _WITHIN.match(text)
    if not fields:
        raise UsageError(f"classes '{text}': write {EXAMPLE}")
    return ClassExpectation(text, (fields[1], fields[3]), float(fields[2]) / 100)


def check_classes(
    rule: ClassExpectation, clusters: Sequence[Clusters], series: Sequence[SeriesModel]
) -> Uniformity | None:
    """Judge one metric of one call path; return None if it lacks the classes of the rule.

    Args:
        rule: what is expected.
        clusters: of all its runs.
        series: of its classes.
    """
    if rule.names is None:
        return _check_single_class(clusters)

    values = {}
    for of_class in series:
        points = map(tuple, of_class.model.coordinates.tolist())
        of_points = zip(points, of_class.model.values.tolist(), strict=True)
        values[of_class.key.behaviour] = dict(of_points)

    first, second = (values.get(name) for name in rule.names)
    if first is None or second is None:
        return None

    ratios = {at: first[at] / second[at] for at in first if second.get(at, 0.0) != 0}
    if not ratios:
        return None
    at = max(ratios, key=lambda point: abs(ratios[point] - 1))
    parameters = series[0].model.parameters
    point = ", ".join(f"{name}={value:g}" for name, value in zip(parameters, at, strict=True))
    text = f"{rule.names[0]} takes {ratios[at]:.3g} times what {rule.names[1]} takes at {point}"
    return Uniformity(abs(ratios[at] - 1) <= rule.apart, text)


def _check_single_class(clusters: Sequence[Clusters]) -> Uniformity:
    split = [run for run in clusters if len(set(run.names)) > 1]
    if not split:
        count = f"{len(clusters)} run{'s' if len(clusters) != 1 else ''}"
        return Uniformity(True, f"{_describe_executing(clusters)} behave alike in {count}")
    worst = max(split, key=lambda run: len(set(run.names)))
    text = f"{len(set(worst.names))} classes at {coordinate_name(worst.run)}"
    return Uniformity(False, f"{text}: {', '.join(worst.names)}")


def _describe_executing(clusters: Sequence[Clusters]) -> str:
    """`all ranks`, or how many ranks have a value in the largest run that has others, too."""
    partial = [run for run in clusters if (run.labels < 0).any()]
    if not partial:
        return "all ranks"
    largest = max(partial, key=lambda run: len(run.labels))
    executing = int((largest.labels >= 0).sum())
    at = coordinate_name(largest.run)
    return f"the ranks that have a value ({executing} of {len(largest.labels)} at {at})"
