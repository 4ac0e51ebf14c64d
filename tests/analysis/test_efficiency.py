"""Efficiencies: as computed by hand, predicted within bounds, never of crowded runs."""

from collections.abc import Mapping

import numpy as np
import pytest

from insitu.analysis.diagnosis.efficiency import (
    COMMUNICATION,
    COMPUTATION,
    GLOBAL,
    LOAD_BALANCE,
    MAIN_LOOP,
    PARALLEL,
    TRANSFER,
    WHOLE_RUN,
    ScaleEfficiency,
)
from insitu.analysis.diagnosis.efficiency_table import efficiency_lines
from tests.analysis.programs import Vector, diagnose

START_UP_S = 1.5


def program(
    compute: Vector, wait: Vector, *, reduction: Mapping[str, Vector] | None = None
) -> dict[str, Mapping[str, Vector]]:
    """A program that computes, and waits in a reduction, for seconds that depend on p."""

    def whole(p: int) -> np.ndarray:
        return np.broadcast_to(compute(p), p) + np.broadcast_to(wait(p), p) + START_UP_S

    return {
        "app": {"visits": lambda p: 1, "time": whole, "time_exclusive": lambda p: 0.0},
        "app->(import)": {
            "visits": lambda p: 1,
            "time": lambda p: 1.0,
            "time_exclusive": lambda p: 1.0,
        },
        "app->MPI_Init": {
            "visits": lambda p: 1,
            "time": lambda p: 0.5,
            "time_exclusive": lambda p: 0.5,
        },
        "app->main": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.0},
        "app->main->push": {"visits": lambda p: 100, "time_exclusive": compute},
        "app->main->reduce->MPI_Allreduce": {
            "visits": lambda p: 100,
            "time": wait,
            "time_exclusive": wait,
            **(reduction or {}),
        },
    }


def values_of(scale: ScaleEfficiency) -> dict[str, float]:
    return {name: values.value for name, values in scale.factors.items()}


def ramp(p: int) -> np.ndarray:
    """Rank i computes for 4 + 4 i / (p - 1) seconds."""
    return np.linspace(4.0, 8.0, p) if p > 1 else np.array([8.0])


def test_efficiencies_equal_those_computed_by_hand():
    plan = program(ramp, lambda p: 9.0 - ramp(p))

    (section,) = diagnose(plan, scales=(2, 4)).efficiencies

    # Rank 3 computes for 8 of 9 seconds, all ranks for 24 of 36.
    factors = values_of(section.scales[1])
    assert section.section.name == WHOLE_RUN
    assert section.scales[1].p == 4
    assert factors[LOAD_BALANCE] == pytest.approx(6 / 8)
    assert factors[COMMUNICATION] == pytest.approx(8 / 9)
    assert factors[PARALLEL] == pytest.approx(6 / 9)
    assert TRANSFER not in factors


def test_computation_scaling_compares_the_useful_time_of_all_ranks_with_the_smallest_scale():
    def strong(p: int) -> np.ndarray:
        return np.full(p, 16.0 / p + 0.5)  # half a second on each rank does not shrink

    visits = {"visits": lambda p: 6400 / p, "time_exclusive": strong}
    plan = program(strong, lambda p: 1.0)
    plan["app->main->push"] = visits

    (section,) = diagnose(plan, scales=(2, 4, 8)).efficiencies

    factors = values_of(section.scales[2])
    assert factors[COMPUTATION] == pytest.approx((16 + 0.5 * 2) / (16 + 0.5 * 8))
    assert factors[GLOBAL] == pytest.approx(factors[PARALLEL] * factors[COMPUTATION])


def test_time_in_collective_calls_that_is_not_waiting_bounds_the_transfer():
    waiting = {"time_waiting": lambda p: 0.8 * (9.0 - ramp(p))}
    plan = program(ramp, lambda p: 9.0 - ramp(p), reduction=waiting)

    (section,) = diagnose(plan, scales=(2, 4)).efficiencies

    # The last rank is in MPI for 1 second and waits for 0.8 of it.
    assert section.scales[1].factors[TRANSFER].value == pytest.approx(1 - 0.2 / 9)
    (line,) = [line for line in efficiency_lines([section]) if "transfer efficiency" in line]
    assert line.split()[-3:] == ["≤", "98", "%"]


