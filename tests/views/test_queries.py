"""What the page is told about stored models."""

from dataclasses import replace

import pytest

from insitu.modeling.base import ModelSet
from insitu.modeling.doubt import report_grid_change
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
