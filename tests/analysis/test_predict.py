"""Notes on predictions: where they are beyond the data, and where they are not the formula."""

import numpy as np

import insitu
from insitu.analysis.predict import formula_notes
from insitu.entities import TIME, CallPath
from insitu.modeling.base import SeriesModel
from insitu.modeling.measurement import SeriesKey

X = np.array([2.0, 4, 8, 16, 32])


def series(values):
    [model] = insitu.fit(X, [values])
    return SeriesModel(SeriesKey(CallPath(("main", "solve")), TIME.name, "all"), TIME, model)


def test_a_prediction_that_differs_from_its_formula_is_mentioned():
    slow_last_run = series([10, 10.1, 9.9, 10, 20])

    [note] = formula_notes([[1024.0]], [slow_last_run])

    assert note.startswith("at p=1024, 1 of 1 predictions differ from the formula by more than 10")
    assert "time of solve" in note


def test_a_prediction_that_is_its_formula_is_not():
    assert formula_notes([[1024.0]], [series(3 + 0.5 * X)]) == []
