from dataclasses import replace

import numpy as np
import pytest

from insitu import fit
from insitu.analysis.detail import candidates, residuals

PLACES = np.array([[4.0], [8.0], [16.0], [32.0], [64.0]])
VALUES = 3 * PLACES[:, 0] * np.array([1.01, 0.99, 1.0, 1.01, 0.99])


def test_candidates_are_the_likeliest_first_and_say_what_the_model_says():
    (model,) = fit(PLACES, VALUES[None])

    functions = candidates(model)

    weights = [weight for _, weight in functions]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) <= 1 + 1e-9
    assert "p" in str(functions[0][0])
    assert functions[0][0]([[64.0]])[0] == pytest.approx(192, rel=0.03)


def test_functions_of_two_parameters_use_their_names():
    places = np.array([[p, n] for p in (2.0, 4, 8, 16) for n in (10.0, 20, 40, 80)])
    (model,) = fit(places, (places[:, 0] * places[:, 1])[None], parameters=("p", "n"))

    (function, _), *_ = candidates(model)

    assert function([[32.0, 100.0]])[0] == pytest.approx(3200, rel=0.02)


def test_a_modeler_that_chooses_has_no_other_candidates():
    (model,) = fit(PLACES, VALUES[None], modeler="search")

    assert [(str(function), weight) for function, weight in candidates(model)] == [(str(model), 1)]


def test_residuals_are_relative_to_the_model():
    (model,) = fit(PLACES, VALUES[None])

    off = residuals(replace(model, values=2 * model.formula_at(PLACES)))

    assert off == pytest.approx(np.ones(5))


def test_a_model_that_is_zero_has_no_relative_residuals():
    (model,) = fit(PLACES, np.zeros((1, 5)))

    assert np.isnan(residuals(model)).all()
