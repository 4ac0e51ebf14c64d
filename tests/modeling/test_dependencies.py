"""Times of call paths whose dependencies on parameters are known from counts."""

from collections.abc import Mapping

import numpy as np
import pytest

import insitu
from insitu.entities import CallPath, Metric
from insitu.modeling.dependencies import dependencies_of_metric, fit_with_dependencies
from insitu.modeling.measurement import SeriesKey

NAMES = ("p", "n")
LOCK_STEP = np.array([(8, 1e3), (16, 2e3), (32, 4e3), (64, 8e3), (128, 16e3)], dtype=float)
OFF_THE_DIAGONAL = np.array([[8.0, 16e3], [256.0, 1e3]])
GRID = np.array([(p, n) for p in (1, 2, 4, 8, 16) for n in (10, 20, 40, 80)], dtype=float)
WORK, SUM = CallPath.parse("main->work"), CallPath.parse("main->sum")
TIME = Metric("time_exclusive", "s")
INCLUSIVE = Metric("time", "s")


def evaluate(laws, points):
    return np.array([[law(*point) for point in points] for law in laws])[:, :, None]


def fit(laws: Mapping, points, dependencies, modeler="evidence"):
    return fit_with_dependencies(
        NAMES,
        points,
        evaluate(laws.values(), points),
        [SeriesKey(path, TIME.name) for path in laws],
        dependencies=dependencies,
        modeler=modeler,
    )


def test_runs_in_lock_step_are_enough_where_the_dependencies_are_known():
    laws = {WORK: lambda p, n: 0.5 + 1e-3 * n, SUM: lambda p, n: 0.1 * np.log2(p)}

    models = fit(laws, LOCK_STEP, {WORK: [("n",)], SUM: [("p",)]})

    for model, law in zip(models, laws.values(), strict=True):
        expected = [law(*point) for point in OFF_THE_DIAGONAL]
        low, high = model.interval(OFF_THE_DIAGONAL).T
        assert model.parameters == NAMES
        assert model.predict(OFF_THE_DIAGONAL) == pytest.approx(expected, rel=0.02)
        assert np.all(low <= expected)
        assert np.all(expected <= high)
        assert np.array_equal(model.coordinates, LOCK_STEP)
        assert type(model).from_dict(model.to_dict()) == model


@pytest.mark.parametrize("modeler", ["evidence", "search", "refine"])
def test_every_modeler_uses_the_dependencies(modeler):
    laws = {WORK: lambda p, n: 2e-3 * n}

    (model,) = fit(laws, LOCK_STEP, {WORK: [("n",)]}, modeler)

    assert model.predict(OFF_THE_DIAGONAL) == pytest.approx([32.0, 2.0], rel=0.02)


@pytest.mark.parametrize("dependencies", [{}, {SUM: []}])
def test_without_known_dependencies_the_models_are_the_usual_ones(dependencies):
    laws = {WORK: lambda p, n: n / p, SUM: lambda p, n: 3.0 + p}
    usual = insitu.fit(GRID, evaluate(laws.values(), GRID), parameters=NAMES)

    models = fit(laws, GRID, dependencies)

    assert list(map(str, models)) == list(map(str, usual))


def test_products_that_no_count_shows_are_no_candidates():
    laws = {WORK: lambda p, n: p + n + 0.5 * p * n}

    (free,) = fit(laws, GRID, {})
    (model,) = fit(laws, GRID, {WORK: [("p",), ("n",)]})

    assert any(len(term.factors) == 2 for term in free.function.terms)
    assert all(len(term.factors) == 1 for term in model.function.terms)


def test_an_inclusive_time_depends_on_the_paths_below_and_only_if_all_of_them_are_known():
    main, wait = CallPath.parse("main"), CallPath.parse("main->sum->MPI_Recv")
    known = {main: [], WORK: [("n",), ("n", "p")], SUM: [("p",)]}

    inclusive = dependencies_of_metric(INCLUSIVE, [main, WORK, SUM], known)
    with_unknown = dependencies_of_metric(INCLUSIVE, [main, WORK, SUM, wait], known)

    assert dependencies_of_metric(TIME, [main, WORK, SUM], known) == known
    assert inclusive[main] == [("n",), ("n", "p"), ("p",)]
    assert set(with_unknown) == {WORK}
    assert dependencies_of_metric(Metric("visits", ""), [main, WORK, SUM], known) == {}
