"""Measured values of series: means over the ranks of classes, and quotients of them."""

from dataclasses import replace

import numpy as np
import pytest

from insitu.entities import TIME, VISITS, CallPath, RunKey
from insitu.expectations.observations import collect_values, divide_by_reference
from insitu.modeling.base import ALL, Clusters, ModelSet
from insitu.modeling.measurement import Experiment, RunTable, SeriesKey

MAIN, SOLVE, HALO = (CallPath.parse(text) for text in ("main", "main->solve", "main->halo"))
KEYS = [SeriesKey(SOLVE, "time", ALL), SeriesKey(HALO, "time", "rim"), SeriesKey(MAIN, "time", "A")]
RIM = {2: [0, 0], 4: [0, 1, 1, 0]}


def experiment(factor=1.0, orders=None) -> Experiment:
    """Two repetitions at p = 2 and one at p = 4, which come in another order."""
    runs = []
    for p, repetition in ((4, 0), (2, 0), (2, 1)):
        rng = np.random.default_rng([p, repetition])
        times = factor * rng.uniform(1.0, 2.0, (3, p))
        if (p, repetition) == (2, 1):
            times[2] = np.nan  # no rank entered it
        if p == 4:
            times[1, 0] = np.nan
        if orders:
            times = times[:, orders[p]]
        table = RunTable((MAIN, SOLVE, HALO), (TIME,), {"time": times})
        runs.append((RunKey.of({"p": p}, repetition), table))
    return Experiment(("p",), tuple(runs))


def models(orders=None) -> ModelSet:
    clusters = []
    for p, labels in RIM.items():
        labels = np.array(labels)[orders[p]] if orders else np.array(labels)
        run = RunKey.of({"p": p})
        clusters.append(Clusters(HALO, "time", run, labels, ("rim", "inner")))
        clusters.append(Clusters(HALO, "visits", run, 1 - labels, ("rim", "inner")))
    return ModelSet(("p",), (), clusters=tuple(clusters))


def test_values_are_means_over_the_ranks_of_a_class_by_ascending_coordinate():
    measured = collect_values(experiment(), models(), KEYS)

    tables = {(int(key.size), key.repetition): t.values["time"] for key, t in experiment().runs}
    assert measured.keys == tuple(KEYS)
    assert measured.coordinates.tolist() == [[2.0], [4.0]]
    solve, rim, missing = measured.values
    expected = [
        [tables[2, 0][1].mean(), tables[2, 1][1].mean()],
        [tables[4, 0][1][1:].mean(), np.nan],
    ]
    np.testing.assert_allclose(solve, expected)
    np.testing.assert_allclose(
        rim, [[tables[2, 0][2].mean(), np.nan], [tables[4, 0][2][[0, 3]].mean(), np.nan]]
    )
    assert np.isnan(missing).all()  # this class is in no run


def test_values_do_not_depend_on_the_order_of_ranks_and_runs():
    orders = {2: [1, 0], 4: [2, 0, 3, 1]}
    shuffled = experiment(orders=orders)
    shuffled = replace(shuffled, runs=(shuffled.runs[1], shuffled.runs[0], shuffled.runs[2]))

    before = collect_values(experiment(), models(), KEYS)
    after = collect_values(shuffled, models(orders), KEYS)

    np.testing.assert_allclose(after.values, before.values)
    np.testing.assert_array_equal(after.coordinates, before.coordinates)


def test_runs_without_a_parameter_of_the_models_have_no_coordinate():
    usual = experiment()
    other = (RunKey.of({"n": 3}), usual.runs[0][1])

    measured = collect_values(replace(usual, runs=(other, *usual.runs)), models(), KEYS)

    assert measured.coordinates.tolist() == [[2.0], [4.0]]
    empty = collect_values(replace(usual, runs=(other,)), models(), KEYS)
    assert (empty.coordinates.shape, empty.values.shape) == ((0, 1), (3, 0, 1))


def test_metrics_that_were_not_measured_have_no_value():
    key = SeriesKey(SOLVE, VISITS.name, ALL)

    assert np.isnan(collect_values(experiment(), models(), [key]).values).all()


def quotients(references, factor=1.0) -> np.ndarray:
    runs = experiment(factor)
    measured = collect_values(runs, models(), KEYS[:2])
    return divide_by_reference(measured, runs, models(), references).values


def test_a_quotient_of_a_call_path_with_itself_is_one_and_has_no_unit():
    np.testing.assert_allclose(quotients([SOLVE])[0], [[1.0, 1.0], [1.0, np.nan]])
    for factor in (1e-9, 60.0):
        np.testing.assert_allclose(quotients([MAIN, HALO], factor), quotients([MAIN, HALO]))


def test_references_are_added_in_each_run_and_a_run_that_lacks_one_has_no_quotient():
    both, one = quotients([MAIN, SOLVE]), quotients([MAIN])

    np.testing.assert_allclose(1 / both[0], 1 / one[0] + 1.0)
    assert np.isnan(quotients([MAIN, HALO])[0]).tolist() == [[False, True], [False, True]]
    assert np.isnan(quotients([MAIN, CallPath.parse("other")])).all()


def test_a_class_is_divided_by_the_reference_of_the_same_ranks():
    """The mean over all ranks would change with the sizes of the classes."""
    runs = experiment()
    for _, table in runs.runs:
        table.values["time"][0] = 2.0 * table.values["time"][2]  # main, and halo

    measured = collect_values(runs, models(), KEYS[1:2])
    divided = divide_by_reference(measured, runs, models(), [MAIN])

    np.testing.assert_allclose(divided.values[0], [[0.5, np.nan], [0.5, np.nan]])


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_reference_that_is_not_positive_gives_no_quotient(value):
    runs = experiment()
    runs.runs[0][1].values["time"][0] = value
    measured = collect_values(runs, models(), KEYS[:1])

    divided = divide_by_reference(measured, runs, models(), [MAIN])

    assert np.isnan(divided.values[0]).tolist() == [[False, False], [True, True]]
    assert (divided.keys, divided.coordinates.tolist()) == (measured.keys, [[2.0], [4.0]])
