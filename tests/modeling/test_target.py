"""The coordinate that views look ahead to by default."""

import numpy as np

from insitu.modeling.target import default_target, points_along, with_followers


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


WEAK = np.array([[p, 10.0 * p, m] for p in (1, 2, 4, 8) for m in (3.0, 5.0)])


def test_a_line_along_a_parameter_takes_those_along_that_changed_with_it():
    along_p = points_along(np.array([8.0, 80.0, 5.0]), 0, np.array([2.0, 3.0, 64.0]), WEAK)
    along_n = points_along(np.array([8.0, 80.0, 5.0]), 1, np.array([20.0, 640.0]), WEAK)
    along_m = points_along(np.array([8.0, 80.0, 5.0]), 2, np.array([3.0, 9.0]), WEAK)

    assert along_p.tolist() == [[2, 20, 5], [3, 30, 5], [64, 640, 5]]
    assert along_n.tolist() == [[2, 20, 5], [64, 640, 5]]
    assert along_m.tolist() == [[8, 80, 3], [8, 80, 9]]


def test_values_are_completed_by_those_of_parameters_that_changed_with_them():
    names = ("p", "n", "m")

    assert with_followers({"p": 64}, names, WEAK) == {"p": 64, "n": 640}
    assert with_followers({"n": 640, "m": 1}, names, WEAK) == {"n": 640, "m": 1, "p": 64}
    assert with_followers({"p": 64, "n": 1}, names, WEAK) == {"p": 64, "n": 1}
    assert with_followers({"m": 5, "q": 2}, names, WEAK) == {"m": 5, "q": 2}
    assert with_followers({"p": -1}, names, WEAK) == {"p": -1}
