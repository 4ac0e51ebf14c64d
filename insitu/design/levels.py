"""Parses the values of a parameter as users write them: `n=32,64,96` or `p=8..128:5`."""

import math
import re

from insitu.errors import UsageError

_RANGE = re.compile(r"(?P<low>[^.:]+(?:\.\d+)?)\.\.(?P<high>[^:]+):(?P<count>\d+)\Z")
VALUES_LIMIT = 1000  # of a range; more is a mistake


def parse_levels(text: str) -> tuple[str, tuple[float, ...]]:
    """Parse `n=32,64,96` or `procs=8..128:5`, five values from 8 to 128 in equal ratios.

    If both ends of a range are whole numbers, its values are rounded to whole numbers. Equal values
    count once. The result is ascending.

    Raises:
        UsageError: the text has another form, or a value is not above 0.
    """
    name, equals, values = (word.strip() for word in text.partition("="))
    if not equals or not name.isidentifier():
        raise UsageError(f"'{text}' is not NAME=VALUES, as in n=32,64,96 or p=8..128:5")

    span = _RANGE.match(values)
    if span:
        low, high = _parse_value(text, span["low"]), _parse_value(text, span["high"])
        count = int(span["count"])
        if not (0 < low < high and 2 <= count <= VALUES_LIMIT):
            raise UsageError(
                f"'{text}': a range must rise from above 0 and have 2 to {VALUES_LIMIT} values,"
                " as in p=8..128:5"
            )
        levels = [low * (high / low) ** (i / (count - 1)) for i in range(count)]
        if low.is_integer() and high.is_integer():
            levels = [float(round(value)) for value in levels]
    else:
        levels = [_parse_value(text, word) for word in values.split(",")]
    return name, tuple(sorted(set(levels)))


def _parse_value(text: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise UsageError(f"'{text}': '{word.strip()}' is not a number, as in n=32,64,96") from None
    if not math.isfinite(value) or value <= 0:
        raise UsageError(
            f"'{text}': {word.strip()} is not above 0; models are defined for values above 0"
        )
    return value
