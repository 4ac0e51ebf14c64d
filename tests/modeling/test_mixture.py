"""Behaviour classes from times alone, and what they are matched by."""

import numpy as np
import pytest

from insitu.entities import TIME, CallPath, RunKey
from insitu.modeling.classes.align import RunClusters, align, follow_laws
from insitu.modeling.classes.mixture import find_classes
from insitu.modeling.classes.run_groups import RunGroup
from insitu.modeling.classes.scatter import (
    are_ranks_alike,
    are_surely_uniform,
    is_order_random,
    may_be_noise,
    repetition_spread,
    row_medians,
)
from insitu.modeling.classes.univariate import best_clusterings, separated_clusterings, sum_segments
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel
from tests.support.parameters import plain_and_full

SIZES = (16, 36, 64, 144, 256)


def touched(p):
    """How many borders of a square domain each rank touches."""
    side = int(p**0.5)
    i, j = np.divmod(np.arange(p), side)
    return (i == 0) * 1 + (i == side - 1) + (j == 0) + (j == side - 1)


def noisy(rng, clean, noise):
    return clean * np.exp(noise * rng.standard_normal(len(clean)))


@plain_and_full("seed", range(3))
@pytest.mark.parametrize(
    "law", [lambda p, touched: 1.2**touched, lambda p, touched: 1 + 0.05 * p**0.5 * touched]
)
def test_classes_that_noise_blurs_are_found_from_all_runs_together(law, seed):
    """Classes 20 % apart or drifting, noise of 2 %: at most one rank in a hundred is mistaken."""
    rng = np.random.default_rng(seed)
    truth = [touched(p) for p in SIZES]
    values = [noisy(rng, law(p, one), 0.02) for p, one in zip(SIZES, truth, strict=True)]

    mixture = find_classes(values, x=np.array(SIZES, float), floor=0.01)

    wrong = sum(int((a != b).sum()) for a, b in zip(mixture.labels, truth, strict=True))
    assert wrong <= 5, f"seed {seed}"


@pytest.mark.parametrize("seed", range(3))
def test_noise_alone_is_one_class(seed):
    rng = np.random.default_rng(seed)
    values = [noisy(rng, np.full(p, 3.0), 0.05) for p in SIZES]

    mixture = find_classes(values, x=np.array(SIZES, float), floor=0.02)

    assert {int(label) for run_labels in mixture.labels for label in run_labels} == {0}
    assert mixture.spread == pytest.approx(0.05, rel=0.15)


def test_a_slow_rank_is_an_outlier_and_no_class():
    rng = np.random.default_rng(1)
    values = [noisy(rng, np.full(p, 3.0), 0.02) for p in SIZES]
    values[2][17] *= 1.8

    mixture = find_classes(values, x=np.array(SIZES, float), floor=0.02)

    assert {int(label) for run_labels in mixture.labels for label in run_labels} == {0}
    assert np.flatnonzero(mixture.is_outlier[2]).tolist() == [17]


def test_clear_classes_without_any_law_are_found_run_by_run():
    factors = dict(zip(SIZES, (3, 9, 2, 30, 5), strict=True))
    values = [np.where(np.arange(p) < 2, factors[p], 1.0) for p in SIZES]

    mixture = find_classes(values, x=np.array(SIZES, float), floor=1e-3)

    assert [array.tolist() for array in mixture.labels] == [[1, 1] + [0] * (p - 2) for p in SIZES]


def test_the_best_partition_is_exact_for_each_of_many_sets():
    sets = sum_segments(
        [
            (np.array([0.0, 0.1, 5.0, 5.1, 9.0]), np.ones(5)),
            (np.array([2.0, 3.0]), np.array([1.0, 3.0])),
        ]
    )

    clusterings = best_clusterings(sets, 0.1, 4)

    assert [clustering.centres.shape for clustering in clusterings] == [
        (2, 1),
        (2, 2),
        (2, 3),
        (2, 4),
    ]
    assert clusterings[2].centres[0] == pytest.approx([0.05, 5.05, 9.0])
    assert clusterings[0].centres[1] == pytest.approx([2.75])
    assert np.isnan(clusterings[2].centres[1]).all()
    centres, _, _ = separated_clusterings(sets, 0.1, 4)
    assert centres[0] == pytest.approx([0.05, 5.05, 9.0])
    assert centres[1] == pytest.approx([2.0, 3.0])


