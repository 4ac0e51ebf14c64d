"""Absolute limits: `time at p=65536 < 2 s`, `memory per node with 8 ranks < 24 GB`.

Models within their limits can be evaluated to predict where scaling ends [VAL §2.4].
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import parse_assignment
from insitu.errors import UsageError
from insitu.expectations.prediction import StudentMixture, first_above, predict
from insitu.modeling.base import Model
from insitu.modeling.measurement import FloatArray
from insitu.modeling.target import points_along, with_followers
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
    """A limit that a value must not exceed.

    Attributes:
        text: as the user wrote it.
        metric: "" if the text names none.
        at: where the limit applies, () for all measured points.
        most: the limit in the base unit, for `ranks` ranks together.
        unit: the base unit.
        ranks: number of ranks that share the limit.
    """

    text: str
    metric: str
    at: tuple[tuple[str, float], ...]
    most: float
    unit: str
    ranks: int = 1


@dataclass(frozen=True, slots=True)
class CeilingComparison:
    """A series compared with a ceiling.

    Attributes:
        value: the prediction, or the largest measured value.
        bounds: of its 95 % interval.
        probability: that the ceiling is exceeded, NaN if the uncertainty is unknown. It follows
            from the distribution of the bounds: 2.5 to 97.5 % if the ceiling is within them.
        breaks: the value of the first parameter from which the ceiling is exceeded, None if it is
            not within reach. Behind values that fall below the ceiling at first.
    """

    value: float
    bounds: tuple[float, float]
    probability: float
    breaks: float | None


def parse_ceiling(text: str) -> Ceiling:
    """Parse a limit.

    Raises:
        UsageError: the text has another form; the message shows an example.
    """
    fields = _TEXT.match(text)
    if not fields:
        raise UsageError(f"limit '{text}': write it as in `{EXAMPLE}`")

    assignments = [word for word in (fields["at"] or "").split(",") if word.strip()]

    try:
        at = tuple(map(parse_assignment, assignments))
        most, unit = parse_quantity(fields["value"])
    except ValueError as error:
        raise UsageError(f"limit '{text}': {error}") from error

    ranks = int(fields["before"] or fields["after"] or 1)
    if ranks < 1:
        raise UsageError(f"limit '{text}': a node has at least 1 rank")
    return Ceiling(
        text=text, metric=fields["metric"] or "", at=at, most=most, unit=unit, ranks=ranks
    )


def compare_with_ceiling(ceiling: Ceiling, model: Model) -> CeilingComparison:
    """Compare a series with a ceiling at its target, or at all measured points.

    Raises:
        UsageError: the target does not name the parameters of the model.
    """
    most = StudentMixture.constant(ceiling.most / ceiling.ranks)
    largest = model.coordinates.max(axis=0)
    start = float(model.coordinates[:, 0].min())

    def excess(values: FloatArray) -> FloatArray:
        points = points_along(largest, 0, values, model.coordinates)
        return model.predict(points) - ceiling.most / ceiling.ranks

    # Find where the first parameter exceeds the limit, with the others at their largest values, or
    # following it.
    breaks = _find_break(start, excess) if start > 0 else None
    if not ceiling.at:
        value = float(model.values.max()) * ceiling.ranks
        exceeded = 1.0 if value > ceiling.most else 0.0
        return CeilingComparison(value, (value, value), exceeded, breaks)

    point = target_point(dict(ceiling.at), model.parameters, model.coordinates, text=ceiling.text)
    prediction = predict(model, point)
    low, high = model.interval([point])[0].tolist()
    return CeilingComparison(
        float(model.predict([point])[0]) * ceiling.ranks,
        (low * ceiling.ranks, high * ceiling.ranks),
        prediction.probability_above(most),
        breaks,
    )


def _find_break(start: float, excess: Callable[[FloatArray], FloatArray]) -> float | None:
    """Return the value from which a limit is exceeded, None if there is none within reach.

    Times that fall at first, as in strong scaling, may exceed the limit on few ranks only: then it
    is the value from which they exceed it again.
    """
    within = first_above(start, lambda values: -excess(values))
    return start if within is None else first_above(within, excess)


def target_point(
    at: Mapping[str, float], parameters: Sequence[str], measured: FloatArray, *, text: str
) -> list[float]:
    """Return the coordinate (n_parameters,) of a target in the order of the parameters.

    Args:
        at: values by parameter; one that changed with another one in all runs may be left out.
        parameters: of the models.
        measured: the measured coordinates, (n, n_parameters).
        text: the limit or rule, for errors.

    Raises:
        UsageError: `at` has other parameters, or a value is not above 0.
    """
    at = with_followers(at, parameters, measured)
    if set(at) != set(parameters):
        raise UsageError(f"'{text}': the models are over {', '.join(parameters)}; name each once")
    point = [at[name] for name in parameters]
    if not np.all(np.array(point) > 0):
        raise UsageError(f"'{text}': models are defined for values above 0")
    return point