def test_a_load_balance_that_falls_is_predicted_and_a_warning():
    def worst(p: int) -> np.ndarray:
        return np.concatenate([[8.0 + 0.25 * p], np.full(p - 1, 8.0)])

    def rest(p: int) -> np.ndarray:
        return worst(p).max() - worst(p) + 0.1

    scales = (2, 4, 8, 16, 32)
    diagnosis = diagnose(program(worst, rest), scales=scales, target={"p": 64.0})

    mean = (64 * 8.0 + 0.25 * 64) / 64
    truth = mean / (8.0 + 0.25 * 64)
    predicted = diagnosis.efficiencies[0].predicted
    assert predicted is not None and predicted.p == 64
    bounds = predicted.factors[LOAD_BALANCE]
    assert bounds.low <= truth <= bounds.high
    (loss,) = [entry for entry in diagnosis.statements if entry.kind == "efficiency"]
    assert loss.ranks == "all"
    assert (loss.status, loss.metric) == ("warning", LOAD_BALANCE)
    assert loss.text.startswith("load balance falls to 3")
    assert "at p = 64, from 5" in loss.text
    assert (loss.then, loss.low, loss.high) == (bounds.value, bounds.low, bounds.high)


def test_constant_efficiencies_are_predicted_and_no_warning():
    plan = program(lambda p: 8.0, lambda p: 0.4)

    diagnosis = diagnose(plan, scales=(2, 4, 8, 16), target={"p": 64.0})

    predicted = diagnosis.efficiencies[0].predicted
    assert predicted is not None
    assert predicted.factors[PARALLEL].value == pytest.approx(8 / 8.4, rel=0.01)
    assert not [entry for entry in diagnosis.statements if entry.kind == "efficiency"]


def test_runs_with_more_ranks_than_cores_have_no_efficiencies():
    plan = program(ramp, lambda p: 9.0 - ramp(p))

    assert diagnose(plan, scales=(2, 4), crowded=True).efficiencies == ()


def test_phases_and_the_function_with_the_main_loop_have_efficiencies_of_their_own():
    phase = {
        "visits": lambda p: 1,
        "time": lambda p: 5.0,
        "time_mpi": lambda p: np.linspace(1.0, 2.0, p),
    }
    loop = {"visits": lambda p: 1, "time": lambda p: 9.0}
    step = {"visits": lambda p: 100, "iteration_time": lambda p: 0.09}
    plan = {
        **program(ramp, lambda p: 9.0 - ramp(p)),
        "app->(phase solve)": phase,
        "app->main->iterate": loop,
        "app->main->iterate->step": step,
        "app->main->iterate->step->MPI_Bcast": {
            "visits": lambda p: 100,
            "time": lambda p: np.linspace(0.0, 3.0, p),
            "time_exclusive": lambda p: np.linspace(0.0, 3.0, p),
        },
    }

    sections = {entry.section.name: entry for entry in diagnose(plan, scales=(2, 4)).efficiencies}

    assert list(sections) == [WHOLE_RUN, MAIN_LOOP, "(phase solve)"]
    of_phase, of_loop = (
        values_of(sections[name].scales[0]) for name in ("(phase solve)", MAIN_LOOP)
    )
    assert (of_phase[LOAD_BALANCE], of_phase[COMMUNICATION]) == pytest.approx((3.5 / 4, 4 / 5))
    assert (of_loop[LOAD_BALANCE], of_loop[PARALLEL]) == pytest.approx((7.5 / 9, 7.5 / 9))


@pytest.mark.parametrize("seed", range(6))
def test_no_load_balance_is_predicted_where_another_rank_has_just_become_the_slowest(seed):
    """The last rank computes for 3 s; rank 0, which writes for all, overtakes it at 40 ranks."""

    def compute(p: int) -> np.ndarray:
        seconds = np.full(p, 2 + 0.001 * p)
        seconds[-1] += 1.0
        seconds[0] += 0.025 * p
        return seconds * (1 + 0.01 * np.random.default_rng([seed, p]).standard_normal(p))

    plan = program(compute, lambda p: 30.0 - compute(p))
    (section,) = diagnose(plan, scales=(4, 8, 16, 32, 64, 96)).efficiencies

    largest = compute(768)
    truth = float(largest.mean() / largest.max())
    predicted = section.predicted.factors if section.predicted is not None else {}
    bounds = predicted.get(LOAD_BALANCE)
    assert bounds is None or bounds.low <= truth <= bounds.high
