"""What several series have in common, where some of them hardly vary."""

import numpy as np

from insitu.modeling.classes.common_factor import find_groups


def test_series_that_vary_in_small_runs_alone_have_no_part_in_a_factor():
    """Without noise, the ranks of large runs may have equal times."""
    rng = np.random.default_rng(1)
    run = np.repeat([0, 1, 2], [4, 64, 64])
    group = rng.random(len(run)) < 0.5
    logs = [rng.normal(0, 1, len(run)) + 3 * group for _ in range(3)]
    constant = np.where(run == 0, rng.normal(0, 1, len(run)), 0.0)

    with_constant = find_groups([*logs, constant], run)

    np.testing.assert_array_equal(with_constant, find_groups(logs, run))
    assert with_constant is not None
    assert find_groups([*logs[:2], constant], run) is None
