"""What every modeler and every model promises."""

import inspect
import json
from fractions import Fraction

import numpy as np
import pytest

import insitu
from insitu.entities import TIME_EXCLUSIVE, CallPath
from insitu.errors import ModelingError
from insitu.modeling.base import Model, SeriesModel
from insitu.modeling.doubt import no_evidence
from insitu.modeling.measurement import SeriesKey
from insitu.modeling.modelers import MODELERS

X = np.array([2.0, 4, 8, 16, 32])
N = np.nan


@pytest.mark.parametrize("name", MODELERS)
@pytest.mark.parametrize(
    ("values", "alpha", "beta"),
    [(3 + 0.5 * X, 1, 0), (7 + 0 * X, 0, 0), (1 + 4 * np.log2(X), 0, 1), (2 + X**1.5, "3/2", 0)],
)
def test_noiseless_functions_are_found(name, values, alpha, beta):
    [model] = insitu.fit(X, values[None], modeler=name)

    assert model.leading([128]) == ((Fraction(alpha), Fraction(beta)),)


@pytest.mark.parametrize("name", MODELERS)
def test_a_model_survives_json_exactly(name):
    [model] = insitu.fit(X, [[3.1, 4.3, 5.2, 9.4, 17.7]], modeler=name)

    again = Model.from_dict(json.loads(json.dumps(model.to_dict())))

    assert again == model
    assert np.array_equal(again.interval([128]), model.interval([128]), equal_nan=True)
    assert again.predict([128]) == model.predict([128])


@pytest.mark.parametrize("name", MODELERS)
@pytest.mark.parametrize("count", range(5))
def test_few_points_give_a_finding(name, count):
    [model] = insitu.fit(X[:count], [[4, 5, 7, 11][:count]], modeler=name)

    assert [finding.code for finding in model.findings] == ["too-few-points"]
    assert np.isnan(model.predict([64])).all() == (count == 0)


@pytest.mark.parametrize("name", MODELERS)
def test_one_point_is_constant(name):
    [model] = insitu.fit(X[:1], [[4.0]], modeler=name)

    assert model.leading([64]) == ((0, 0),)


@pytest.mark.parametrize("name", MODELERS)
def test_what_is_not_finite_counts_as_not_measured(name):
    points = [2, 4, 8, 16, 32, 64, 128]
    values = [4.0, 5, np.nan, 11, 19, np.inf, 67]

    with_gaps, without = (
        insitu.fit(x, [y], modeler=name)[0]
        for x, y in ((points, values), ([2, 4, 16, 32, 128], [4.0, 5, 11, 19, 67]))
    )

    assert with_gaps.predict(X) == pytest.approx(without.predict(X), rel=1e-9)


@pytest.mark.parametrize("name", MODELERS)
def test_equal_points_are_repetitions(name):
    merged = insitu.fit(X, [[[3, 5], [5, N], [7, N], [11, N], [19, N]]], modeler=name)
    listed = insitu.fit([2, 2, 4, 8, 16, 32], [[3, 5, 5, 7, 11, 19]], modeler=name)

    assert listed[0] == merged[0]


@pytest.mark.parametrize("name", ["evidence", "search"])
def test_no_model_predicts_a_negative_time(name):
    rng = np.random.default_rng(7)
    values = 100 / X + rng.uniform(0, 3, (50, 5))

    models = insitu.fit(X, values, modeler=name)

    assert all((model.predict([64, 1024, 65536]) >= 0).all() for model in models)


def test_an_unknown_modeler_is_refused():
    with pytest.raises(ModelingError, match="no modeler is called 'magic'"):
        insitu.fit(X, [X], modeler="magic")


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ModelingError, match="do not fit 5 points"):
        insitu.fit(X, [[1.0, 2.0]])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", MODELERS)
@pytest.mark.parametrize("seed", range(20))
def test_any_data_give_models(name, seed):
    rng = np.random.default_rng(seed)
    n, series, repetitions = rng.integers((0, 1, 1), (12, 4, 4))
    x = [rng.uniform(0, 100, n), rng.integers(0, 4, n), 2.0 ** rng.integers(0, 12, n)][seed % 3]
    values = rng.normal(5, rng.uniform(0, 6), (series, n, repetitions))
    values *= 10 ** rng.uniform(-12, 12, (series, 1, 1))
    kind = rng.random(values.shape)
    values[kind < 0.1] = np.nan
    values[(kind > 0.1) & (kind < 0.15)] = 0.0
    values[(kind > 0.15) & (kind < 0.17)] = np.inf

    models = insitu.fit(x, values, modeler=name)

    assert [Model.from_dict(json.loads(json.dumps(model.to_dict()))) for model in models] == models
    assert len(models) == series


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([0.401, 0.799, 1.61, 3.2, 6.4], 0.999, 1.0),  # one term, no constant
        ([5.0, 5.1, 4.9, 5.0, 5.02], -0.01, 0.01),  # nothing but the mean
    ],
)
def test_adjusted_r2_of_models_with_one_coefficient(values, low, high):
    (model,) = insitu.fit([[4], [8], [16], [32], [64]], [values])

    assert low <= model.adjusted_r2 <= high


@pytest.mark.parametrize(
    ("ranks", "beginning"),
    [((4, 4, 4, 4, 4), "at p = 4: 600 * vol"), ((2, 2, 2, 4, 4), "unclear: 2400 * p^(-1) * vol")],
)
def test_a_parameter_with_one_or_two_values_is_named_or_unclear(ranks, beginning):
    volumes = np.array([64.0, 128, 256, 512, 1024])
    points = np.column_stack([np.array(ranks, dtype=float), volumes])
    [model] = insitu.fit(points, [2400 * volumes / points[:, 0]], parameters=("p", "vol"))
    series = SeriesModel(
        SeriesKey(CallPath.parse("main->step"), TIME_EXCLUSIVE.name), TIME_EXCLUSIVE, model
    )

    assert series.text.startswith(beginning)


def test_a_power_that_misses_two_of_three_values_is_unclear():
    x = [1.0, 2, 3]
    [steep] = insitu.fit(x, [[0.0, 4e-6, 5e-2]])
    [smooth] = insitu.fit(x, [[1.0, 2.0, 3.0]])

    assert steep.doubt == "2 of 3 values lie near it"
    assert smooth.doubt == ""


@pytest.mark.parametrize(("far", "doubt"), [(3, ""), (4, "5 of 9 values lie near it")])
def test_a_law_from_which_more_than_a_third_of_the_values_are_far_is_unclear(far: int, doubt: str):
    fitted = np.arange(1.0, 10.0)
    values = np.where(np.arange(9) < far, 0.0, fitted)

    assert no_evidence([], 0.9, values, fitted) == doubt


def test_points_of_several_parameters_without_names_are_refused_with_an_example():
    with pytest.raises(ModelingError, match=r'or 2 names, as in parameters=\["p", "n"\]'):
        insitu.fit([[1, 2], [2, 4], [4, 8]], [1.0, 2.0, 4.0])


@pytest.mark.parametrize("name", ["fit", "cluster", "validate"])
def test_help_shows_a_signature_that_people_can_read(name):
    assert "_SupportsArray" not in str(inspect.signature(getattr(insitu, name)))
