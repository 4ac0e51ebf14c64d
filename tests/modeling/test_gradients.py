"""Times that differ between ranks without groups make no classes; a finding says what they do."""

from dataclasses import replace

import numpy as np
import pytest

from insitu.entities import TIME, CallPath, RunKey
from insitu.modeling.classes.candidates import rough_criterion
from insitu.modeling.classes.gradients import describe_smooth
from insitu.modeling.classes.patterns import _collect, _gradient_criterion
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel
from tests.support.parameters import plain_and_full

PATH = CallPath(("main", "flux"))
SIZES = (4, 8, 16, 32, 64)
KINDS = {
    "grow evenly with the rank": lambda p: 1 + np.arange(p) / p,
    "fall evenly with the rank": lambda p: 2 - np.arange(p) / p,
    "change smoothly over the ranks": lambda p: 1 + 2 * (np.arange(p) / p) * (1 - np.arange(p) / p),
}


def measured(values, seed):
    """Models of two repetitions at each scale, with 1 % noise."""
    generator = np.random.default_rng(seed)
    runs = []
    for p in SIZES:
        for repetition in range(2):
            times = values(p) * p**0.3 * (1 + 0.01 * generator.standard_normal(p))
            runs.append(
                (RunKey.of({"p": p}, repetition), RunTable((PATH,), (TIME,), {"time": times[None]}))
            )
    return remodel(Experiment(("p",), tuple(runs)))


@plain_and_full("seed", [1, 2])
@pytest.mark.parametrize("words", KINDS)
def test_a_gradient_is_no_class(words, seed):
    models = measured(KINDS[words], seed)

    assert {len(clusters.names) for clusters in models.clusters} == {1}
    (text,) = (finding.text for finding in models.findings if finding.code == "ranks-differ")
    assert words in text and "times: ranks form no classes" in text


@pytest.mark.parametrize("seed", [1, 2])
def test_a_gradient_along_the_columns_of_a_grid_is_no_class(seed):
    models = measured(lambda p: 1 + np.arange(p) % 8 / min(p, 8), seed)

    assert {len(clusters.names) for clusters in models.clusters} == {1}
    (text,) = (finding.text for finding in models.findings if finding.code == "ranks-differ")
    assert "change smoothly along an axis of a grid of ranks" in text


@pytest.mark.parametrize("seed", [1, 2])
def test_two_groups_are_still_classes(seed):
    models = measured(lambda p: np.where(np.arange(p) % 4 == 0, 2.0, 1.0), seed)

    assert {len(clusters.names) for clusters in models.clusters} == {2}


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_gradient_that_is_little_more_than_noise_is_no_class_of_a_grid(seed):
    # Corners, edges and inner ranks of a grid leave 1.6 times the noise at most.
    models = measured(lambda p: 1 + 0.16 * (np.arange(p) / p) * (1 - np.arange(p) / p), seed)

    assert {len(clusters.names) for clusters in models.clusters} == {1}


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_ends_that_differ_as_little_are_still_a_class(seed):
    models = measured(lambda p: np.where(np.arange(p) % (p - 1) == 0, 1.04, 1.0), seed)

    assert {clusters.names for clusters in models.clusters} == {("inner", "end")}


def even_ranks(values):
    """The same values in three runs of as many ranks."""
    return _collect([np.asarray(values)] * 3, [np.arange(len(values))] * 3, 0.01)


def test_a_gradient_costs_one_parameter_more_than_one_class_in_each_run():
    flat = np.tile([0.1, -0.1, -0.1, 0.1], 8)
    data = even_ranks(flat)

    criterion = _gradient_criterion(data, 0.01)

    one_class = rough_criterion(np.tile(flat, 3), data.run, np.zeros_like(data.run), 0.01)
    assert criterion == pytest.approx(one_class + 2)


def test_a_rank_that_is_far_off_costs_as_much_as_one_that_is_farther():
    criteria = []
    for distance in (5.0, 50.0):
        data = even_ranks(np.tile([0.01, -0.01, -0.01, 0.01], 8))
        y = data.y.copy()
        y[[0, 31]] = distance  # at both ends, so that the slope stays 0
        criteria.append(_gradient_criterion(replace(data, y=y), 0.01))

    assert criteria[0] == pytest.approx(criteria[1])


def test_a_gradient_is_described_more_briefly_than_its_values_in_another_order():
    generator = np.random.default_rng(1)
    logs = [np.log(1 + np.arange(p) / p) + 0.01 * generator.standard_normal(p) for p in SIZES]
    ranks = [np.arange(p) for p in SIZES]
    shuffled = [generator.permutation(p) for p in SIZES]

    in_order, words = describe_smooth(logs, ranks, floor=0.003)
    in_none, others = describe_smooth(logs, shuffled, floor=0.003)

    assert in_order < in_none
    assert words == "grow evenly with the rank"
    assert others == "differ between ranks without forming groups"
