"""Growth that begins, work that cannot be divided evenly, and grids that are not square."""

import pickle

import numpy as np
import pytest

import insitu
from insitu.modeling.grid_shape import even_grid, grid_elongation

X = 2.0 ** np.arange(1, 7)
AHEAD = np.array([128.0, 256.0, 1024.0])


def measured(law, *, count=10, seed=1, level=0.01):
    rng = np.random.default_rng(seed)
    return law(X)[:, None] * (1 + level * rng.standard_normal((count, len(X), 3)))


def errors_of(models, law):
    return np.abs(np.array([model.predict(AHEAD) for model in models]) / law(AHEAD) - 1)


def codes(model):
    return [finding.code for finding in model.findings]


def begins(start, slope):
    return lambda x: 1 + slope * np.maximum(0, np.log2(x / start))


def divided(work):
    return lambda x: np.ceil(work / x) / work + 0.002


def alternates(factor):
    return lambda x: (1 + 0.1 * x) * np.where(grid_elongation(x) == 1, factor, 1.0)


SMOOTH = {
    "constant": lambda x: 3 + 0 * x,
    "line": lambda x: 2 + x,
    "root": lambda x: 3 + x**0.5,
    "logarithm": lambda x: 1 + 2 * np.log2(x),
    "divided": lambda x: 0.1 + 10 / x,
    "divided surface": lambda x: 0.1 + 10 / x ** (2 / 3),
}


@pytest.mark.parametrize(("start", "slope"), [(5.0, 1.0), (8.0, 0.5), (12.0, 0.8)])
def test_growth_that_begins_inside_the_points_is_predicted(start, slope):
    law = begins(start, slope)

    models = insitu.fit(X, measured(law))

    bounds = np.array([model.interval(AHEAD) for model in models])
    held = (bounds[..., 0] <= law(AHEAD)) & (law(AHEAD) <= bounds[..., 1])
    assert np.median(errors_of(models, law), axis=0).max() < 0.03
    assert held.mean() >= 0.9


@pytest.mark.parametrize(("start", "slope"), [(24.0, 0.8), (26.0, 0.5)])
def test_growth_that_begins_just_before_the_last_two_points_is_inside_the_intervals(start, slope):
    """A steep power goes through both values, too, and used to be the only explanation."""
    law = begins(start, slope)

    models = insitu.fit(X, measured(law))

    bounds = np.array([model.interval(AHEAD) for model in models])
    held = (bounds[..., 0] <= law(AHEAD)) & (law(AHEAD) <= bounds[..., 1])
    assert held.mean() >= 0.9


def test_a_law_behind_its_start_may_have_a_negative_constant():
    models = insitu.fit(X, measured(begins(8.0, 1.0), level=0.002))

    functions = [model.function for model in models if model.change_points]
    assert len(functions) >= 8
    assert sum(function.constant < 0 for function in functions) >= 6
    assert {model.change_points for model in models if model.change_points} == {((4.0, 8.0),)}


@pytest.mark.parametrize("work", [70, 100, 150])
def test_work_that_cannot_be_divided_evenly_is_recognised(work):
    models = insitu.fit(X, measured(divided(work), level=0.003))

    assert sum("divided-unevenly" in codes(model) for model in models) >= 6
    assert np.median(errors_of(models, divided(work)), axis=0).max() < 0.01


@pytest.mark.parametrize("scale", [1, 8])
def test_a_count_of_uneven_work_is_exact_far_beyond_the_points(scale):
    ahead = np.array([128.0, 256.0, 512.0, 4096.0])

    model = insitu.fit(X, scale * np.ceil(1000 / X))[0]

    assert codes(model) == ["divided-unevenly"]
    assert model.predict(ahead) == pytest.approx(scale * np.ceil(1000 / ahead))
    assert "with N = 999 to 1000:" in model.findings[0].text  # 500 on 2 ranks: 999 or 1000


