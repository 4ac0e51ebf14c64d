"""Intervals for the offset of a clock: the truth is inside, whatever the clocks and links do."""

import itertools

import numpy as np
import pytest

from insitu.server.clock_offsets import MAX_RATE_CHANGE, ClockOffset, OffsetBounds

OPERATION_S = 2e-6  # from the last entry to an exit, at least


def measure(
    rng,
    *,
    calls=300,
    span_s=10.0,
    rate=5e-5,
    bend=0.0,
    late_s=0.0,
    slow_link_s=0.0,
    imbalance_s=5e-4,
):
    """Calls of two ranks in which both need each other, and the true offset at the bounds.

    The first clock is the reference and shows the true time.
    """
    start = np.sort(rng.uniform(0, span_s, calls))
    begin_a = start + rng.uniform(0, imbalance_s, calls)
    begin_b = start + late_s + rng.uniform(0, imbalance_s, calls)
    last = np.maximum(begin_a, begin_b) + OPERATION_S
    end_a = last + rng.exponential(OPERATION_S, calls)
    end_b = last + slow_link_s + rng.exponential(OPERATION_S, calls)

    offset_s = rng.uniform(-1e3, 1e3)

    def offset(time):
        return offset_s + rate * time + bend * time**2 / 2

    upper = end_b + offset(end_b) - begin_a
    lower = begin_b + offset(begin_b) - end_a
    return OffsetBounds(begin_a, upper, end_a, lower), offset(begin_a)


CASES = [
    {},
    {"calls": 3},
    {"calls": 3000, "span_s": 60.0},
    {"rate": -1e-3},  # twice as much as any slewed clock
    {"rate": 0.0, "bend": MAX_RATE_CHANGE, "span_s": 100.0},
    {"bend": -MAX_RATE_CHANGE, "span_s": 1000.0},
    {"slow_link_s": 1e-4},
    {"late_s": 1e-3},
    {"late_s": -1e-3, "slow_link_s": 1e-3},
    {"imbalance_s": 0.0},
]


@pytest.mark.parametrize(("case", "seed"), list(itertools.product(CASES, range(5))), ids=str)
def test_the_true_offset_is_always_inside(case, seed):
    bounds, truth = measure(np.random.default_rng(seed), **case)

    low, high = ClockOffset(bounds, is_steady=True).at(bounds.upper_at)

    assert (low <= truth).all()
    assert (truth <= high).all()


def test_random_imbalance_bounds_the_offset_by_the_time_of_the_operation():
    bounds, _ = measure(np.random.default_rng(1))

    low, high = ClockOffset(bounds, is_steady=True).at(bounds.upper_at)

    assert np.median(high - low) / 2 < 2 * OPERATION_S


def test_a_rank_that_is_always_late_leaves_one_side_open():
    late_s = 1e-3
    bounds, truth = measure(np.random.default_rng(1), late_s=late_s)

    low, high = ClockOffset(bounds, is_steady=True).at(bounds.upper_at)

    assert np.median(truth - low) < 2 * OPERATION_S
    assert late_s / 10 < np.median(high - truth) < late_s


def test_a_slewed_clock_has_wider_intervals_that_contain_a_sudden_change_of_its_rate():
    rng = np.random.default_rng(2)
    bounds, truth = measure(rng, rate=0.0, calls=1000)
    jump = np.maximum(bounds.upper_at - 5.0, 0.0) * 5e-4  # adjtimex begins to slew at 5 s
    jump_low = np.maximum(bounds.lower_at - 5.0, 0.0) * 5e-4
    slewed = OffsetBounds(
        bounds.upper_at, bounds.upper + jump, bounds.lower_at, bounds.lower + jump_low
    )

    low, high = ClockOffset(slewed, is_steady=False).at(slewed.upper_at)
    steady_low, steady_high = ClockOffset(bounds, is_steady=True).at(bounds.upper_at)

    truth = truth + jump
    assert ((low <= truth + 1e-9) & (truth <= high + 1e-9)).all()
    assert np.median(high - low) > np.median(steady_high - steady_low)


def test_times_before_and_after_the_bounds_are_extrapolated():
    bounds, truth = measure(np.random.default_rng(3), rate=1e-4)

    low, high = ClockOffset(bounds, is_steady=True).at(bounds.upper_at + 2.0)

    assert ((low <= truth + 2e-4) & (truth + 2e-4 <= high)).all()


def test_bounds_on_one_side_only_leave_the_other_infinite():
    bounds, truth = measure(np.random.default_rng(4))
    nothing = np.full_like(bounds.lower, -np.inf)
    one_sided = OffsetBounds(bounds.upper_at, bounds.upper, bounds.lower_at, nothing)

    low, high = ClockOffset(one_sided, is_steady=True).at(bounds.upper_at)

    assert np.isneginf(low).all()
    assert (truth <= high).all()
    assert np.isfinite(high).all()


def test_no_bounds_leave_everything_open():
    times = np.arange(5.0)
    nothing = np.full(5, np.inf)

    low, high = ClockOffset(OffsetBounds(times, nothing, times, -nothing), is_steady=True).at(times)

    assert np.isneginf(low).all()
    assert np.isposinf(high).all()


def test_a_clock_that_jumps_has_no_interval():
    bounds, _ = measure(np.random.default_rng(5))
    jump = np.where(bounds.upper_at < 5.0, 0.0, 0.1)
    broken = OffsetBounds(
        bounds.upper_at, bounds.upper + jump, bounds.lower_at, bounds.lower + jump
    )

    low, high = ClockOffset(broken, is_steady=True).at(bounds.upper_at)

    is_near = np.abs(bounds.upper_at - 5.0) < 0.01
    assert np.isnan(low[is_near]).all()
    assert np.isnan(high[is_near]).all()
