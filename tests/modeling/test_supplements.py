"""The maximum over ranks, the whole run, and classes that few runs have."""

import numpy as np
import pytest

from insitu.campaign.store import open_store
from insitu.entities import TIME, VISITS, CallPath, RunKey
from insitu.modeling.base import ALL, MAXIMUM
from insitu.modeling.classes.supplements import WHOLE_RUN
from insitu.modeling.measurement import Experiment, RunTable, SeriesKey
from insitu.modeling.pipeline import remodel

MAIN = CallPath.parse("main")
WORK = CallPath.parse("main->work")
COLLECT = CallPath.parse("main->collect")
SIZES = (4, 8, 16, 32, 64)


def experiment_of(times, visits, sizes=SIZES):
    """Runs of `main->work`, and of `main->collect` on rank 0 where `times` returns two rows.

    Args:
        times, visits: from p to the values of the call paths below main, (n_paths, p).
        sizes: the numbers of ranks.
    """
    runs = []
    for p in sizes:
        below, counts = np.atleast_2d(times(p)), np.atleast_2d(visits(p))
        paths = (MAIN, WORK, COLLECT)[: 1 + len(below)]
        table = RunTable(
            paths,
            (TIME, VISITS),
            {
                "time": np.vstack([np.nansum(below, axis=0), below]),
                "visits": np.vstack([np.ones(p), counts]),
            },
        )
        runs.append((RunKey.of({"p": p}), table))
    return Experiment(("p",), tuple(runs))


def model_of(models, path, metric, behaviour):
    return next(
        series.model
        for series in models.every_model()
        if series.key == SeriesKey(path, metric, behaviour)
    )


def test_the_maximum_over_ranks_has_a_model_beside_the_mean():
    def times(p):
        return np.where(np.arange(p) == 1, 0.5 * p, 1.0)

    models = remodel(experiment_of(times, lambda p: np.ones(p)))

    slowest = model_of(models, WORK, "time", MAXIMUM)
    mean = model_of(models, WORK, "time", ALL)
    assert slowest.predict([[128.0]])[0] == pytest.approx(64.0, rel=0.02)
    assert mean.predict([[128.0]])[0] == pytest.approx((127 + 64) / 128, rel=0.02)


def test_where_all_ranks_are_equal_the_mean_is_the_only_model():
    models = remodel(experiment_of(lambda p: np.full(p, 0.1 * p), lambda p: np.full(p, 3.0)))

    assert [s.key.behaviour for s in models.every_model() if s.key.callpath == WORK] == [ALL, ALL]
    assert {series.key.callpath for series in models.supplements} == {WHOLE_RUN}


def test_the_whole_run_takes_as_long_as_its_slowest_rank():
    def times(p):
        return np.where(np.arange(p) == 2, 0.5 * p, 1.0)

    models = remodel(experiment_of(times, lambda p: np.ones(p)))

    whole = model_of(models, WHOLE_RUN, "time", MAXIMUM)
    assert whole.values.tolist() == [2.0, 4.0, 8.0, 16.0, 32.0]


def test_a_class_that_few_runs_have_keeps_its_values_and_has_the_law_of_the_mean():
    def visits(p):
        return np.where((np.arange(p) == 3) & (p >= 32), 70.0, np.where(np.arange(p) == 1, 7, 5.0))

    models = remodel(experiment_of(lambda p: np.ones(p), visits))

    (sparse,) = [
        series
        for series in models.supplements
        if series.key.metric == "visits" and series.key.behaviour != MAXIMUM
    ]
    mean = model_of(models, WORK, "visits", ALL)
    assert sparse.model.values.tolist() == [70.0, 70.0]
    assert sparse.model.coordinates.ravel().tolist() == [32.0, 64.0]
    assert sparse.text == f"as the mean: {mean}"


def test_supplements_are_stored_and_no_part_of_the_models(tmp_path):
    def times(p):
        return np.where(np.arange(p) == 1, 0.5 * p, 1.0)

    models = remodel(experiment_of(times, lambda p: np.ones(p)))

    with open_store(str(tmp_path / "c.insitu"), create=True) as store:
        store.put_models(models, of=())
    with open_store(str(tmp_path / "c.insitu")) as store:
        stored = store.models()

    assert [series.key for series in stored.models] == [series.key for series in models.models]
    assert [series.key for series in stored.supplements] == [
        series.key for series in models.supplements
    ]


@pytest.mark.parametrize(
    ("seconds", "is_reported"),
    [(lambda p: p / 50, True), (lambda p: 1.0, False), (lambda p: p / 1e6, False)],
    ids=["grows", "constant", "negligible"],
)
def test_a_call_path_of_rank_0_that_grows_is_reported(seconds, is_reported):
    def times(p):
        collect = np.where(np.arange(p) == 0, seconds(p), np.nan)
        return np.vstack([np.ones(p), collect])

    def visits(p):
        return np.vstack([np.ones(p), np.where(np.arange(p) == 0, 1.0, np.nan)])

    models = remodel(experiment_of(times, visits))

    serial = [finding for finding in models.findings if finding.code == "serial-path"]
    assert [finding.where for finding in serial] == ([str(COLLECT)] if is_reported else [])
    of_collect = [series for series in models.models if series.key.callpath == COLLECT]
    assert {series.class_text for series in of_collect} == {"rank 0 only"}
