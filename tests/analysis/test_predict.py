"""Notes on predictions: where they are beyond the data, and where they are not the formula."""

from dataclasses import replace

import numpy as np
import pytest

import insitu
from insitu.analysis.predict import (
    coordinate_of,
    crowding_notes,
    extrapolation_notes,
    formula_notes,
)
from insitu.analysis.summary import DOUBTFUL_FACTOR
from insitu.analysis.whole_program import sum_functions
from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, Finding, RunKey
from insitu.errors import UsageError
from insitu.formats.table import predictions
from insitu.modeling.base import CROWDED, ModelSet, SeriesModel
from insitu.modeling.measurement import Experiment, RunTable, SeriesKey
from insitu.modeling.pipeline import RefitOptions, remodel

X = np.array([2.0, 4, 8, 16, 32])


def series(values):
    [model] = insitu.fit(X, [values])
    return SeriesModel(SeriesKey(CallPath(("main", "solve")), TIME.name, "all"), TIME, model)


def at(p, model):
    return model, predictions([model.model], [[[p]]])[0]


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


@pytest.mark.parametrize("point", ["n=256,p=1e3", "p=1000,n=256", {"n": 256.0, "p": 1000.0}])
def test_a_point_is_a_coordinate_in_the_order_of_the_parameters(point):
    assert coordinate_of(point, ("p", "n")) == [1000.0, 256.0]


@pytest.mark.parametrize(
    ("point", "text"),
    [
        ("p=4", "--at p=4: the models are over p, n; add n=VALUE"),
        ({"n": 4.0}, "--at n=4: the models are over p, n; add p=VALUE"),
        ("p=4,q=1", "--at p=4,q=1: the models have no parameter 'q'; they are over p, n"),
        ("p=4,n=0", "--at p=4,n=0: models are defined only for values above 0"),
        ({"p": -1.0, "n": 2.0}, "--at p=-1, n=2: models are defined only for values above 0"),
        ("p=4,p=5", "--at p=4,p=5: 'p' is given twice"),
    ],
)
def test_a_point_that_is_no_coordinate_is_refused_with_the_parameters(point, text):
    with pytest.raises(UsageError) as caught:
        coordinate_of(point, ("p", "n"))
    assert str(caught.value) == text


def test_a_parameter_that_changed_with_another_one_may_be_left_out():
    weak = np.array([[p, 10.0 * p] for p in (1, 2, 4, 8)])

    assert coordinate_of("p=64", ("p", "n"), measured=weak) == [64, 640]
    assert coordinate_of("p=64,n=7", ("p", "n"), measured=weak) == [64, 7]
    with pytest.raises(UsageError, match="add n=VALUE"):
        coordinate_of("p=64", ("p", "n"), measured=weak[:2])


def test_what_is_no_assignment_is_refused_with_the_parameters():
    with pytest.raises(UsageError, match=r"^--at p: .*; the models are over p, n$"):
        coordinate_of("p", ("p", "n"))


def test_values_beyond_the_doubtful_factor_have_a_note_each():
    limit = DOUBTFUL_FACTOR * X[-1]
    models = [series(3 + 0.5 * X), series(2 + X)]

    assert extrapolation_notes([[2.0], [limit]], models) == []
    (note,) = extrapolation_notes([[limit], [2 * limit]], models)
    assert note.startswith(f"p={2 * limit:g} is {2 * DOUBTFUL_FACTOR:g} times the largest measured")
    assert f"beyond {DOUBTFUL_FACTOR:g} times, trust the bounds" in note


def test_the_note_about_shared_cores_has_the_most_ranks_per_core():
    idle = series(3 + 0.5 * X)
    crowded = []
    for n in (9, 10, 2):
        finding = Finding(CROWDED, f"{n} ranks on 2 cores")
        crowded.append(replace(idle, model=replace(idle.model, findings=(finding,))))

    assert crowding_notes([idle]) == []
    (note,) = crowding_notes([idle, *crowded])
    assert "measured with up to 10 ranks on 2 cores; these times contain waiting" in note
