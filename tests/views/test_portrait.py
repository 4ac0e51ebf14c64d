import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from insitu import fit
from insitu.entities import TIME_EXCLUSIVE, RunKey
from insitu.modeling.base import (
    ChangePoint,
    Clusters,
    Model,
    ModelSet,
    Quality,
    Segment,
    SeriesModel,
)
from insitu.modeling.measurement import SeriesKey
from insitu.modeling.pmnf import Factor, Function, Term
from insitu.modeling.spread import Spread
from insitu.views.terminal.braille import BrailleCurve, plot
from insitu.views.terminal.portrait import facts, formulas, make_curve, make_subject, picture, strip
from tests.support.campaigns import HALO


def linear(constant: float, slope: float) -> Function:
    return Function(("p",), constant, (Term(slope, (Factor("p", Fraction(1)),)),))


def spread_of(function: Function, weights: tuple[float, float]) -> Spread:
    """Weights of a function and of a competing constant."""
    exponents = np.zeros((2, 1, 1, 3))
    exponents[0, 0, 0, 0] = 1.0
    coefficients = np.array([[function.constant, function.terms[0].coefficient], [9.0, 0.0]])
    return Spread(exponents, coefficients, np.zeros((2, 2, 2)), np.array(weights), 0.02, math.inf)


def model_of(values: list[float], function: Function, *, has_change: bool = False) -> Model:
    segments = (Segment(-math.inf, math.inf, function),)
    if has_change:
        segments = (
            Segment(-math.inf, 4.0, Function(("p",), 1.0)),
            Segment(8.0, math.inf, function),
        )
    return Model(
        parameters=("p",),
        segments=segments,
        quality=Quality(1.5, 0.99),
        modeler="evidence",
        coordinates=np.array([[2.0], [4.0], [8.0], [16.0]]),
        values=np.array(values),
        change_points=(ChangePoint(4.0, 8.0),) if has_change else (),
        change_probabilities=(0.9,) if has_change else (),
        spreads=tuple(spread_of(function, (0.8, 0.2)) for _ in segments),
        probability=0.8,
    )


@pytest.fixture
def models() -> ModelSet:
    key = SeriesKey(HALO, "time_exclusive", "corner")
    other = SeriesKey(HALO, "time_exclusive", "inner")
    labels = np.array([0, 1, 1, 0, -1])
    return ModelSet(
        ("p",),
        (
            SeriesModel(key, TIME_EXCLUSIVE, model_of([2.2, 4, 8, 16], linear(0.0, 1.0))),
            SeriesModel(
                other, TIME_EXCLUSIVE, model_of([1, 1, 16, 32], linear(0.0, 2.0), has_change=True)
            ),
        ),
        (Clusters(HALO, "time_exclusive", RunKey.of({"p": 5}), labels, ("corner", "inner")),),
    )


def fact_lines(models: ModelSet, width: int = 100) -> list[str]:
    return [str(line) for line in facts(make_subject(models, str(HALO), "time_exclusive"), width)]


def test_candidates_are_listed_with_their_weights(models):
    assert "    80 % ████████·· 0 + 1 * p".replace("0 + ", "") in fact_lines(models)
    assert "    20 % ██········ 9" in fact_lines(models)


def test_residuals_are_numbers_and_bars_around_zero(models):
    lines = fact_lines(models)

    assert any(line.split()[:6] == ["2", "2.20", "s", "2", "s", "+10"] for line in lines)
    assert any(line.endswith("│██████") for line in lines)


def test_a_formula_near_its_points_that_hardly_any_probability_agrees_with_is_explained(models):
    series = models.models[0]
    doubtful = replace(series, model=replace(series.model, probability=1e-5))

    lines = fact_lines(replace(models, models=(doubtful, models.models[1])))

    assert any("leading term 80 % probable" in line for line in fact_lines(models))
    assert any(
        "leading term <0.1 % probable, other functions are likelier" in line for line in lines
    )


def test_a_change_point_is_listed_with_its_probability(models):
    assert "  ┆ behaviour changes between p = 4 and 8, 90 % probable" in fact_lines(models)
    assert "  candidates for the last segment" in fact_lines(models)


def test_ranks_are_drawn_as_marks_also_those_without_a_value(models):
    lines = [str(line) for line in strip(models.clusters[0], ("corner", "inner"), 80)]

    assert lines[1:] == ["●■■●·", "● 2 corner   ■ 2 inner   · 1 without a value"]


def test_each_class_has_its_formula(models):
    lines = formulas(make_subject(models, str(HALO), "time_exclusive"))

    assert [str(line) for line in lines] == [
        "● corner  1 * p",
        "■ inner  1 for p <= 4; 2 * p for p >= 8",
    ]


@pytest.mark.parametrize(("width", "height"), [(78, 12), (40, 6), (130, 30)])
def test_a_picture_fits_its_size(models, width, height):
    subject = make_subject(models, str(HALO), "time_exclusive", now=(32.0, 20.0))

    lines = [str(line) for line in picture(subject, width, height)]

    assert len(lines) == height
    assert max(map(len, lines)) <= width
    assert {"●", "■", "✚", "┆"} <= set("".join(lines))


def test_a_picture_without_a_model_says_so(models):
    assert "no model yet" in str(picture(make_subject(models, "main", "time"), 60, 10)[0])


@pytest.mark.parametrize("values", [[0.0, 0.0], [-1.0, 3.0], [1e-300, 1e300], [math.nan, 1.0]])
def test_any_values_can_be_drawn(values):
    x = np.array([1.0, 2.0])
    curve = BrailleCurve(x, np.array(values), x, np.array(values), np.full((2, 2), math.nan))

    assert len(plot([curve], width=40, height=10, unit="s", axis="p\x1b[2J")) == 10


def test_one_point_can_be_drawn():
    eight = np.array([8.0])

    lines = plot(
        [BrailleCurve(eight, eight, eight, eight, np.full((1, 2), 8.0))],
        width=40,
        height=8,
        unit="s",
        axis="p",
    )

    assert "●" in "".join(map(str, lines))


def test_a_curve_takes_along_what_changed_with_its_parameter():
    weak = np.array([(p, 10.0 * p, 3.0) for p in (1, 2, 4, 8)])
    (model,) = fit(weak, [weak[:, 1]], parameters=("p", "n", "m"))
    series = SeriesModel(SeriesKey(HALO, TIME_EXCLUSIVE.name, "all"), TIME_EXCLUSIVE, model)
    models = ModelSet(("p", "n", "m"), (series,))

    curve = make_curve(series, 0)
    lines = picture(make_subject(models, str(HALO), TIME_EXCLUSIVE.name), 60, 12)

    assert curve.x.tolist() == [1, 2, 4, 8]
    assert curve.values == pytest.approx(10 * curve.at, rel=1e-4)
    assert lines[-1].plain == "at m = 3; n follows p"
