"""Clusters of merged sketches are those of the values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.errors import ModelingError
from insitu.modeling.cluster import class_means, cluster
from insitu.modeling.sketch import WIDTH, cluster_sketch, labels_of, merge, sketch

VALUES = st.lists(st.floats(-1e300, 1e300) | st.just(0.0) | st.just(float("nan")), max_size=30)


def in_parts(values, cuts):
    """The sketch of values that arrive in parts, merged as a tree."""
    parts = [sketch(part) for part in np.split(values, cuts)]
    return merge([merge(parts[::2]), merge(parts[1::2])])


def population(rng):
    """Values made to lie near every bound: of buckets, of the threshold, of signs and zero."""
    size = rng.integers(1, 40)
    kind = rng.integers(6)
    if kind == 0:
        return rng.lognormal(0, rng.choice([0.01, 0.1, 1, 5]), size)
    if kind == 1:
        return np.repeat(rng.lognormal(0, 1, 3), 13) * (1 + 1e-3 * rng.standard_normal(39))
    if kind == 2:
        return np.cumprod(np.full(size, 1.1)) * rng.choice([1, 1 - 1e-15, 1 + 1e-15], size)
    if kind == 3:
        return np.nextafter(WIDTH ** rng.integers(-40, 40, size), rng.choice([0.0, 1e9], size))
    if kind == 4:
        return rng.standard_normal(size) * rng.choice([0.0, 1.0, 1e-9], size)
    return rng.integers(-20, 20, size) * rng.choice([1.0, 5e-324, 1e300])


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_clusters_of_merged_sketches_equal_those_of_the_values(count):
    rng = np.random.default_rng(20)
    for number in range(count):
        values = population(rng)
        parts = in_parts(values, np.sort(rng.integers(0, len(values) + 1, 3)))

        labels = labels_of(values, cluster_sketch(parts))

        assert labels.tolist() == cluster(values).tolist(), f"set {number} of seed 20: {values}"


@given(VALUES)
def test_any_values_cluster_as_their_sketch_does(values):
    array = np.array(values, dtype=float)

    assert labels_of(array, cluster_sketch(sketch(array))).tolist() == cluster(array).tolist()


def test_a_cluster_knows_its_bounds_number_and_mean():
    values = np.array([1.0, 1.05, 4.0, 4.0, 4.2, 0.0])

    clusters = cluster_sketch(sketch(values))

    assert [(one.low, one.high, one.count) for one in clusters] == [
        (0.0, 0.0, 1),
        (1.0, 1.05, 2),
        (4.0, 4.2, 3),
    ]
    means = class_means(values[None], cluster(values)[None], 3)[0]
    assert [one.mean for one in clusters] == pytest.approx(means.tolist())


def test_the_order_of_merging_does_not_matter():
    rng = np.random.default_rng(1)
    parts = [sketch(rng.lognormal(size=50)) for _ in range(4)]

    one, two = merge(parts), merge([merge(parts[2:]), merge(parts[:2][::-1])])

    assert one.keys.tolist() == two.keys.tolist()
    assert one.counts.tolist() == two.counts.tolist()
    assert one.sums == pytest.approx(two.sums)


def test_nothing_has_no_clusters():
    assert cluster_sketch(merge([])) == []


def test_a_threshold_within_a_bucket_is_refused():
    with pytest.raises(ModelingError, match="8%"):
        cluster_sketch(sketch(np.ones(3)), 0.08)
