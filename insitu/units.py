"""Formatting and parsing of times, sizes and counts."""

import math
import re

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
# Decimal, as networks, limits and the laws of a diagnosis are: 160 kB * p.
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_BINARY = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))  # only read
_UNITS = {
    "min": (60.0, "s"),
    "h": (3600.0, "s"),
    **{name: (scale, "s") for scale, name in _SECONDS},
    "us": (1e-6, "s"),
    "B": (1.0, "B"),
    "KB": (1e3, "B"),
    **{name: (scale, "B") for scale, name in (*_BYTES, *_BINARY)},
}
_QUANTITY = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)\s*([^\W\d]*)\s*\Z")
FARTHEST = 1000.0  # the largest ratio of two bounds that are worth printing
LEAST_BYTES = 0.0005  # smaller means are rounding, and 0 with three digits
LARGEST = 1e18  # the largest bound that is worth printing, of seconds, bytes or anything else
_COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def quantity(value: float, unit: str) -> str:
    """Format a value with three significant digits: `1.25 ms`, `12.7 h`, `4.19 MB`, `37`.

    Args:
        value: in the base unit; NaN becomes a dash.
        unit: `s`, `B`, `1`, or any other unit, which is appended unchanged.
    """
    if math.isnan(value):
        return "–"
    if unit == "s":
        if abs(value) >= 9999.5:  # what four digits of seconds do not show
            return f"{_digits(value / 3600)} h"
        return _scaled(value, _SECONDS, "s")
    if unit == "B":
        if abs(value) < LEAST_BYTES:
            return "0 B"
        return _scaled(value, _BYTES, "B")
    if unit in ("1", ""):
        return _scaled(value, _COUNTS, "")
    return f"{_digits(value)} {unit}"


def useful_bounds(low: float, high: float) -> tuple[float, float]:
    """Two bounds, or NaN twice where they are too far apart to be of use.

    That is where their ratio is more than FARTHEST, or one of them is beyond LARGEST, as where the
    lower one is 0.
    """
    if (low > 0 and high > FARTHEST * low) or max(-low, high) > LARGEST:
        return math.nan, math.nan
    return low, high


def scale_of(largest: float, unit: str) -> tuple[float, str]:
    """Divisor and unit for the values of an axis: `(1e-3, "ms")`.

    Args:
        largest: the largest value, in the base unit.
        unit: as for `quantity`.
    """
    scales = {"s": _SECONDS, "B": (*_BYTES, (1.0, "B"))}.get(unit, ((1.0, unit),))
    size = abs(largest)
    for scale, name in scales:
        if size >= 0.9995 * scale:  # 999.5 would print as 1000 with three digits
            return scale, name
    return scales[-1]


def percent(fraction: float) -> str:
    """Format a share: `62 %`, `3.1 %`, `0 %`; a dash for NaN."""
    if math.isnan(fraction):
        return "–"
    value = 100 * fraction
    if 0 < value < 0.1:
        return "<0.1 %"
    return f"{value:.1f} %" if 0 < value < 9.95 else f"{value:.0f} %"


def _scaled(value: float, scales: tuple[tuple[float, str], ...], base: str) -> str:
    size = abs(value)
    for scale, name in scales:
        if size >= 0.9995 * scale:
            return f"{_digits(value / scale)} {name}"
    if value and scales[-1][0] < 1:  # below the smallest unit
        return f"{value / scales[-1][0]:.3g} {scales[-1][1]}"
    return f"{_digits(value)} {base}".rstrip()


def _digits(value: float) -> str:
    # What is whole but for rounding is shown alike on all processors.
    if abs(value) < 1000 and math.isclose(value, round(value), rel_tol=1e-9):
        return str(round(value))
    size = abs(value)
    if not 0.001 <= size < 9999.5:
        return f"{value:.3g}"
    return f"{value:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3}f}"


def base_unit(unit: str) -> tuple[float, str]:
    """The factor to the base unit, and that: `(1e-6, "s")` of `us`; other units are their own."""
    return _UNITS.get(unit, (1.0, unit))


def parse_quantity(text: str) -> tuple[float, str]:
    """Parse `2 s`, `3 GB` or `1.5e6` into a value in the base unit and that unit (`s`, `B`, `1`).

    KB, MB and GB are powers of 1000, KiB, MiB and GiB of 1024.

    Raises:
        ValueError: the text says what is wrong and shows a correct example.
    """
    match = _QUANTITY.match(text)
    if not match or (match[2] and match[2] not in _UNITS):
        units = ", ".join(name for name in _UNITS if name)
        raise ValueError(f"'{text}' is not a quantity such as 2 s or 3 GB; units are {units}")
    scale, base = _UNITS.get(match[2], (1.0, "1"))
    return float(match[1]) * scale, base
