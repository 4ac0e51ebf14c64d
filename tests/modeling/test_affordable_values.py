import math

import numpy as np
import pytest

from insitu.modeling.affordable_values import limit_to_affordable


@pytest.mark.parametrize(
    ("x", "seconds", "wanted", "expected"),
    [
        (range(4, 10), [math.factorial(n) for n in range(4, 10)], 18, 10),  # n!: 10 times as long
        ([10, 20, 30], [2.0**n for n in (10, 20, 30)], 60, 34),  # 2^n: 16 times as long
        ([10, 20, 40], [n**4 for n in (10, 20, 40)], 160, 160),  # 256 times as long
        ([1.5, 1.6], [1.0, 8.0], 3.2, 1.6 * 10 ** (math.log(1.6 / 1.5) / math.log(8))),
        ([10, 11], [1.0, 1e6], 22, 11 + 1),  # the least whole number
        ([10, 20], [3.0, 2.0], 40, 40),  # no growth
        ([0, 20], [1e-9, 2.0], 40, 40),  # no power
        ([20], [2.0], 40, 40),
    ],
)
def test_a_run_that_would_take_far_too_long_is_replaced_by_a_shorter_one(
    x, seconds, wanted, expected
):
    value = limit_to_affordable(np.array(x, float), np.array(seconds, float), wanted)

    assert value == pytest.approx(expected)
