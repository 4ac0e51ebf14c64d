"""A main loop that drifts is not linear; one with periodic work is."""

import numpy as np
import pytest

from insitu.design.mainloop import iterations_for, judge_loop, judge_runs

LENGTHS = (7, 20, 50, 100, 1000)


def noise(count: int, seed: int, amount: float = 0.05) -> np.ndarray:
    return 1 + amount * np.random.default_rng(seed).standard_normal(count)


def test_equal_iterations_are_linear():
    accepted = [judge_loop(noise(n, seed)).is_linear for n in LENGTHS for seed in range(40)]
    assert sum(accepted) >= 0.97 * len(accepted)


@pytest.mark.parametrize("count", [20, 50, 100, 1000])
def test_growth_by_30_percent_is_not_linear(count):
    grown = np.linspace(1, 1.3, count)
    verdicts = [judge_loop(grown * noise(count, seed)) for seed in range(20)]
    assert not any(verdict.is_linear for verdict in verdicts)
    assert all("grow by" in verdict.reason for verdict in verdicts)


@pytest.mark.parametrize("count", [20, 50, 100])
def test_residual_every_fifth_step_is_linear(count):
    every_fifth = 1 + 0.8 * (np.arange(count) % 5 == 4)
    verdict = judge_loop(every_fifth * noise(count, 1))
    assert verdict.is_linear
    assert verdict.variation > 0.2  # the test of [DET §3.2] alone would reject this


def test_warm_up_does_not_count():
    assert judge_loop([9.0, 4.0, 1.5, *noise(40, 2)]).is_linear


def test_too_few_iterations_are_not_judged():
    verdict = judge_loop([1.0, 1.0, 1.0])
    assert not verdict.is_linear
    assert "too few" in verdict.reason


def test_zeros_and_constants():
    assert judge_loop([0.0] * 20).is_linear
    assert judge_loop([2.0] * 20).variation == 0


def test_more_variation_needs_more_iterations():
    assert iterations_for(0.0067) == 5  # Kripke [DET §5.1.2]
    assert iterations_for(0.05) == 5  # Pace3D [DET §5.1.1]
    assert iterations_for(0.2) == 62


def test_runs_are_judged_together():
    flat = [[1.0, *[1.0 + 0.01 * (i % 3) for i in range(30)]] for _ in range(3)]
    growing = [[1.0 + 0.01 * i for i in range(30)] for _ in range(3)]

    assert judge_runs([[], [1.0, 1.0]]) is None
    assert judge_runs([*flat, growing[0]]).is_linear
    verdict = judge_runs([flat[0], *growing])
    assert not verdict.is_linear
    assert "iterations grow by" in verdict.reason
    assert "in 3 of 4 runs" in verdict.reason
    shrinking = [times[::-1] for times in growing]
    assert "iterations shrink by" in judge_runs([flat[0], *shrinking]).reason


def test_the_unit_of_times_does_not_matter():
    seconds = noise(40, 3, 0.2)

    of_seconds, of_hours = judge_loop(seconds), judge_loop(seconds / 3600)

    assert of_hours.variation == pytest.approx(of_seconds.variation)
    assert of_hours.drift == pytest.approx(of_seconds.drift)
    assert of_hours.iterations == of_seconds.iterations > 5


def test_variation_and_noise_of_several_runs_are_medians():
    runs = [noise(40, seed, 0.05 * (1 + seed)) for seed in range(3)]

    alone, together = [judge_loop(times) for times in runs], judge_runs(runs)

    assert together.noise == sorted(verdict.noise for verdict in alone)[1] > 0
    assert together.variation == sorted(verdict.variation for verdict in alone)[1]


def test_the_fewest_iterations_are_those_that_the_reason_names():
    """The first one is ignored as warm-up."""
    assert judge_loop([1.0] * 5).reason == "5 iterations are too few; at least 6 are needed"
    assert "too few" not in judge_loop([1.0] * 6).reason
