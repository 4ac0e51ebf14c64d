"""Times of call paths of which counts tell on what they depend."""

import numpy as np
import pytest

import insitu
from insitu.entities import CallPath, Metric
from insitu.modeling.dependencies import fit_told, told_of
from insitu.modeling.measurement import Points, SeriesKey

NAMES = ("p", "n")
LOCK_STEP = np.array([(8, 1e3), (16, 2e3), (32, 4e3), (64, 8e3), (128, 16e3)], dtype=float)
APART = np.array([[8.0, 16e3], [256.0, 1e3]])
WORK, SUM = CallPath.parse("main->work"), CallPath.parse("main->sum")
TIME = Metric("time_exclusive", "s")
INCLUSIVE = Metric("time", "s")


def series(paths, laws, points):
    values = np.array([[law(*at) for at in points] for law in laws])
    keys = [SeriesKey(path, TIME.name) for path in paths]
    return Points(NAMES, points, values[:, :, None], keys)


def test_runs_in_lock_step_are_enough_where_it_is_known_what_matters():
    laws = (lambda p, n: 0.5 + 1e-3 * n, lambda p, n: 0.1 * np.log2(p))
    points = series((WORK, SUM), laws, LOCK_STEP)
    told = {WORK: [("n",)], SUM: [("p",)]}
    for model, law in zip(fit_told(points, told, "evidence"), laws, strict=True):
        expected = [law(*at) for at in APART]
        assert model.parameters == NAMES
        assert model.predict(APART) == pytest.approx(expected, rel=0.02)
        low, high = model.interval(APART).T
        assert np.all(low <= expected)
        assert np.all(expected <= high)
        assert np.array_equal(model.coordinates, LOCK_STEP)
        assert type(model).from_dict(model.to_dict()) == model


@pytest.mark.parametrize("name", ["evidence", "search", "refine"])
def test_every_modeler_is_told(name):
    points = series((WORK,), (lambda p, n: 2e-3 * n,), LOCK_STEP)
    (model,) = fit_told(points, {WORK: [("n",)]}, name)
    assert model.predict(APART) == pytest.approx([32.0, 2.0], rel=0.02)


def test_what_is_not_told_is_modelled_as_ever():
    grid = np.array([(p, n) for p in (1, 2, 4, 8, 16) for n in (10, 20, 40, 80)], dtype=float)
    points = series((WORK, SUM), (lambda p, n: n / p, lambda p, n: 3.0 + p), grid)
    usual = insitu.fit(grid, points.values, parameters=NAMES)
    for told in ({}, {SUM: []}):
        assert list(map(str, fit_told(points, told, "evidence"))) == list(map(str, usual))


def test_products_that_no_count_shows_are_no_candidates():
    grid = np.array([(p, n) for p in (1, 2, 4, 8, 16) for n in (10, 20, 40, 80)], dtype=float)
    points = series((WORK,), (lambda p, n: p + n + 0.5 * p * n,), grid)
    (free,) = fit_told(points, {}, "evidence")
    (model,) = fit_told(points, {WORK: [("p",), ("n",)]}, "evidence")
    assert any(len(term.factors) == 2 for term in free.function.terms)
    assert all(len(term.factors) == 1 for term in model.function.terms)


def test_inclusive_times_depend_on_what_is_below_and_only_where_all_of_that_is_known():
    main, wait = CallPath.parse("main"), CallPath.parse("main->sum->MPI_Recv")
    known = {main: [], WORK: [("n",), ("n", "p")], SUM: [("p",)]}
    assert told_of(TIME, [main, WORK, SUM], known) == known
    told = told_of(INCLUSIVE, [main, WORK, SUM], known)
    assert told[main] == [("n",), ("n", "p"), ("p",)]
    assert set(told_of(INCLUSIVE, [main, WORK, SUM, wait], known)) == {WORK}
    assert told_of(Metric("visits", ""), [main, WORK, SUM], known) == {}
