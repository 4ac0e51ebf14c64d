"""What the page is told about stored models."""

from dataclasses import replace

import numpy as np
import pytest

from insitu import fit
from insitu.entities import VISITS, CallPath, RunKey
from insitu.modeling.base import Clusters, ModelSet, SeriesModel
from insitu.modeling.doubt import report_grid_change
from insitu.modeling.measurement import SeriesKey
from insitu.views.web.queries import ModelQueries
from tests.views.screens import MODELS


@pytest.mark.parametrize(
    ("findings", "domain"), [((), ""), ((report_grid_change("p", 4.0, 3, 4),), "for p >= 2")]
)
def test_a_law_of_some_scales_is_not_told_as_that_of_all(findings, domain):
    first = MODELS.models[0]
    model = replace(first.model, findings=findings)
    models = ModelSet(("p",), (replace(first, model=model),))

    answer = ModelQueries(lambda: models).series(str(first.key.callpath), first.key.metric, "p", {})

    assert [segment["domain"] for segment in answer["classes"][0]["segments"]] == [domain]


def test_the_page_is_told_how_many_ranks_a_run_has_that_has_one_value():
    first = MODELS.models[0]
    run = RunKey.of({"p": 64})
    mean = Clusters(first.key.callpath, first.key.metric, run, np.zeros(1, dtype=int), ("all",))
    models = ModelSet(("p",), (first,), (mean,))

    answer = ModelQueries(lambda: models).series(str(first.key.callpath), first.key.metric, "p", {})

    assert [(row["size"], row["labels"]) for row in answer["ranks"]] == [(64, [0])]


def test_a_curve_is_drawn_where_most_of_its_points_were_measured():
    star = np.array([(2, 96), (4, 96), (9, 96), (4, 48), (4, 192)], dtype=float)
    (model,) = fit(star, [star[:, 0] * star[:, 1]], parameters=("p", "n"))
    path, metric = CallPath.parse("app->solve"), VISITS
    series = SeriesModel(SeriesKey(path, metric.name, "all"), metric, model)
    queries = ModelQueries(lambda: ModelSet(("p", "n"), (series,)))

    def held(axis: str, fixed: dict[str, float]) -> dict[str, float]:
        return queries.series(str(path), metric.name, axis, fixed)["held"]

    assert held("p", {}) == {"p": 9, "n": 96}
    assert held("n", {}) == {"p": 4, "n": 192}
    assert held("p", {"n": 192})["n"] == 192


def test_a_curve_takes_along_what_changed_with_its_parameter():
    """All points are on it, the page offers no value of `n`, and there is no surface."""
    weak = np.array([(p, 10.0 * p) for p in (1, 2, 4, 8)])
    (model,) = fit(weak, [weak[:, 1]], parameters=("p", "n"))
    path, metric = CallPath.parse("app->solve"), VISITS
    series = SeriesModel(SeriesKey(path, metric.name, "all"), metric, model)
    queries = ModelQueries(lambda: ModelSet(("p", "n"), (series,)))

    answer = queries.series(str(path), metric.name, "p", {})
    surface = queries.surface(str(path), metric.name, "all", axes=("p", "n"), fixed={})

    known = replace(series, model=replace(model, depends_on=("n",)))
    of_known = ModelQueries(lambda: ModelSet(("p", "n"), (known,)))

    (curve,) = answer["classes"]
    assert answer["held"] == {"p": 8}
    assert answer["levels"] == {"p": [1, 2, 4, 8]}
    assert [x for x, _ in curve["points"]] == [1, 2, 4, 8]
    assert curve["values"][-1] == pytest.approx(10 * answer["at"][-1], rel=1e-4)
    assert surface == {"values": [], "reason": "p and n changed together in all runs"}
    assert of_known.surface(str(path), metric.name, "all", axes=("p", "n"), fixed={})["values"]
