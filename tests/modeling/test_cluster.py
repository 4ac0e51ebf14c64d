"""Relative-distance clustering of ranks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from insitu.errors import ModelingError
from insitu.modeling.classes.cluster import class_means, cluster

NAN = float("nan")


def test_ranks_part_where_their_relative_distance_reaches_the_threshold():
    corner, edge, inner = [40.0] * 4, [20.0, 20.5], [0.0, 0.0]

    labels = cluster(np.array([corner + edge + inner]))

    assert labels.tolist() == [[2, 2, 2, 2, 1, 1, 0, 0]]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0], [0]),
        ([], []),
        ([0.0, 0.0, 0.0], [0, 0, 0]),
        ([0.0, 1e-300], [0, 1]),
        ([3.0, NAN, 1.0], [1, -1, 0]),
        ([NAN, NAN], [-1, -1]),
        ([1.0, float("inf")], [0, -1]),
        ([-1.0, -1.05, 1.0, -2.0], [1, 1, 2, 0]),
        ([-1.0, 0.1, 1.0], [0, 1, 2]),
        ([1.0, 2.0, 4.0, 8.0], [0, 1, 2, 3]),
        ([1.0, 1.09, 1.18, 1.28], [0, 0, 0, 0]),
        ([4.0, 4.4, 5.0], [0, 1, 2]),
    ],
)
def test_every_shape_of_values_has_a_defined_label(values, expected):
    labels = cluster(np.array(values))

    assert labels.tolist() == expected


def test_each_row_may_have_its_own_threshold():
    values = np.array([[1.0, 1.2], [1.0, 1.2]])

    labels = cluster(values, np.array([0.1, 0.5]))

    assert labels.tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize("threshold", [0.0, -0.1, NAN])
def test_a_threshold_that_is_not_positive_is_refused(threshold):
    with pytest.raises(ModelingError, match="positive"):
        cluster([1.0, 2.0], threshold)


def test_values_of_three_dimensions_are_refused():
    with pytest.raises(ModelingError, match="3 dimensions"):
        cluster(np.zeros((2, 2, 2)))


def one_pass(values, threshold):
    """The algorithm as the paper tells it [CLU §III-B], one value after the other."""
    labels = [-1] * len(values)
    label, last = 0, None
    for index in sorted(range(len(values)), key=lambda i: values[i]):
        if last is not None:
            distance = values[index] - last
            if distance > 0 and distance >= threshold * min(abs(last), abs(values[index])):
                label += 1
        labels[index] = label
        last = values[index]
    return labels


@given(
    arrays(float, st.integers(1, 12), elements=st.floats(-1e6, 1e6)),
    st.sampled_from([0.01, 0.1, 1.0, 3.0]),
)
def test_labels_equal_those_of_the_single_pass_of_the_paper(values, threshold):
    assert cluster(values, threshold).tolist() == one_pass(values.tolist(), threshold)


@given(arrays(float, st.integers(1, 12), elements=st.floats(0.01, 1e3)))
def test_labels_ignore_the_unit_of_the_values(values):
    assert cluster(values).tolist() == cluster(values * 1024).tolist()


def test_the_mean_of_a_class_is_over_its_ranks():
    values = np.array([[1.0, 3.0, 10.0, NAN], [5.0, NAN, NAN, NAN]])
    labels = np.array([[0, 0, 1, -1], [0, -1, -1, -1]])

    means = class_means(values, labels, 2)

    np.testing.assert_array_equal(means, [[2.0, 10.0], [5.0, NAN]])


@given(
    arrays(
        float,
        st.tuples(st.integers(0, 4), st.just(9)),
        elements=st.one_of(st.floats(0.01, 1e3), st.just(NAN)),
    ),
    arrays(int, 9, elements=st.integers(-1, 3)),
)
def test_means_are_the_same_to_the_last_bit_where_rows_share_their_labels(values, labels):
    expected = class_means(values, np.broadcast_to(labels, values.shape), 3)

    np.testing.assert_array_equal(class_means(values, labels, 3), expected)
