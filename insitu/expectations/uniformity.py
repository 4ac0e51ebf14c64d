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
    """All ranks alike; or, with names, two classes no further apart than `apart` (0.1 is 10 %)."""

    text: str
    names: tuple[str, str] | None = None
    apart: float = 0.0


@dataclass(frozen=True, slots=True)
class Uniformity:
    """Whether a rule about classes holds, and where it fails most."""

    is_met: bool
    text: str


def parse_class_rule(text: str) -> ClassExpectation:
    """Read a rule about classes.

    Raises:
        UsageError: it is none.
    """
    if re.fullmatch(r"\s*(one|1)\s+class(\s+only)?\s*", text):
        return ClassExpectation(text)
    found = _WITHIN.match(text)
    if not found:
        raise UsageError(f"classes '{text}': write {EXAMPLE}")
    return ClassExpectation(text, (found[1], found[3]), float(found[2]) / 100)


def check_classes(
    rule: ClassExpectation, clusters: Sequence[Clusters], series: Sequence[SeriesModel]
) -> Uniformity | None:
    """Judge one metric of one call path; None where the classes of the rule are not there.

    Args:
        rule: what is expected.
        clusters: of all its runs. series: its classes.
    """
    if rule.names is None:
        several = [one for one in clusters if len(set(one.names)) > 1]
        if not several:
            return Uniformity(True, f"all ranks alike in {len(clusters)} runs")
        most = max(several, key=lambda one: len(set(one.names)))
        text = f"{len(set(most.names))} classes at {coordinate_name(most.run)}"
        return Uniformity(False, f"{text}: {', '.join(most.names)}")
    values = {
        one.key.behaviour: dict(
            zip(map(tuple, one.model.coordinates.tolist()), one.model.values.tolist(), strict=True)
        )
        for one in series
    }
    first, second = (values.get(name) for name in rule.names)
    if first is None or second is None:
        return None
    ratios = {at: first[at] / second[at] for at in first if second.get(at, 0.0) != 0}
    if not ratios:
        return None
    at = max(ratios, key=lambda place: abs(ratios[place] - 1))
    parameters = series[0].model.parameters
    place = ", ".join(f"{name}={value:g}" for name, value in zip(parameters, at, strict=True))
    text = f"{rule.names[0]} takes {ratios[at]:.3g} times what {rule.names[1]} takes at {place}"
    return Uniformity(abs(ratios[at] - 1) <= rule.apart, text)
