"""Models updated by one new point, before they are refitted."""

import numpy as np
import pytest

import insitu
from insitu.entities import TIME, CallPath, RunKey
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel
from insitu.modeling.preview import prepare, preview_models

X = np.array([4.0, 8, 16, 32, 64])
NEW = 128.0


def noisy(values, *, count=20, level=0.01, seed=5):
    rng = np.random.default_rng(seed)
    return values * (1 + rng.uniform(-level, level, (count, len(values))))


def least_squares(function, x, y):
    """Coefficients by weighted least squares with relative errors, for the terms of a function."""
    columns = [term.coefficient**-1 * (function_of(term)(x)) for term in function.terms]
    if function.constant:
        columns = [np.ones_like(x), *columns]
    return np.linalg.lstsq(np.transpose(columns) / y[:, None], np.ones_like(y), rcond=None)[0]


def function_of(term):
    return lambda x: term.coefficient * np.prod([factor(x) for factor in term.factors], axis=0)


@pytest.mark.parametrize("truth", [3 + 0.5 * X, 0.2 * X**1.5, 100 / X + 2, np.full(5, 7.0)])
def test_a_preview_is_the_weighted_least_squares_fit_of_all_points(truth):
    values = noisy(truth)
    new = values[:, -1] * 1.02

    preview = prepare(insitu.fit(X, values)).with_point(NEW, new)

    for i in range(len(values)):
        function = preview.model(i).function
        expected = least_squares(function, np.append(X, NEW), np.append(values[i], new[i]))
        coefficients = [function.constant] if function.constant else []
        coefficients += [term.coefficient for term in function.terms]
        assert coefficients == pytest.approx(expected, rel=1e-6)


def test_several_points_may_follow_each_other():
    values = noisy(3 + 0.5 * X)
    ahead = np.array([128.0, 256.0])
    later = noisy(3 + 0.5 * ahead, seed=6)

    preview = prepare(insitu.fit(X, values))
    for x, column in zip(ahead, later.T, strict=True):
        preview = preview.with_point(x, column)

    function = preview.model(0).function
    expected = least_squares(function, np.append(X, ahead), np.append(values[0], later[0]))
    coefficients = [function.constant, *(term.coefficient for term in function.terms)]
    assert coefficients == pytest.approx(expected, rel=1e-6)


def test_a_preview_says_that_it_is_one():
    preview = prepare(insitu.fit(X, noisy(3 + X))).with_point(NEW, np.full(20, 140.0))

    model = preview.model(0)

    assert "preview" in [finding.code for finding in model.findings]
    assert model.formula_at([NEW])[0] == pytest.approx(preview.predict(NEW)[0])
    assert model.predict([NEW])[0] == pytest.approx(preview.predict(NEW)[0], rel=0.01)


def test_what_is_not_measured_changes_nothing():
    models = insitu.fit(X, noisy(3 + X))

    preview = prepare(models).with_point(NEW, np.full(20, np.nan))

    assert [preview.model(i) for i in range(20)] == models


def test_coefficients_do_not_become_negative():
    models = insitu.fit(X, noisy(3 + X))

    preview = prepare(models).with_point(NEW, np.full(20, 1e6))

    assert (preview.coefficients >= 0).all()


def test_only_the_last_segment_follows():
    x = np.arange(1.0, 11)
    models = insitu.fit(x, noisy(np.where(x <= 5, 3 + x, 40 + x)))

    model = prepare(models).with_point(11.0, np.full(20, 51.5)).model(0)

    assert model.segments[0] == models[0].segments[0]
    assert model.change_points == models[0].change_points


def test_models_of_several_parameters_stay():
    points = [[p, n] for p in (2.0, 4, 8) for n in (10.0, 20, 40)]
    models = insitu.fit(points, [[p * n for p, n in points]], parameters=("p", "n"))

    preview = prepare(models).with_point(16.0, np.array([100.0]))

    assert preview.model(0) == models[0]


def run(p, value):
    path = CallPath.parse("main->solve")
    return RunKey.of({"p": p}), RunTable((path,), (TIME,), {TIME.name: np.full((1, p), value)})


def test_the_models_of_a_campaign_follow_a_run_before_the_refit():
    runs = [run(p, 3 + 0.5 * p) for p in (4, 8, 16, 32, 64)]
    models = remodel(Experiment(("p",), tuple(runs)))

    [series] = preview_models(models, *run(128, 70.0)).models

    assert "preview" in [finding.code for finding in series.model.findings]
    assert series.model.predict([128])[0] == pytest.approx(67 + 3, rel=0.05)
    assert series.model.predict([128])[0] > models.models[0].model.predict([128])[0]


def test_a_run_at_no_value_of_the_parameter_changes_no_model():
    models = remodel(Experiment(("p",), tuple(run(p, 3 + 0.5 * p) for p in (4, 8, 16, 32))))
    _, table = run(64, 35.0)

    assert preview_models(models, RunKey.of({"n": 5}), table) is models
