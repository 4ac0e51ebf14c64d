"""Behaviour that changes along one of several parameters."""

from itertools import product

import numpy as np
import pytest
import sympy

import insitu
from insitu.modeling.algebra import latex_of, python_of, sympy_of, to_latex
from insitu.modeling.doubt import CHANGE_IN_GRID
from insitu.modeling.evidence.grid_changes import possible_changes
from insitu.modeling.horizon import unclear_at
from insitu.modeling.series import reduce_repetitions

P, N = 2.0 ** np.arange(1, 9), 100 * 2.0 ** np.arange(6)
GRID = np.array(list(product(P, N)))
FIVE = np.array(list(product(P[:5], N[:5])))


def fit(truths, *, points=GRID, noise=0.02, seed=1):
    random = np.random.default_rng(seed)
    values = truths * np.exp(noise * random.standard_normal(truths.shape))
    return insitu.fit(points, values, parameters=("p", "n"))


def one_law(points):
    p, n = points.T
    return 5 + 0.1 * n * np.log2(p)


def switched(points):
    """Another algorithm from p = 32 on."""
    p, n = points.T
    return np.where(p < 32, one_law(points), 20 + 0.02 * n * p)


def spilled(points):
    """A cache is too small from n = 400 on."""
    p, n = points.T
    return np.where(n < 400, 0.01 * n, 0.05 * n) * np.sqrt(p)


def changes(model):
    return [finding.where for finding in model.findings if finding.code == CHANGE_IN_GRID]


@pytest.mark.parametrize(
    ("law", "points", "where"),
    [
        (switched, GRID, "p=32"),
        (spilled, GRID, "n=400"),
        (spilled, FIVE, "n=400"),
    ],
)
def test_the_model_is_that_of_the_points_behind_a_change(law, points, where):
    (model,) = fit(law(points)[None], points=points)

    assert changes(model) == [where]
    name, value = where.split("=")
    column = "pn".index(name)
    assert model.coordinates[:, column].min() == float(value)
    assert len(model.values) == np.sum(points[:, column] >= float(value))
    assert model.smape < 4
    assert str(model) == f"{model.function} for {name} >= {value}"
    assert unclear_at(model, points[0]) == f"unclear below {where}"
    assert unclear_at(model, points[-1]) == ""
    assert np.isnan(model.interval(points[:1])).all()
    target = 2 * points[-1:]
    assert model.predict(target)[0] == pytest.approx(law(target)[0], rel=0.35)
    low, high = model.interval(target)[0]
    assert low < law(target)[0] < high


def test_the_law_behind_is_exact_where_there_are_enough_values():
    (model,) = fit(switched(GRID)[None], noise=0.001)
    (later,) = fit((20 + 0.02 * GRID.prod(axis=1))[None], noise=0.001)

    far = np.array([[1e4, 1e4]])
    assert model.function.leading(far) == later.function.leading(far)
    target = np.array([[4096.0, 12800.0]])
    assert model.predict(target)[0] == pytest.approx(switched(target)[0], rel=0.03)


def test_series_that_do_not_change_are_modelled_as_without_those_that_do():
    steady = np.array([one_law(GRID) * factor for factor in (1, 3, 10, 30)])
    models = fit(np.vstack([steady, switched(GRID)]))

    assert [changes(model) for model in models] == [[], [], [], [], ["p=32"]]
    assert all(len(model.values) == len(GRID) for model in models[:4])


@pytest.mark.parametrize("noise", [0.005, 0.02, 0.1])
def test_one_law_does_not_change(noise):
    p, n = GRID.T
    laws = [
        1 + n,
        1 + p * n,
        p + n / 100,
        1 + 0 * p,
        n / p + p,
        np.sqrt(p) * n,
        n * np.log2(p) + n**2,
    ]
    models = fit(np.array(laws * 4), noise=noise, seed=5)

    assert [changes(model) for model in models] == [[]] * len(models)


def test_exact_counts_change_exactly():
    p, n = GRID.T
    messages = np.where(p < 32, 2 * (p - 1), p * np.log2(p)) * n
    models = fit(np.array([messages, (p - 1) * n]), noise=0.0)

    assert changes(models[0]) == ["p=32"]
    assert changes(models[1]) == []
    target = np.array([[1024.0, 3200.0]])
    assert models[0].predict(target)[0] == pytest.approx(1024 * 10 * 3200, rel=1e-6)


def test_of_two_changes_the_last_one_decides():
    p, n = GRID.T
    law = np.where(p < 8, n, np.where(p < 64, 3 * n * np.sqrt(p), 0.5 * n * p))
    (model,) = fit(law[None], noise=0.01)

    assert changes(model)[-1] == "p=64"
    assert model.coordinates[:, 0].min() == 64


def test_units_do_not_matter():
    truths = np.array([switched(GRID), spilled(GRID), one_law(GRID)])

    assert [changes(model) for model in fit(truths)] == [
        changes(model) for model in fit(1e9 * truths)
    ]


def test_a_part_needs_enough_values_of_every_parameter():
    def possible(*values):
        return possible_changes(np.array(list(product(*values)), dtype=float))

    assert possible(range(4), range(4)) == []
    assert possible(range(5), range(2)) == []
    assert possible(range(5), range(5)) == [(0, 2.0), (1, 2.0)]
    assert possible(range(7), range(3)) == [(0, 2.0), (0, 3.0), (0, 4.0)]
    assert possible(range(5), [7], range(5)) == [(0, 2.0), (2, 2.0)]
    lines = np.array([[1, n] for n in range(1, 8)] + [[p, 1] for p in range(2, 8)], dtype=float)
    assert possible_changes(lines) == []


def test_a_change_hides_no_other_finding():
    """The run with the largest values is disturbed as well."""
    values = switched(GRID)
    values[-1] *= 1.3
    (model,) = fit(values[None], noise=0.005)

    assert [finding.code for finding in model.findings] == [CHANGE_IN_GRID, "change-unconfirmed"]


def test_a_series_at_some_of_its_points_is_that_of_their_measurements():
    random = np.random.default_rng(1)
    values, some = random.uniform(1, 2, (3, len(FIVE), 4)), np.array([1, 4, 7, 20])

    whole = reduce_repetitions(("p", "n"), FIVE, values)

    part = whole.at_points(some)

    assert np.array_equal(part.coordinates, FIVE[some])
    for name in ("values", "counts", "deviations", "lags"):
        assert np.array_equal(getattr(part, name), getattr(whole, name)[:, some]), name


def test_expressions_of_a_model_say_for_which_values_it_is():
    (model,) = fit(switched(GRID)[None])
    small, large = {"p": 4.0, "n": 400.0}, {"p": 64.0, "n": 400.0}

    expression = python_of(model)
    symbolic = sympy.sympify(sympy_of(model))

    assert latex_of(model) == to_latex(model.function) + r", \quad p \ge 32"
    assert np.isnan(eval(expression, {"np": np}, small))
    assert symbolic.subs(small) is sympy.nan
    for value in (eval(expression, {"np": np}, large), float(symbolic.subs(large))):
        assert value == pytest.approx(model.function(np.array([[64.0, 400.0]]))[0])