@pytest.mark.parametrize("growth", [lambda p: 1.0, lambda p: p**0.5, lambda p: 1 / p])
def test_runs_that_lack_classes_are_matched_by_value_and_size(growth):
    """Corners only at p = 4; corners and edges at p = 8; inner ranks from 16 on."""
    full = [
        RunClusters(
            p,
            growth(p) * np.array([1.0, 1.2, 1.5]),
            np.array([p - 4 * p**0.5 + 4, 4 * p**0.5 - 8, 4]),
        )
        for p in (256.0, 64.0, 36.0, 16.0)
    ]
    eight = RunClusters(8.0, growth(8) * np.array([1.2, 1.5]), np.array([4.0, 4.0]))
    four = RunClusters(4.0, growth(4) * np.array([1.5]), np.array([4.0]))

    assert align([four, eight, *full], spread=0.01) == [(2,), (1, 2), *[(0, 1, 2)] * 4]


def test_a_run_with_a_class_of_its_own_is_left_out():
    """One rank that owns all four walls is neither corner nor edge."""
    full = [RunClusters(p, np.array([1.0, 2.0]), np.array([p - 4, 4])) for p in (8.0, 16.0, 32.0)]
    one = RunClusters(1.0, np.array([4.0]), np.array([1.0]))

    assert align([one, *full], spread=0.01)[0] == ()


def test_the_same_division_of_as_many_ranks_is_the_same_classes_at_each_size_of_the_problem():
    """Visits of ranks of grids of 1 x 2, 2 x 2, 2 x 3 and 3 x 3."""
    of_two = RunClusters(2.0, np.array([0.0, 8.0]), np.ones(2))
    of_four = RunClusters(4.0, np.array([16.0]), np.array([4.0]))
    of_six = RunClusters(6.0, np.array([16.0, 24.0]), np.array([4.0, 2.0]))
    of_nine = RunClusters(9.0, np.array([32.0]), np.array([9.0]))
    runs = [of_two] * 2 + [of_four] * 3 + [of_six] * 2 + [of_nine] * 2

    assigned = align(runs, spread=0.002)

    assert assigned[2] == assigned[3] == assigned[4] != ()


def test_ranks_at_zero_are_a_class_of_their_own():
    """One rank alone has no neighbour to send to."""
    alone = RunClusters(1.0, np.array([0.0]), np.array([1.0]))
    full = RunClusters(16.0, np.array([2.0, 3.0, 4.0]), np.array([4.0, 8.0, 4.0]))

    assert align([alone, full], spread=0.01) == [(), (0, 1, 2)]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([[2, 2], [2, 6], [2, 14], [2, 30], [2, 62]], True),
        ([[0, 4], [4, 4], [8, 4], [16, 4], [24, 4]], True),
        ([[1, 3], [0, 8], [5, 11], [9, 23], [12, 52]], False),
        ([[3, 1], [2, 6], [11, 5], [4, 28], [40, 24]], False),
        ([[4, 0], [8, 0], [16, 0], [30, 2], [64, 0]], False),
        ([[3, 1], [2, 6], [11, 5]], True),
    ],
)
def test_sizes_of_noise_follow_no_law_and_those_of_a_domain_do(sizes, expected):
    x = np.array([4.0, 8.0, 16.0, 32.0, 64.0][: len(sizes)])

    values = np.array([[3.0, 9.0], [7.0, 2.0], [2.0, 8.0], [9.0, 1.0], [2.0, 6.0]])[: len(sizes)]

    assert follow_laws(np.array(sizes, float), values, x) is expected


def test_steady_values_make_up_for_sizes_of_an_oblong_grid():
    sizes = np.array([[4, 4], [4, 12], [12, 12], [12, 28], [28, 28]], float)

    assert follow_laws(sizes, np.ones((5, 2)), np.array([16.0, 32.0, 64.0, 128.0, 256.0]))


