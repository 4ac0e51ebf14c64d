"""Notes on predictions: where they are beyond the data, and where they are not the formula."""

import numpy as np
import pytest

import insitu
from insitu.analysis.predict import formula_notes
from insitu.analysis.whole_program import sum_functions
from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, RunKey
from insitu.formats.table import predictions
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.measurement import Experiment, RunTable, SeriesKey
from insitu.modeling.pipeline import RefitOptions, remodel

X = np.array([2.0, 4, 8, 16, 32])


def series(values):
    [model] = insitu.fit(X, [values])
    return SeriesModel(SeriesKey(CallPath(("main", "solve")), TIME.name, "all"), TIME, model)


def at(p, model):
    return model, predictions(model.model, [[p]])


def test_a_prediction_that_differs_from_its_formula_is_mentioned():
    slow_last_run = series([10, 10.1, 9.9, 10, 20])

    [note] = formula_notes([at(64.0, slow_last_run)])

    assert note.startswith("at p=64, 1 of 1 predictions differ from the formula by more than 10")
    assert "time of solve" in note


def test_a_prediction_that_is_its_formula_is_not():
    assert formula_notes([at(64.0, series(3 + 0.5 * X))]) == []


def test_where_nothing_is_predicted_nothing_differs():
    slow_last_run = series([10, 10.1, 9.9, 10, 20])
    _, [row] = at(65536.0, slow_last_run)

    assert row["unclear"]
    assert formula_notes([(slow_last_run, [row])]) == []


def program(laws):
    """Models of the exclusive times of functions, `laws` of p by name, on equal ranks."""
    paths = tuple(CallPath(("main", name)) for name in laws)
    runs = []
    for p in (2, 4, 8, 16, 32):
        times = np.array([[law(p)] * p for law in laws.values()], dtype=float)
        table = RunTable(paths, (TIME_EXCLUSIVE,), {TIME_EXCLUSIVE.name: times})
        runs.append((RunKey.of({"p": p}), table))
    return remodel(Experiment(("p",), tuple(runs)), RefitOptions())


def test_the_whole_program_is_the_sum_of_its_functions():
    """[DET §3, §6.2]."""
    models = program({"solve": lambda p: 64 / p, "reduce": lambda p: 0.5 + 0.1 * np.log2(p)})

    total = sum_functions(models, [128])

    assert total is not None
    assert total.value == pytest.approx(0.5 + 0.5 + 0.7, rel=0.01)
    assert total.low <= total.value <= total.high
    assert total.unclear == ""


def test_a_sum_with_a_function_that_cannot_be_predicted_is_unclear():
    rng = np.random.default_rng(3)
    models = program({"solve": lambda p: 64 / p, "odd": lambda p: rng.lognormal(0, 2)})

    total = sum_functions(models, [4096])

    assert total is not None
    assert total.unclear.startswith("unclear")


def test_without_exclusive_times_there_is_no_sum():
    assert sum_functions(ModelSet(parameters=("p",)), [64]) is None
