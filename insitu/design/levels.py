"""The values that a parameter takes in an experiment, as people write them."""

import math
import re

from insitu.errors import UsageError

_RANGE = re.compile(r"(?P<low>[^.:]+(?:\.\d+)?)\.\.(?P<high>[^:]+):(?P<count>\d+)\Z")
MOST = 1000  # values of a range: more is a mistake


def parse_levels(text: str) -> tuple[str, tuple[float, ...]]:
    """Read `n=32,64,96` or `procs=8..128:5`, five values from 8 to 128 in equal ratios.

    Values between whole numbers are rounded to whole numbers; equal ones count once.

    Raises:
        UsageError: it does not look like that; the text says how it should.
    """
    name, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not name.isidentifier():
        raise UsageError(f"'{text}' is not NAME=VALUES, as in n=32,64,96 or p=8..128:5")
    found = _RANGE.match(values)
    if found:
        low, high = _value(text, found["low"]), _value(text, found["high"])
        count = int(found["count"])
        if not (0 < low < high and 2 <= count <= MOST):
            raise UsageError(
                f"'{text}': a range rises from above 0 in 2 to {MOST} values, as in p=8..128:5"
            )
        levels = [low * (high / low) ** (i / (count - 1)) for i in range(count)]
        if low.is_integer() and high.is_integer():
            levels = [float(round(value)) for value in levels]
    else:
        levels = [_value(text, word) for word in values.split(",")]
    return name, tuple(sorted(set(levels)))


def _value(text: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise UsageError(f"'{text}': '{word.strip()}' is not a number, as in n=32,64,96") from None
    if not math.isfinite(value) or value <= 0:
        raise UsageError(f"'{text}': {word.strip()} is not above 0; models hold for values above 0")
    return value