def test_a_run_without_values_has_no_classes():
    empty = RunClusters(2.0, np.zeros(0), np.zeros(0))

    assert align([empty, RunClusters(4.0, np.ones(1), np.ones(1))], spread=0.01) == [(), (0,)]


def test_the_median_leaves_out_what_is_missing():
    values = np.array([[3.0, np.nan, 1.0], [np.nan, np.nan, np.nan], [1.0, 2.0, 4.0]])

    np.testing.assert_array_equal(row_medians(values), [2.0, np.nan, 2.0])


def test_repetitions_tell_how_much_a_rank_scatters():
    rng = np.random.default_rng(3)
    tables = [np.exp(0.05 * rng.standard_normal((1, 500))) for _ in range(9)]
    place = RunGroup(RunKey.of({"p": 500}), (500.0,), 500, tuple(range(9)))

    spread = repetition_spread(tables, [place])

    assert spread == pytest.approx([0.05 / 3], rel=0.2)
    assert np.isnan(repetition_spread(tables[:1], [RunGroup(place.key, (500.0,), 500, (0,))]))


@pytest.mark.parametrize(
    ("static", "expected"), [(0.0, True), (0.1, False)], ids=["noise", "slow ranks"]
)
def test_only_an_order_of_ranks_that_repeats_is_no_chance(static, expected):
    rng = np.random.default_rng(8)
    slow = 1 + static * (np.arange(64) < 8)
    tables = [slow[None] * np.exp(0.05 * rng.standard_normal((1, 64))) for _ in range(4)]
    place = RunGroup(RunKey.of({"p": 64}), (64.0,), 64, (0, 1, 2, 3))

    assert is_order_random(tables, [place]).tolist() == [expected]


@pytest.mark.parametrize("member", [0, 1, -1])
def test_a_single_rank_that_is_slow_in_two_repetitions_is_no_chance(member):
    rng = np.random.default_rng(9)
    tables, groups = [], []
    for p in (4, 8, 16, 32, 64):
        slow = np.ones(p)
        slow[member] = 1.5
        groups.append(RunGroup(RunKey.of({"p": p}), (float(p),), p, (len(tables), len(tables) + 1)))
        tables += [(slow * np.exp(0.02 * rng.standard_normal(p)))[None] for _ in range(2)]

    assert is_order_random(tables, groups).tolist() == [False]


def test_one_class_of_a_candidate_that_is_slow_is_no_chance():
    rng = np.random.default_rng(10)
    codes = np.where(np.isin(np.arange(64), (21, 42)), 1, 0)
    tables = [(1 + codes + 0.05 * rng.standard_normal(64))[None] for _ in range(4)]
    place = RunGroup(RunKey.of({"p": 64}), (64.0,), 64, (0, 1, 2, 3))

    assert is_order_random(tables, [place]).tolist() == [True]
    assert is_order_random(tables, [place], [[codes]]).tolist() == [False]


def test_ranks_that_are_alike_are_seldom_in_an_order():
    rng = np.random.default_rng(11)
    tables = [1 + 0.05 * rng.standard_normal((2000, 32)) for _ in range(2)]
    place = RunGroup(RunKey.of({"p": 32}), (32.0,), 32, (0, 1))
    codes = [[np.arange(32) % modulus] for modulus in (2, 4, 8)]

    # Each of both tests says so of one call path in 1,000: 10 of 2,000 have a probability of 0.8 %.
    assert np.count_nonzero(~is_order_random(tables, [place], codes)) < 10


def test_equal_ranks_have_no_order_that_could_repeat():
    tables = [np.ones((1, 64))] * 4
    place = RunGroup(RunKey.of({"p": 64}), (64.0,), 64, (0, 1, 2, 3))

    assert is_order_random(tables, [place]).tolist() == [True]


def test_an_order_seen_once_may_be_no_chance():
    assert is_order_random(
        [np.ones((1, 4))], [RunGroup(RunKey.of({}), (4.0,), 4, (0,))]
    ).tolist() == [False]


@pytest.mark.parametrize(("values", "expected"), [([1.0, 1.01], True), ([1.0, 1.2], False)])
def test_ranks_within_two_percent_are_uniform(values, expected):
    assert are_surely_uniform([np.log([values])]).tolist() == [expected]


