"""Absolute limits: `time at p=65536 < 2 s`, `memory per node with 8 ranks < 24 GB`.

Models that fall within their limits may be instantiated to predict where scaling ends [VAL §2.4].
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import parse_assignment
from insitu.errors import UsageError
from insitu.expectations.prediction import StudentMixture, first_above, predict
from insitu.modeling.base import Model
from insitu.units import parse_quantity

EXAMPLE = "time at p=65536 < 2 s"
_TEXT = re.compile(
    r"\s*(?P<metric>[A-Za-z]\w*)?\s*"
    r"(?:per\s+rank|per\s+node\s+with\s+(?P<before>\d+)\s+ranks?)?\s*"
    r"(?:at\s+(?P<at>[^<]+?))?\s*<=?\s*(?P<value>.+?)\s*"
    r"(?:per\s+rank|per\s+node\s+with\s+(?P<after>\d+)\s+ranks?)?\s*\Z"
)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What a value may not exceed.

    metric: empty where the text names none; at: where, empty for all measured points; most: in the
    base unit of `unit`, for `ranks` ranks together.
    """

    text: str
    metric: str
    at: tuple[tuple[str, float], ...]
    most: float
    unit: str
    ranks: int = 1


@dataclass(frozen=True, slots=True)
class CeilingComparison:
    """How a series stands to a ceiling.

    value: what is predicted, or the largest that was measured; bounds: of 95 %; probability: that
    the ceiling is exceeded, NaN where the uncertainty is not known, from the distribution that has
    the bounds: 2.5 to 97.5 % where they hold the ceiling; breaks: the value of the first parameter
    from which it is exceeded, None if nowhere in reach.
    """

    value: float
    bounds: tuple[float, float]
    probability: float
    breaks: float | None


def parse_ceiling(text: str) -> Ceiling:
    """Read a limit.

    Raises:
        UsageError: the text is none; it says how one looks.
    """
    found = _TEXT.match(text)
    if not found:
        raise UsageError(f"limit '{text}': write it as in `{EXAMPLE}`")
    places = [part for part in (found["at"] or "").split(",") if part.strip()]
    try:
        at = tuple(parse_assignment(part) for part in places)
        most, unit = parse_quantity(found["value"])
    except ValueError as error:
        raise UsageError(f"limit '{text}': {error}") from error
    ranks = int(found["before"] or found["after"] or 1)
    if ranks < 1:
        raise UsageError(f"limit '{text}': a node has a rank at least")
    return Ceiling(text, found["metric"] or "", at, most, unit, ranks)


def compare_with_ceiling(ceiling: Ceiling, model: Model) -> CeilingComparison:
    """Compare a series with a ceiling at its target, or at all points that were measured.

    Raises:
        UsageError: the target names other parameters than the model has.
    """
    most = StudentMixture.constant(ceiling.most / ceiling.ranks)
    largest = model.coordinates.max(axis=0).tolist()
    start = float(model.coordinates[:, 0].min())

    def excess(x: float) -> float:
        value = model.predict([[x, *largest[1:]]])
        return float(value[0]) - ceiling.most / ceiling.ranks

    breaks = first_above(start, excess) if start > 0 else None
    if not ceiling.at:
        value = float(model.values.max()) * ceiling.ranks
        exceeded = 1.0 if value > ceiling.most else 0.0
        return CeilingComparison(value, (value, value), exceeded, breaks)
    point = target_point(dict(ceiling.at), model.parameters, text=ceiling.text)
    prediction = predict(model, point)
    low, high = model.interval([point])[0].tolist()
    return CeilingComparison(
        float(model.predict([point])[0]) * ceiling.ranks,
        (low * ceiling.ranks, high * ceiling.ranks),
        prediction.probability_above(most),
        breaks,
    )


def target_point(at: Mapping[str, float], parameters: Sequence[str], *, text: str) -> list[float]:
    """A point of the parameters of models.

    Raises:
        UsageError: another parameter, or one that is missing.
    """
    if set(at) != set(parameters):
        raise UsageError(f"'{text}': the models are over {', '.join(parameters)}; name each once")
    point = [at[name] for name in parameters]
    if not np.all(np.array(point) > 0):
        raise UsageError(f"'{text}': models hold for values above 0")
    return point
