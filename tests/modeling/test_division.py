"""Work that cannot be divided evenly is looked for where the parameter counts processes."""

import numpy as np
import pytest

from insitu.modeling.evidence.division import find_falling

WHOLE = np.array([1.0, 2, 4, 8, 16])


@pytest.mark.parametrize(
    ("x", "values", "expected"),
    [
        (WHOLE, 16 / WHOLE, [0]),
        (WHOLE / 2 + 0.25, 16 / WHOLE, []),
        (WHOLE * 2.0**53, 16 / WHOLE, []),
        (WHOLE, WHOLE, []),
        (WHOLE[:4], 16 / WHOLE[:4], []),
    ],
    ids=("falls", "no number of processes", "too large to be one", "grows", "few points"),
)
def test_series_that_fall_over_numbers_of_processes_are_found(x, values, expected):
    counts = np.array([len(x)])

    assert find_falling(x, values[None], counts).tolist() == expected