def unrepeated(size, *, runs=6, paths=500):
    """Logarithms of times of ranks that do the same, 2 % noise: (n_paths, n_ranks) per run."""
    rng = np.random.default_rng(12)
    return [0.02 * rng.standard_normal((paths, size)) + 0.3 * run for run in range(runs)]


@pytest.mark.parametrize("size", [2, 4, 16])
def test_noise_of_unrepeated_runs_of_one_size_needs_no_mixture(size):
    assert are_ranks_alike(unrepeated(size)).mean() > 0.98


@pytest.mark.parametrize("size", [2, 4, 16])
@pytest.mark.parametrize("slow", [slice(0, 1), slice(0, None, 2)], ids=["one", "half"])
def test_ranks_that_are_slower_in_all_runs_do_not_look_alike(size, slow):
    logs = unrepeated(size)
    for log in logs:
        log[:, slow] += np.log(1.1)

    assert not are_ranks_alike(logs).any()


def test_a_slow_measurement_does_not_hide_a_slow_rank():
    logs = unrepeated(4)
    for log in logs:
        log[:, 0] += np.log(1.1)
    logs[2][:, 1] += np.log(2.0)

    assert are_ranks_alike(logs).mean() < 0.02


def test_groups_of_other_ranks_in_every_run_do_not_look_alike():
    logs = unrepeated(8)
    for run, log in enumerate(logs):
        log[:, [run, (3 * run + 1) % 8]] += 0.3

    assert not are_ranks_alike(logs).any()


def test_runs_that_cannot_be_compared_say_nothing_of_ranks():
    missing = unrepeated(4)
    missing[1][0, 2] = np.nan

    assert not are_ranks_alike(missing)[0]
    assert not are_ranks_alike(unrepeated(4, runs=3)).any()
    assert not are_ranks_alike([*unrepeated(4), *unrepeated(8, runs=1)]).any()
    assert are_ranks_alike([]).shape == (0,)


def test_equal_ranks_look_alike():
    assert are_ranks_alike([np.zeros((3, 4))] * 5).all()


def few_ranks(weight, noise, seed):
    """Whether one call path of 2, 3 and 4 ranks, never repeated, is divided: e^weight apart."""
    rng = np.random.default_rng(seed)
    path = CallPath.parse("main->flux")
    runs = []
    for p in (2, 3, 4):
        times = np.exp(weight(np.arange(p), p) + noise * rng.standard_normal(p))
        runs.append((RunKey.of({"p": p}, 0), RunTable((path,), (TIME,), {"time": times[None]})))
    found = remodel(Experiment(("p",), tuple(runs)))
    return any(len(entry.names) > 1 for entry in found.clusters)


@plain_and_full("noise", [0.05, 0.1])
def test_noise_of_a_few_unrepeated_ranks_makes_no_classes(noise):
    divided = [few_ranks(lambda rank, _: 0.0 * rank, noise, [31, seed]) for seed in range(30)]

    assert sum(divided) <= 1


def test_a_few_unrepeated_ranks_that_differ_clearly_are_classes():
    assert all(few_ranks(lambda rank, _: 0.5 * (rank == 0), 0.01, seed) for seed in range(5))
    assert all(few_ranks(lambda rank, p: 0.5 * (rank >= p / 2), 0.01, seed) for seed in range(5))


def test_one_value_of_each_class_is_no_evidence_of_classes():
    logs, labels = [np.array([0.0, 1.0]), np.array([0.0, 0.7, 2.3])], [np.arange(2), np.arange(3)]

    assert may_be_noise(logs, labels)
    assert not may_be_noise(logs, [np.zeros(2, dtype=int), np.zeros(3, dtype=int)])


def test_classes_pay_for_the_partitions_they_were_chosen_from():
    rng = np.random.default_rng(4)
    logs, label = 0.05 * rng.standard_normal(16) + 0.2 * (np.arange(16) < 8), np.arange(16) < 8

    assert not may_be_noise([logs], [label.astype(int)], np.log(2))
    assert may_be_noise([logs], [label.astype(int)])
