"""Runs that were slow as a whole."""

import numpy as np
import pytest

from insitu.entities import RunKey
from insitu.modeling.run_effects import (
    find_disturbed_runs,
    remove_disturbed_runs,
    report_disturbed_run,
)

X = 2.0 ** np.arange(1, 6)


def campaign(*, level, seed=3, repetitions=3, count=40):
    rng = np.random.default_rng(seed)
    truth = 10 ** rng.uniform(-3, 1, (count, 1)) * X ** rng.choice([0, 0.5, 1], (count, 1))
    noise = 1 + level * rng.standard_normal((count, len(X), repetitions))
    return truth[:, :, None] * noise


def test_one_slow_run_is_one_finding():
    values = campaign(level=0.02)
    values[:, 4, 1] *= 1.9

    [run] = find_disturbed_runs(values)

    assert (run.coordinate, run.repetition) == (4, 1)
    assert run.factor == pytest.approx(1.9, rel=0.03)
    assert (run.series, run.total) == (40, 40)
    text = report_disturbed_run(run, RunKey.of({"p": 32}, 1)).text
    assert text.startswith("run p=32#1 was 1.9 times as slow as its repetitions in 40 of 40")


def test_a_disturbed_run_has_no_values():
    values = campaign(level=0.02)
    values[:, 2, 0] /= 2

    kept = remove_disturbed_runs(values, find_disturbed_runs(values))

    assert np.isnan(kept[:, 2, 0]).all()
    assert np.isfinite(kept).sum() == values.size - len(values)


@pytest.mark.parametrize("level", [0.01, 0.05, 0.2])
def test_noise_disturbs_no_run(level):
    runs = [find_disturbed_runs(campaign(level=level, seed=seed)) for seed in range(20)]

    assert sum(map(len, runs)) == 0


def test_noise_that_runs_usually_share_disturbs_no_run():
    rng = np.random.default_rng(4)
    values = campaign(level=0.02) * np.exp(0.3 * rng.standard_normal((1, len(X), 3)))

    assert len(find_disturbed_runs(values)) <= 1


def test_one_slow_call_path_is_not_a_slow_run():
    values = campaign(level=0.02)
    values[:10, 3, 2] *= 4

    assert find_disturbed_runs(values) == []


def test_two_repetitions_do_not_show_which_is_disturbed():
    values = campaign(level=0.02, repetitions=2)
    values[:, 4, 1] *= 3

    assert find_disturbed_runs(values) == []


def test_a_slow_run_is_found_among_many():
    values = campaign(level=0.02, repetitions=4000)  # in quadratic time, it takes minutes
    values[:, 3, 3999] *= 3

    [run] = find_disturbed_runs(values)

    assert (run.coordinate, run.repetition) == (3, 3999)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_few_call_paths_show_a_run_that_is_twice_as_slow(count):
    n_found = n_false = 0
    for seed in range(100):
        values = campaign(level=0.1, seed=seed, count=count)
        n_false += len(find_disturbed_runs(values))
        values[:, 2, 1] *= 2
        n_found += [(run.coordinate, run.repetition) for run in find_disturbed_runs(values)] == [
            (2, 1)
        ]

    assert n_false == 0
    assert n_found >= 90


def test_a_single_call_path_says_nothing_about_its_run():
    values = campaign(level=0.02, count=1)
    values[:, 2, 1] *= 3

    assert find_disturbed_runs(values) == []
