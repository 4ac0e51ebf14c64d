"""The class means of a run in one array."""

import numpy as np
import pytest

from insitu.modeling.run_means import RunMeans


def test_means_are_those_of_each_metric():
    means = RunMeans.of({"time": np.array([1.0, np.nan]), "visits": np.zeros(0), "b": np.ones(1)})

    assert list(means) == ["time", "visits", "b"]
    assert np.array_equal(means["time"], [1.0, np.nan], equal_nan=True)
    assert [len(means["visits"]), means["b"].tolist()] == [0, [1.0]]
    with pytest.raises(KeyError):
        _ = means["absent"]


def test_runs_of_the_same_series_share_where_these_are():
    first, second = (RunMeans.of({"time": np.full(3, value)}) for value in (1.0, 2.0))

    assert first.layout is second.layout
