"""Diagnosis: weak and strong scaling by what ranks allocate, and by their times."""

import numpy as np
import pytest

from insitu.analysis.diagnosis.lines import diagnosis_lines
from tests.analysis.programs import (
    HEALTHY,
    SCALES,
    Plan,
    Vector,
    calls_of_files,
    diagnose,
    strong_plan,
)


def test_a_matrix_that_two_scales_divide_into_blocks_of_one_size_is_shared():
    blocks = {2: 2e4, 3: 1.4e4, 4: 1e4, 6: 7e3, 8: 7e3, 12: 3.5e3}
    plan: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": lambda p: 5e6 + blocks[p]},
        "tool->main->compress": {"bytes_allocated": lambda p: 5e6},
        "tool->main->assemble": {
            "time_exclusive": lambda p: 0.02,
            "bytes_allocated": blocks.__getitem__,
        },
    }

    assert diagnose(plan, base={}, sampling_s=1e-4).scaling == "unknown"


@pytest.mark.parametrize(("last", "scaling"), [(2.5e6, "mixed"), (3.5e6, "weak")])
def test_arrays_that_are_clearly_smaller_at_the_largest_scale_alone_leave_weak_scaling_open(
    last: float, scaling: str
):
    arrays = {2: 4e6, 3: 3.9e6, 4: 3.8e6, 6: 3.7e6, 8: 3.6e6, 12: last}
    plan: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": arrays.__getitem__},
        "tool->main->solve": {"time_exclusive": lambda p: 1.0},
    }

    assert diagnose(plan, base={}).scaling == scaling


def test_arrays_with_a_part_that_ranks_share_do_not_tell_the_scaling_of_a_script():
    script: Plan = {
        "app.py": {
            "visits": lambda p: 1,
            "time_exclusive": lambda p: 2.0,
            "bytes_allocated": lambda p: 2e7 / p + 4e7,
        },
        "app.py->show": {"visits": lambda p: 5, "time_exclusive": lambda p: 0.001},
    }

    assert diagnose(script, base={}, crowded=True).scaling == "unknown"


@pytest.mark.parametrize(
    ("shared", "scaling"),
    [
        (lambda p: 0.0, "weak"),
        (lambda p: 4e5 / p, "weak"),
        (lambda p: 3e6 / p, "unknown"),
        (lambda p: 3e6 / p**0.5, "unknown"),  # by no law of shared data and constant ones
    ],
)
def test_constant_buffers_hide_no_data_that_ranks_share(shared, scaling) -> None:
    """As in NPB's LU and a multiplication of matrices, of which few samples were taken."""
    tool: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": lambda p: 4e6 + shared(p)},
        "tool->main->solve": {"time_exclusive": lambda p: 0.02},
    }

    assert diagnose(tool, base={}, sampling_s=1e-4).scaling == scaling


@pytest.mark.parametrize(("crowded", "scaling"), [(True, "mixed"), (False, "weak")])
def test_times_on_shared_cores_are_no_weak_scaling_where_ranks_have_ever_less_data(
    crowded, scaling
) -> None:
    # As a transposed matrix of a fixed size, besides what the same functions of numpy allocate.
    script: Plan = {
        "app.py": {
            "visits": lambda p: 1,
            "bytes_allocated": lambda p: 2.4e7 + 1.6e7 / p**0.5 + 1e5 * (p % 3),
        },
        "app.py->main": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.1},
    }

    assert diagnose(script, base={}, crowded=crowded).scaling == scaling


@pytest.mark.parametrize(
    ("samples", "scaling"),
    [
        ((2, 3, 4, 6, 8, 12), "weak"),
        ((3, 7, 2, 4, 9, 8), "unknown"),  # 20 times as likely with p would be weak
    ],
)
def test_few_samples_that_may_be_as_many_at_all_scales_are_no_weak_scaling(samples, scaling):
    scales = (2, 3, 4, 6, 8, 12)
    tool: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": lambda p: 5e6},
        "tool->main->solve": {
            "time_exclusive": lambda p: dict(zip(scales, samples, strict=True))[p] / 97 / p
        },
    }

    assert diagnose(tool, scales, base={}, sampling_s=1 / 97).scaling == scaling


