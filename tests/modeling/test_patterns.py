"""Regular patterns of ranks in times: leaders of nodes, halves, stages, the first ranks."""

import numpy as np
import pytest

from insitu.entities import TIME, CallPath, RunKey
from insitu.modeling.classes.mixture import find_classes
from insitu.modeling.classes.patterns import select_pattern
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

SIZES = (8, 16, 32, 64, 128)
GAP, NOISE = 0.1, 0.02


def values_of(weight, seed=1, noise=NOISE):
    """Values of every run: 10 % more for each unit of weight, a function of ranks and p."""
    rng = np.random.default_rng(seed)
    return [
        (1 + GAP) ** weight(np.arange(p), p) * (1 + noise * rng.standard_normal(p)) for p in SIZES
    ]


def classes_of(values):
    return find_classes(values, x=np.array(SIZES, dtype=float), floor=NOISE / 2)


def is_same(labels, weight):
    """Whether labels separate the same ranks as a weight in every run."""
    for run_labels, p in zip(labels, SIZES, strict=True):
        expected = weight(np.arange(p), p)
        pairs = set(zip(run_labels.tolist(), expected.tolist(), strict=True))
        if len(pairs) != len(set(run_labels.tolist())) or len(pairs) != len(set(expected.tolist())):
            return False
    return True


@pytest.mark.parametrize(
    "weight",
    [
        lambda rank, p: (rank % 8 == 0) * 1,
        lambda rank, p: np.isin(rank % 11, (2, 5, 6)) * 1,
        lambda rank, p: rank % 3,
        lambda rank, p: (rank >= p / 2) * 1,
        lambda rank, p: (rank < 3 * p / 8) * 1,
        lambda rank, p: rank * 4 // p,
        lambda rank, p: (rank < 2) * 1,
    ],
    ids=["every 8th", "3 of 11", "mod 3", "half", "3 to 5", "4 stages", "first two"],
)
def test_regular_ranks_that_are_slower_are_a_class(weight):
    mixture = classes_of(values_of(weight))

    assert mixture.is_candidate
    assert is_same(mixture.labels, weight)


def test_ranges_whose_ends_are_rounded_differently_in_each_run_are_a_class():
    def weight(rank, p):
        return (rank >= 3 * p // 8 + {16: 1, 64: -1, 128: 2}.get(p, 0)) * 1

    mixture = classes_of(values_of(weight))

    assert mixture.is_candidate
    assert is_same(mixture.labels, weight)


@pytest.mark.parametrize("seed", range(4))
def test_noise_follows_no_pattern(seed):
    mixture = classes_of(values_of(lambda rank, p: 0 * rank, seed=seed))

    assert {int(labels.max()) for labels in mixture.labels} == {0}


def test_times_that_grow_with_the_rank_follow_no_pattern():
    values = values_of(lambda rank, p: 3 * rank / p)

    pattern = select_pattern(
        [np.log(run_values) for run_values in values],
        [np.arange(p) for p in SIZES],
        x=np.array(SIZES, dtype=float),
        floor=NOISE,
        max_outliers=0.01,
    )

    assert pattern is None


def test_ranks_without_values_keep_the_positions_of_the_others():
    def weight(rank, p):
        return (rank % 4 == 3) * 1

    values, present = values_of(weight), [np.arange(p)[1:] for p in SIZES]
    mixture = find_classes(
        [run_values[1:] for run_values in values],
        x=np.array(SIZES, dtype=float),
        floor=NOISE / 2,
        ranks=present,
    )

    for labels, ranks in zip(mixture.labels, present, strict=True):
        assert labels.tolist() == (ranks % 4 == 3).astype(int).tolist()


def test_a_single_slow_rank_of_a_small_run_makes_no_classes_of_their_own():
    # Two classes that drift apart with the number of ranks, and one slow measurement.
    rng = np.random.default_rng(5)
    values = []
    for p in SIZES:
        gap = 0.1 * np.log2(p)
        is_slow = np.arange(p) < 3 * p / 8
        values.append((1 + gap * is_slow) * (1 + NOISE * rng.standard_normal(p)))
    values[0][6] *= 1.5

    mixture = classes_of(values)

    assert {int(labels.max()) for labels in mixture.labels} == {1}


def test_a_third_level_that_differs_by_less_than_the_noise_is_no_class():
    rng = np.random.default_rng(2)
    values = []
    for p in SIZES:
        rank = np.arange(p)
        steps = np.where(rank < p / 4, 0.0, np.where(rank < 3 * p / 4, 5.0, 5.7))
        values.append(np.exp(NOISE * (steps + rng.standard_normal(p))))

    pattern = select_pattern(
        [np.log(run_values) for run_values in values],
        [np.arange(p) for p in SIZES],
        x=np.array(SIZES, dtype=float),
        floor=NOISE / 2,
        max_outliers=0.003,
    )

    assert pattern is not None
    assert {int(labels.max()) for labels in pattern.labels} == {1}


@pytest.mark.parametrize("seed", range(3))
def test_slow_measurements_of_two_repetitions_hide_no_halves(seed):
    rng = np.random.default_rng(seed)
    path, runs = CallPath(("main", "flux")), []
    for p in SIZES:
        clean = np.where(np.arange(p) < p / 2, 1.2, 1.0)
        for repetition in range(2):
            slow = np.where(rng.random(p) < 0.02, rng.uniform(1.3, 3, p), 1.0)
            times = clean * (1 + NOISE * rng.standard_normal(p)) * slow
            table = RunTable((path,), (TIME,), {"time": times[None]})
            runs.append((RunKey.of({"p": p}, repetition), table))

    models = remodel(Experiment(("p",), tuple(runs)))

    labels = {entry.run.size: entry.labels for entry in models.clusters}
    assert is_same([labels[p] for p in SIZES], lambda rank, p: (rank < p / 2) * 1)
