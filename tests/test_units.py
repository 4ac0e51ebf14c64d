import math

import pytest

from insitu.units import percent, quantity, useful_bounds


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "s", "0 s"),
        (1.25e-3, "s", "1.25 ms"),
        (0.9999, "s", "1.00 s"),
        (3.0, "s", "3 s"),
        (4000.0, "s", "4000 s"),
        (9999.4, "s", "9999 s"),
        (45_600.0, "s", "12.7 h"),
        (3.6e9, "s", "1e+06 h"),
        (2.5e-11, "s", "0.025 ns"),
        (-2.5e-3, "s", "-2.50 ms"),
        (math.nan, "s", "–"),
        (4e6, "B", "4 MB"),
        (4.0 * 2**20, "B", "4.19 MB"),
        (100.0, "B", "100 B"),
        (1.22e-06, "B", "0 B"),
        (0.25, "B", "0.250 B"),
        (12_000.0, "1", "12 k"),
        (37.0, "1", "37"),
        (0.5, "1", "0.500"),
        (2.5, "flop", "2.50 flop"),
    ],
)
def test_a_quantity_has_three_digits_and_its_unit(value: float, unit: str, text: str):
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.0, "0 %"), (0.0003, "<0.1 %"), (0.031, "3.1 %"), (0.62, "62 %"), (math.nan, "–")],
)
def test_a_share_is_a_percentage(fraction: float, text: str):
    assert percent(fraction) == text


@pytest.mark.parametrize("bounds", [(1.0, 1000.0), (0.0, 5.0), (-2.0, 3.0), (2.0, 2.0)])
def test_bounds_that_say_something_stay(bounds: tuple[float, float]):
    assert useful_bounds(*bounds) == bounds


@pytest.mark.parametrize("bounds", [(1.0, 1001.0), (1e-12, 7.4e20), (1.0, math.inf), (0.0, 2e304)])
def test_bounds_far_apart_are_left_out(bounds: tuple[float, float]):
    assert all(map(math.isnan, useful_bounds(*bounds)))
