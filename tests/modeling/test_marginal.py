"""The integral over a coefficient, from its table."""

import tracemalloc

import numpy as np
import pytest
from scipy.integrate import quad, trapezoid
from scipy.stats import norm

from insitu.modeling.evidence import marginal

LIMIT_BYTES = 20 << 20  # of any process that fits a model


@pytest.mark.parametrize("z", [-5.0, 0.0, 1.5, 6.4, 9.0])
def test_the_table_is_the_integral(z):
    lowest = 1e-4
    expected, _ = quad(lambda v: norm.pdf(v - z) / v, lowest, 30.0, points=[1.0, abs(z)], limit=500)

    mass = marginal.log_mass(np.float32([z]), np.float32([-np.log(lowest)]))[0]

    assert mass == pytest.approx(np.log(expected), abs=0.03)


def test_the_table_equals_the_trapezoidal_rule_at_every_entry():
    z = np.linspace(marginal.LOWEST_Z, marginal.HIGHEST_Z, marginal.TABLE_SIZE)[::7]
    below, above = np.logspace(-6, 0, 400), np.linspace(1, 22, 3000)

    expected = [
        trapezoid(np.expm1(below * entry - below**2 / 2) / below, below)
        + trapezoid(np.exp(above * entry - above**2 / 2) / above, above)
        for entry in z
    ]

    # To the last bit but for one, which rounding may decide.
    ulp = np.spacing(np.abs(np.float32(expected)))
    assert np.all(abs(marginal._integral_table()[::7] - np.float32(expected)) <= ulp)


def test_making_the_table_takes_little_memory():
    marginal._integral_table.cache_clear()
    tracemalloc.start()
    try:
        marginal.log_mass(np.float32([1.0]), np.float32([3.0]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < LIMIT_BYTES
