"""Clusters of merged sketches are those of the values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.modeling.classes.cluster import class_means, cluster
from insitu.modeling.classes.sketch import WIDTH, cluster_sketch, label_values, merge, sketch
from tests.support.parameters import plain_and_full

VALUES = st.lists(st.floats(-1e300, 1e300) | st.just(0.0) | st.just(float("nan")), max_size=30)
RANKS = 40


def in_parts(rng, values):
    """The sketch of values that arrive in parts, merged as a tree; each row is cut elsewhere."""
    cuts = np.sort(rng.integers(0, RANKS + 1, (len(values), 3)), axis=1)
    part = (np.arange(RANKS) >= cuts[:, :, None]).sum(axis=1)
    parts = [sketch(np.where(part == index, values, np.nan)) for index in range(4)]
    return merge([merge(parts[::2]), merge(parts[1::2])])


def populations(rng, count):
    """Sets of 1 to 40 values near every bound: of buckets, of the threshold, of signs and zero."""
    shape = (count, RANKS)

    def choice(options, size=shape):
        return rng.choice(options, size)

    with np.errstate(over="ignore"):
        kinds = [
            rng.lognormal(0, choice([0.01, 0.1, 1.0, 5.0], (count, 1)), shape),
            np.repeat(rng.lognormal(0, 1, (count, 4)), 10, axis=1)
            * (1 + 1e-3 * rng.standard_normal(shape)),
            np.cumprod(np.full(shape, 1.1), axis=1) * choice([1, 1 - 1e-15, 1 + 1e-15]),
            np.nextafter(WIDTH ** rng.integers(-40, 40, shape), choice([0.0, 1e9])),
            rng.standard_normal(shape) * choice([0.0, 1.0, 1e-9]),
            rng.integers(-20, 20, shape) * choice([1.0, 5e-324, 1e300], (count, 1)),
        ]
    values = np.choose(rng.integers(0, len(kinds), count)[:, None], kinds)
    return np.where(np.arange(RANKS) < rng.integers(1, RANKS + 1, (count, 1)), values, np.nan)


@plain_and_full("seed", [20, 21, 22, 23])
def test_clusters_of_merged_sketches_equal_those_of_the_values(seed):
    """25,000 sets of each seed, random and adversarial."""
    rng = np.random.default_rng(seed)
    for batch in range(5):
        values = populations(rng, 5_000)

        labels = label_values(values, cluster_sketch(in_parts(rng, values)))

        wrong = np.flatnonzero((labels != cluster(values)).any(axis=1))
        assert not len(wrong), f"batch {batch} of seed {seed}: {values[wrong[0]]}"


@given(VALUES)
def test_any_values_cluster_as_their_sketch_does(values):
    array = np.array(values, dtype=float).reshape(1, -1)

    assert label_values(array, cluster_sketch(sketch(array))).tolist() == cluster(array).tolist()


def test_a_cluster_knows_its_row_bounds_number_and_mean():
    values = np.array([[7.0, np.nan, np.nan, np.nan, 7.0, 7.0], [1.0, 1.05, 4.0, 4.0, 4.2, 0.0]])

    clusters = cluster_sketch(sketch(values))

    assert clusters.rows.tolist() == [0, 1, 1, 1]
    assert clusters.lows.tolist() == [7.0, 0.0, 1.0, 4.0]
    assert clusters.highs.tolist() == [7.0, 0.0, 1.05, 4.2]
    assert clusters.counts.tolist() == [3, 1, 2, 3]
    means = class_means(values, cluster(values), 3)
    assert clusters.means == pytest.approx([means[0, 0], *means[1].tolist()])


def test_the_order_of_merging_does_not_matter():
    rng = np.random.default_rng(1)
    parts = [sketch(rng.lognormal(size=(3, 50))) for _ in range(4)]

    one, two = merge(parts), merge([merge(parts[2:]), merge(parts[:2][::-1])])

    assert one.keys.tolist() == two.keys.tolist()
    assert one.counts.tolist() == two.counts.tolist()
    assert one.sums == pytest.approx(two.sums)


def test_nothing_has_no_clusters():
    assert len(cluster_sketch(merge([])).rows) == 0
    nothing = np.full((2, 3), np.nan)
    assert label_values(nothing, cluster_sketch(sketch(nothing))).tolist() == [[-1] * 3] * 2
