"""Finding the series that an entry is about, and those of its reference."""

import numpy as np
import pytest

from insitu import fit
from insitu.entities import TIME, VISITS, CallPath
from insitu.errors import UsageError
from insitu.expectations.entries import Entry
from insitu.expectations.limits import expect
from insitu.expectations.lookup import SeriesLookup
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.measurement import SeriesKey

P = np.array([2.0, 4.0, 8.0, 16.0])


def modelled(path: str, metric=TIME, behaviour: str = "all") -> SeriesModel:
    (model,) = fit(P[:, None], (3 + P)[None])
    return SeriesModel(SeriesKey(CallPath.parse(path), metric.name, behaviour), metric, model)


@pytest.fixture
def lookup() -> SeriesLookup:
    series = (
        modelled("main->step->solve", behaviour="corner"),
        modelled("main->step->solve", behaviour="inner"),
        modelled("main->step->io"),
        modelled("main->last->io"),
        modelled("main->last->io", VISITS),
    )
    return SeriesLookup(ModelSet(("p",), series))


def test_a_reference_is_a_pattern_without_the_class_of_its_entry(lookup):
    entry = Entry(
        "main->step->solve", "time", expect("O(p)"), "corner", is_exact=True, reference="io"
    )

    paths = lookup.find_reference(entry)

    assert list(map(str, paths)) == ["main->step->io", "main->last->io"]


def test_a_reference_of_several_classes_is_one_call_path(lookup):
    entry = Entry("io", "time", expect("O(p)"), reference="step->solve")

    assert list(map(str, lookup.find_reference(entry))) == ["main->step->solve"]


def test_a_reference_without_a_model_is_named(lookup):
    with pytest.raises(UsageError, match="no call path 'sort' has a model; there are io, solve"):
        lookup.find_reference(Entry("io", "time", expect("O(p)"), reference="sort"))