@pytest.mark.parametrize("factor", [1.15, 1.5])
def test_values_of_grids_that_are_not_square_are_predicted(factor):
    law = alternates(factor)

    models = insitu.fit(X, measured(law))

    assert all("grid-shape" in codes(model) for model in models)
    assert np.median(errors_of(models, law), axis=0).max() < 0.05
    assert np.median([model.smape for model in models]) < 2


@pytest.mark.parametrize("law", SMOOTH.values(), ids=SMOOTH.keys())
def test_smooth_laws_are_neither_divided_nor_alternating(law):
    models = insitu.fit(X, measured(law, count=40, level=0.02))

    reported = [code for model in models for code in codes(model)]
    assert reported.count("grid-shape") == 0
    assert reported.count("divided-unevenly") <= 1
    assert not any(model.change_points for model in models)


@pytest.mark.parametrize("law", [begins(8.0, 1.0), divided(100), alternates(1.3)])
def test_models_are_restored_from_their_stored_forms(law):
    model = insitu.fit(X, measured(law, count=1))[0]

    restored = type(model).from_dict(model.to_dict())
    sent = pickle.loads(pickle.dumps(model))

    for copy in (restored, sent):
        assert copy.predict(AHEAD).tolist() == model.predict(AHEAD).tolist()
        assert copy.interval(AHEAD).tolist() == model.interval(AHEAD).tolist()


def test_numbers_of_processes_have_the_elongation_of_their_most_even_grid():
    numbers = np.array([1.0, 4, 36, 2, 8, 32, 1024, 7, 12])

    elongation = grid_elongation(numbers)

    assert elongation[:7].tolist() == [0, 0, 0, 1, 1, 1, 0]
    assert elongation[7] == 1
    assert elongation[8] == pytest.approx(np.log2(4 / 3))


GRID = np.array([(n, p) for n in (100.0, 150, 200, 250, 300) for p in X])
AHEAD_OF_GRID = np.array([(300.0, 128.0), (500.0, 100.0), (500.0, 256.0), (1000.0, 300.0)])


def measured_over_grid(law, *, count, level=0.01):
    noise = np.random.default_rng(4).standard_normal((count, len(GRID), 3))
    values = law(GRID)[:, None] * (1 + level * noise)
    return insitu.fit(GRID, values, parameters=("n", "p"))


def test_uneven_work_that_is_a_parameter_is_predicted_with_its_steps():
    def law(q):
        return np.ceil(q[:, 0] / q[:, 1]) * q[:, 0] / 100 + 2

    models = measured_over_grid(law, count=5)

    for model in models:
        assert "divided-unevenly" in codes(model)
        assert model.predict(AHEAD_OF_GRID) == pytest.approx(law(AHEAD_OF_GRID), rel=0.03)
        restored = type(model).from_dict(model.to_dict())
        sent = pickle.loads(pickle.dumps(model))
        for copy in (restored, sent):
            assert copy == model
            assert copy.predict(AHEAD_OF_GRID).tolist() == model.predict(AHEAD_OF_GRID).tolist()


def test_a_count_of_uneven_work_that_is_a_parameter_is_exact():
    values = np.ceil(GRID[:, 0] / GRID[:, 1]) * GRID[:, 0]

    model = insitu.fit(GRID, values, parameters=("n", "p"))[0]

    truth = np.ceil(AHEAD_OF_GRID[:, 0] / AHEAD_OF_GRID[:, 1]) * AHEAD_OF_GRID[:, 0]
    assert model.predict(AHEAD_OF_GRID) == pytest.approx(truth, rel=1e-6)


def test_smooth_laws_of_work_and_processes_have_no_steps():
    models = measured_over_grid(lambda q: q[:, 0] / q[:, 1] + 0.1, count=40, level=0.02)

    assert not any("divided-unevenly" in codes(model) for model in models)


def test_the_most_even_grid_is_that_of_mpi_dims_create():
    grids = {1: (1, 1, 1), 7: (7, 1, 1), 12: (3, 2, 2), 24: (4, 3, 2), 64: (4, 4, 4)}
    assert {p: even_grid(p, 3) for p in grids} == grids
    assert [even_grid(p, 2) for p in (7, 12, 24)] == [(7, 1), (4, 3), (6, 4)]
