"""The coordinate that views look ahead to by default."""

import numpy as np

from insitu.modeling.target import default_target


def test_the_ranks_grow_64_times_and_other_parameters_stay():
    assert default_target(("p", "n"), (16.0, 512.0), {}) == (1024.0, 512.0)
    assert default_target(("n", "p"), (512.0, 16.0), {}) == (512.0, 1024.0)


def test_the_target_has_at_most_65536_ranks_and_never_fewer_than_measured():
    assert default_target(("p",), (4096.0,), {}) == (65536.0,)
    assert default_target(("p",), (131072.0,), {}) == (131072.0,)


def test_without_ranks_the_first_parameter_grows():
    assert default_target(("n", "m"), (4096.0, 2.0), {}) == (262144.0, 2.0)


def test_chosen_values_come_first_and_other_names_are_ignored():
    assert default_target(("p", "n"), (16.0, 512.0), {"n": 64.0, "k": 3.0}) == (1024.0, 64.0)


def test_a_parameter_that_followed_the_number_of_ranks_follows_on():
    weak = np.array([[p, 10.0 * p] for p in (1, 2, 4, 8)])
    mixed = np.array([*weak, [8.0, 10.0]])

    assert default_target(("p", "n"), (8, 80), {}, weak) == (512, 5120)
    assert default_target(("p", "n"), (8, 80), {"n": 7}, weak) == (512, 7)
    assert default_target(("p", "n"), (8, 80), {"p": 16}, weak) == (16, 160)
    assert default_target(("p", "n"), (8, 80), {}, mixed) == (512, 80)
    assert default_target(("p", "n"), (8, 80), {}, weak[:2]) == (512, 80)
    assert default_target(("p",), (8,), {}, weak[:, :1]) == (512,)