def test_a_program_that_stops_after_a_given_time_scales_neither_weakly_nor_strongly():
    iterations = {2: 1963, 3: 453, 4: 302, 6: 302, 8: 200, 12: 151}

    def counts(p: int) -> float:
        return iterations[p]

    plan: Plan = {
        "app->main->push": {"visits": counts, "time_exclusive": lambda p: 1e-3 * counts(p)},
        "app->main->norm->MPI_Allreduce": {"visits": counts},
    }

    assert diagnose(plan).scaling == "mixed"


@pytest.mark.parametrize(("first", "scaling"), [(130, "weak"), (170, "mixed")])
def test_the_most_frequent_collective_call_counts_iterations(first: int, scaling: str):
    """A rarer one may be called less on more ranks, and a few iterations less are convergence."""

    def counts(p: int) -> float:
        return first if p == 2 else 100

    plan: Plan = {
        "app->main->norm->MPI_Allreduce": {"visits": counts},
        "app->main->check->MPI_Barrier": {"visits": lambda p: max(1, 48 // p**2)},
    }

    assert diagnose(plan).scaling == scaling


def test_strong_scaling_is_found_although_every_rank_visits_as_often():
    plan = {"app->main->push": {"visits": lambda p: 100, "time_exclusive": lambda p: 80.0 / p}}

    assert diagnose({}).scaling == "weak"
    assert diagnose(plan).scaling == "strong"


def test_scattered_work_is_neither_weak_nor_strong():
    times = dict(zip(SCALES, (9.0, 3.0, 14.0, 16.0, 2.0, 19.0), strict=True))
    plan = {
        "app->main": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.0},
        "app->main->push": {"visits": lambda p: 1, "time_exclusive": lambda p: times[p] / p},
    }

    diagnosis = diagnose(plan)

    assert diagnosis.scaling == "mixed"
    assert diagnosis.totals.time is not None
    assert diagnosis.totals.speedup is diagnosis.totals.efficiency is None
    assert "scaling efficiency" not in "\n".join(diagnosis_lines(diagnosis))
    assert diagnosis.totals.stops_paying_at is None


def test_strong_scaling_stops_paying_where_the_funnel_costs_what_a_rank_saves():
    """The time 1000 / p + c p is least at p = sqrt(1000 / c)."""
    totals = diagnose(strong_plan(0.001)).totals

    assert totals.stops_paying_at == pytest.approx(1000.0, rel=0.05)
    text = "\n".join(diagnosis_lines(diagnose(strong_plan(0.001))))
    assert "each further rank costs more than it saves" in text


@pytest.mark.parametrize(("seconds", "scaling"), [(0.01, "unknown"), (1.0, "weak")])
def test_the_scaling_of_a_sampled_program_is_that_of_its_samples(seconds: float, scaling: str):
    tool: Plan = {
        "tool": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.5 / p},
        "tool->main->solve": {"time_exclusive": lambda p: seconds},
        "tool->main->write->fopen": calls_of_files(),
    }

    assert diagnose(tool, base={}).scaling == scaling


def test_waiting_in_functions_that_poll_is_no_work_that_tells_the_scaling():
    tool: Plan = {
        "app->main->solve": {"time_exclusive": lambda p: 8.0 / p},
        "app->main->wait": {"time_exclusive": lambda p: 8.0 - 8.0 / p},
        "app->main->wait->MPI_Testany": {"visits": lambda p: 1000 * p},
    }

    assert diagnose(tool, base={}).scaling == "strong"


@pytest.mark.parametrize(
    ("seconds", "arrays", "scaling"),
    [
        (lambda p: 0.01, lambda p: 1e6, "weak"),
        (lambda p: 0.1 / p, lambda p: 1e6, "unknown"),  # samples contradict
        (lambda p: 0.01, lambda p: 1e6 / p + 100, "strong"),
        (lambda p: 1.0, lambda p: 1e6 / p + 100, "strong"),  # and all ranks repeat work
        (lambda p: 1.0, lambda p: 4e6 / p + 4e5, "mixed"),  # and keep a copy of some arrays
        (lambda p: 1.0, lambda p: 4e5 / p + 4e6, "weak"),  # and share a small table
        (lambda p: 0.01, lambda p: 1e3, "unknown"),  # buffers
        (lambda p: 0.01, lambda p: 1e6 / p**0.5, "unknown"),
    ],
)
def test_arrays_tell_the_scaling_of_a_program_with_few_samples(seconds, arrays, scaling) -> None:
    of_mpi = {"visits": lambda p: 1, "bytes_allocated": lambda p: 3e6}
    tool: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": lambda p: 3e6 + arrays(p)},
        "tool->main->MPI_Init": of_mpi,
        "tool->main->solve": {"time_exclusive": seconds},
    }

    assert diagnose(tool, base={}).scaling == scaling


