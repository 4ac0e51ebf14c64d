"""Parameters that changed together, as the number of ranks and the size of a problem."""

import numpy as np
import pytest

from insitu import fit
from insitu.entities import TIME, CallPath
from insitu.modeling.base import SeriesModel
from insitu.modeling.joint_parameters import find_parting
from insitu.modeling.measurement import SeriesKey

RANKS = (1, 2, 4, 8, 16)


def series(points: list[tuple[float, float]]) -> list[SeriesModel]:
    values = np.array([n for _, n in points]) * 0.1
    (model,) = fit(np.array(points), values, parameters=("p", "n"))
    return [SeriesModel(SeriesKey(CallPath(("main",)), TIME.name), TIME, model)]


@pytest.mark.parametrize("at", [(16, 160), (32, 320), (12, 120), (1024, 10240), (16, 150)])
def test_a_point_at_which_both_go_on_together_is_none(at):
    assert find_parting(at, series([(p, 10 * p) for p in RANKS])) is None


@pytest.mark.parametrize(("at", "expected"), [((16, 10), 160), ((1024, 160), 10240)])
def test_a_point_at_which_only_one_changes_is_named_with_what_would_go_with_it(at, expected):
    parting = find_parting(at, series([(p, 10 * p) for p in RANKS]))

    assert parting is not None
    assert (parting.first, parting.second, parting.expected) == ("p", "n", expected)
    assert f"predict p={at[0]} with n={expected}" in parting.describe(at, ("p", "n"))


def test_one_run_that_changes_only_one_of_them_tells_them_apart():
    together = [(p, 10 * p) for p in RANKS]

    assert find_parting((16, 10), series([*together, (16, 20)])) is None
    assert find_parting((16, 10), series([(p, n) for p in RANKS for n in (10, 20)])) is None
