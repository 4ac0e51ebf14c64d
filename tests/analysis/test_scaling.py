"""Lines through measured coordinates, and the curves of shares along them."""

import numpy as np
import pytest

from insitu import fit
from insitu.analysis.scaling import describe_line, fullest_line, is_on_line, shares_along
from insitu.entities import TIME_EXCLUSIVE
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.measurement import SeriesKey
from tests.support.campaigns import HALO, SOLVE

# Four numbers of ranks at m = 3, two further sizes on two ranks.
POINTS = np.array([[2.0, 3.0], [4.0, 3.0], [8.0, 3.0], [16.0, 3.0], [2.0, 5.0], [2.0, 9.0]])


def test_the_line_with_most_points_is_that_of_the_curve():
    point = fullest_line(POINTS, 0)

    assert point.tolist() == [16.0, 3.0]
    assert is_on_line(POINTS, point, 0).tolist() == [True] * 4 + [False] * 2
    assert describe_line(("p", "m"), POINTS, point, 0) == "at m = 3"

    point = fullest_line(POINTS, 1)

    assert point.tolist() == [2.0, 9.0]
    assert is_on_line(POINTS, point, 1).tolist() == [True, False, False, False, True, True]
    assert describe_line(("p", "m"), POINTS, point, 1) == "at p = 2"


def test_a_parameter_that_changed_with_the_one_is_on_its_line():
    points = np.array([[2.0, 20.0, 3.0], [4.0, 40.0, 3.0], [8.0, 80.0, 3.0], [8.0, 80.0, 5.0]])

    point = fullest_line(points, 0)

    assert point.tolist() == [8.0, 80.0, 3.0]
    assert is_on_line(points, point, 0).tolist() == [True, True, True, False]
    assert describe_line(("p", "n", "m"), points, point, 0) == "at m = 3; n follows p"


def modelled(path, values):
    (model,) = fit(GRID, values[None], parameters=("p", "m"))
    return SeriesModel(SeriesKey(path, TIME_EXCLUSIVE.name, "all"), TIME_EXCLUSIVE, model)


P, M = (axis.ravel() for axis in np.meshgrid([2.0, 4, 8, 16, 32], [1.0, 2, 4, 8, 16]))
GRID = np.stack([P, M], axis=1)


@pytest.mark.parametrize(("held", "m"), [({}, 16.0), ({"m": 4.0}, 4.0)])
def test_shares_are_those_at_the_held_values_of_the_other_parameters(held, m):
    models = ModelSet(("p", "m"), (modelled(SOLVE, 3 * M), modelled(HALO, P)))

    curves = shares_along(models, "p", 32.0, held)

    assert curves is not None
    assert curves.at[0] == 2.0 and curves.last == 32.0
    solve = curves.shares[curves.names.index(str(SOLVE))]
    np.testing.assert_allclose(solve, 3 * m / (3 * m + curves.at), rtol=0.01)