@pytest.mark.parametrize(
    ("seconds", "matrix", "scaling"),
    [
        (lambda p: 0.02, lambda p: 2e4, "weak"),
        (lambda p: 0.0, lambda p: 2e4, "unknown"),  # no sample says that work grows
        (lambda p: 0.0001 * p, lambda p: 2e4, "unknown"),
        (lambda p: 0.02, lambda p: 2e4 / p, "unknown"),  # ranks share a small matrix
        (lambda p: 0.02, lambda p: 4e3 / p, "weak"),
        (lambda p: 0.02, lambda p: 2e4 / p if p != 4 else 3e4, "weak"),  # by chance
    ],
)
def test_constant_buffers_do_not_make_weak_scaling_of_few_samples(seconds, matrix, scaling) -> None:
    """As in hypre, p4est and SuperLU_DIST with small problems of a fixed size."""
    tool: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": lambda p: 5e6 + matrix(p)},
        "tool->main->compress": {"bytes_allocated": lambda p: 5e6},
        "tool->main->assemble": {"time_exclusive": seconds, "bytes_allocated": matrix},
    }

    assert diagnose(tool, base={}, sampling_s=1e-4).scaling == scaling


@pytest.mark.parametrize(
    ("crowded", "arrays", "scaling"),
    [
        (True, lambda p: 4e7 / p, "strong"),
        (True, lambda p: 4e7, "weak"),
        (True, lambda p: 4e5, "mixed"),  # small objects
        (False, lambda p: 4e7, "mixed"),  # times are right
    ],
)
def test_arrays_tell_the_scaling_where_times_on_shared_cores_do_not(crowded, arrays, scaling):
    tool: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": arrays},
        "tool->main->solve": {
            "visits": lambda p: 100,
            "time_exclusive": lambda p: 1 / p**0.5,
        },
    }

    assert diagnose(tool, base={}, crowded=crowded).scaling == scaling


@pytest.mark.parametrize(
    ("arrays", "helper_s", "scaling"),
    [
        (lambda p: 4e7 / p, 0.001, "strong"),
        (lambda p: 4e7, 0.001, "weak"),
        (lambda p: 4e5, 0.001, "unknown"),  # small objects
        (lambda p: 4e7, 1.0, "weak"),
        (lambda p: 2e7 / p + 4e7, 1.0, "mixed"),  # mpi-sppy: scenarios of all, and imported modules
        (lambda p: np.where(np.arange(p), 4e7, 6e7), 1.0, "weak"),  # rank 0 alone has more
        (lambda p: 4e7 / p, 1.0, "mixed"),  # each rank repeats its functions, and shares its data
    ],
)
def test_arrays_tell_the_scaling_of_a_script_without_functions_of_note(arrays, helper_s, scaling):
    script: Plan = {
        "app.py": {
            "visits": lambda p: 1,
            "time_exclusive": lambda p: 2.0,  # with waiting for a core
            "bytes_allocated": arrays,
        },
        "app.py->show": {"visits": lambda p: 5, "time_exclusive": lambda p: helper_s},
    }

    assert diagnose(script, base={}, crowded=True).scaling == scaling


def test_noise_of_shared_cores_does_not_make_weak_scaling_strong() -> None:
    base = {"app": HEALTHY["app"]}

    def scaling(seconds: Vector) -> str:
        plan: Plan = {"app->main->cell": {"visits": lambda p: 6_000, "time_exclusive": seconds}}
        return diagnose(plan, base=base, crowded=True).scaling

    def busy(p: int) -> np.ndarray:
        return np.array([0.6 / p] * (p - 1) + [0.6])  # the more ranks, the luckier the luckiest

    assert scaling(busy) == "mixed"
    assert scaling(lambda p: 0.6) == "weak"
    assert scaling(lambda p: 0.6 / p) == "strong"
