"""Parameters that changed together, as the number of ranks and the size of a problem."""

import math

import numpy as np
import pytest

from insitu import fit
from insitu.analysis.outlook import Prospect, make_outlook
from insitu.analysis.summary import summarise
from insitu.entities import TIME_EXCLUSIVE, CallPath
from insitu.modeling.base import Model, ModelSet, SeriesModel
from insitu.modeling.dependencies import fit_with_dependencies
from insitu.modeling.horizon import unclear_at
from insitu.modeling.joint_parameters import find_joint_change
from insitu.modeling.measurement import SeriesKey
from insitu.views.report.markdown import markdown

RANKS = (1, 2, 4, 8, 16)


def model_of(points: list[tuple[float, float]]) -> Model:
    values = np.array([n for _, n in points]) * 0.1
    (model,) = fit(np.array(points), values, parameters=("p", "n"))
    return model


def outlook_row(model: Model, at: tuple[float, float]) -> Prospect:
    key = SeriesKey(CallPath(("main",)), TIME_EXCLUSIVE.name)
    models = ModelSet(("p", "n"), (SeriesModel(key, TIME_EXCLUSIVE, model),))
    (prospect,) = make_outlook(models, at).prospects
    return prospect


@pytest.mark.parametrize("at", [(16, 160), (32, 320), (12, 120), (1024, 10240), (16, 150)])
def test_a_point_at_which_both_go_on_together_is_none(at):
    assert find_joint_change(model_of([(p, 10 * p) for p in RANKS]), at) is None


@pytest.mark.parametrize(("at", "expected"), [((16, 10), 160), ((1024, 160), 10240)])
def test_a_point_at_which_only_one_changes_is_named_with_what_would_go_with_it(at, expected):
    joint = find_joint_change(model_of([(p, 10 * p) for p in RANKS]), at)

    assert joint is not None
    assert (joint.first, joint.second, joint.expected) == ("p", "n", expected)
    assert f"predict p={at[0]} with n={expected}" in joint.describe(at, ("p", "n"))


def test_one_run_that_changes_only_one_of_them_tells_them_apart():
    together = [(p, 10 * p) for p in RANKS]

    assert find_joint_change(model_of([*together, (16, 20)]), (16, 10)) is None
    assert find_joint_change(model_of([(p, n) for p in RANKS for n in (10, 20)]), (16, 10)) is None


def test_values_that_move_up_and_down_are_told_apart():
    points = [(1, 20), (2, 10), (4, 80), (8, 40), (16, 160)]

    assert find_joint_change(model_of(points), (16, 10)) is None


def test_what_does_not_grow_and_what_is_known_to_depend_on_one_of_them_is_predicted():
    points = np.array([(p, 10 * p) for p in RANKS], dtype=float)
    (constant,) = fit(points, np.full(len(points), 3.0), parameters=("p", "n"))
    key = SeriesKey(CallPath(("main",)), TIME_EXCLUSIVE.name)
    (known,) = fit_with_dependencies(
        ("p", "n"),
        points,
        0.1 * points[None, :, 1, None],
        [key],
        dependencies={key.callpath: [["n"]]},
        modeler="evidence",
    )

    assert unclear_at(constant, (16, 10)) == ""
    assert unclear_at(known, (16, 10)) == ""
    assert Model.from_dict(known.to_dict()).depends_on == ("n",)
    assert float(known.predict([(16, 10)])[0]) == pytest.approx(1.0, rel=1e-3)


def test_the_outlook_gives_no_value_where_they_part():
    model = model_of([(p, 10 * p) for p in RANKS])

    apart, along = outlook_row(model, (16, 10)), outlook_row(model, (32, 320))

    assert apart.unclear == "unclear: p and n changed together"
    assert math.isnan(apart.cost.low)
    assert math.isnan(apart.factor)
    assert along.unclear == ""


def test_a_report_gives_no_bounds_where_they_part():
    key = SeriesKey(CallPath(("main",)), TIME_EXCLUSIVE.name)
    model = model_of([(p, 10 * p) for p in RANKS])
    models = ModelSet(("p", "n"), (SeriesModel(key, TIME_EXCLUSIVE, model),))

    text = markdown(summarise("", (), models, target=(1024.0, 160.0)), "")

    assert "What dominates at p = 1024, n = 160 is unclear" in text
    rows = [line for line in text.splitlines() if line.startswith("| main | time\\_exclusive")]
    assert rows
    for row in rows:
        assert row.endswith("unclear: p and n changed together | – | – | unknown |")
