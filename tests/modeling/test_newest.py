"""What the newest point of a series may mean where it leaves the law of the others."""

import json

import numpy as np
import pytest

import insitu
from insitu.modeling.base import Model
from tests.support.parameters import plain_and_full

X = np.array([1.0, 2, 4, 8, 16, 32])
SLOW = [10, 10.1, 9.9, 10, 10.1, 20]


def codes(model):
    return [finding.code for finding in model.findings]


def test_one_slow_newest_run_does_not_become_a_law():
    [model] = insitu.fit(X, [SLOW])

    assert str(model) == "10.02"
    assert codes(model) == ["change-unconfirmed"]
    assert model.change_points == ()


def test_the_interval_holds_all_that_one_slow_run_may_mean():
    [model] = insitu.fit(X, [SLOW])

    [low, high] = model.interval([64])[0]

    assert low < 10  # it was disturbed
    assert high > 40  # a step to 20, or growth as p from p = 16 on


def test_behind_a_point_that_is_off_predictions_go_on_from_it():
    # In measured programs few such points were disturbed: `tests/evaluation/newest_points.py`.
    [model] = insitu.fit(X, [SLOW])

    assert model.predict([32, 64]) == pytest.approx([20, 20], rel=0.05)


def test_below_the_newest_point_predictions_are_those_of_the_law_before():
    [model] = insitu.fit(X, [SLOW])

    assert model.predict([4]) == pytest.approx([10], rel=0.02)
    assert model.interval([4])[0] == pytest.approx([10, 10], rel=0.1)


def test_the_finding_names_the_run_that_would_decide():
    [model] = insitu.fit(X, [SLOW])

    [finding] = model.findings
    assert "value at p=32 is 2 times" in finding.text
    assert "not enough points" in finding.text
    assert finding.text.endswith("run p=32 again, or p=64")


def test_a_count_that_leaves_the_law_is_not_taken_for_a_disturbed_run():
    [model] = insitu.fit(X, [SLOW], is_exact=True)

    [finding] = model.findings
    assert "disturbed" not in finding.text
    assert finding.text.endswith("; run p=64")


@plain_and_full("alpha", [0.0, 1.0, 0.5, 2.0], plain=2)
def test_the_newest_point_of_a_law_is_hardly_ever_reported(alpha):
    rng = np.random.default_rng(8)
    truth = 5 + X**alpha

    models = [insitu.fit(X, [truth * (1 + 0.02 * rng.standard_normal(6))])[0] for _ in range(30)]

    assert sum("change-unconfirmed" in codes(model) for model in models) <= 1


def test_a_second_slow_run_confirms_the_step():
    [model] = insitu.fit([*X, 64, 128], [[*SLOW, 20.1, 19.9]])

    assert model.change_points == ((16, 32),)
    assert "change-unconfirmed" not in codes(model)


def test_a_model_with_an_unconfirmed_change_survives_json_exactly():
    [model] = insitu.fit(X, [SLOW])

    again = Model.from_dict(json.loads(json.dumps(model.to_dict())))

    assert again == model
    assert np.array_equal(again.interval([4, 64]), model.interval([4, 64]))
