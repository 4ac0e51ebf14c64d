"""Counts are whole numbers: what is divided among ranks is rounded, which is no growth."""

import math
from collections.abc import Iterable

LARGEST_COUNT = 2.0**53  # whole numbers that are exact


def find_unit(values: Iterable[float]) -> float:
    """The largest number of which all values are multiples; 0 where they are no counts.

    Bytes of messages of 800 bytes are rounded to 800.
    """
    counts = []
    for value in values:
        if value != round(value) or abs(value) > LARGEST_COUNT:
            return 0.0
        counts.append(int(value))
    return float(math.gcd(*counts))
