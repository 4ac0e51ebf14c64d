"""Diagnosis of data that each rank receives whole, while its share of the data shrinks."""

import pytest

from tests.analysis.programs import HEALTHY, Plan, Vector, diagnose, on_rank_0

VECTOR = 960_000  # bytes, shared among the ranks
STEPS = 40


def solver(received: float, *, is_shared: bool = True, work_s: float = 0.01) -> Plan:
    """A product with a matrix in each step, for which each rank receives so many bytes."""
    return {
        **{path: its for path, its in HEALTHY.items() if "push" not in path},
        "app": {"visits": lambda p: 1, "time": lambda p: 10.0, "time_exclusive": lambda p: 0},
        "app->main->multiply": {
            "visits": lambda p: STEPS,
            "time_exclusive": lambda p: work_s,
            "allocations": lambda p: STEPS,
            "bytes_allocated": lambda p: STEPS * VECTOR / (p if is_shared else 1),
        },
        "app->main->multiply->MPI_Allgather": {
            "visits": lambda p: STEPS,
            "bytes_sent": lambda p: STEPS * received / p,
            "bytes_received": lambda p: STEPS * received,
        },
        "app->main": {"visits": lambda p: 1, "time": lambda p: 9.0, "time_exclusive": lambda p: 0},
    }


def test_a_vector_that_each_rank_receives_whole_is_a_warning() -> None:
    (statement,) = diagnose({}, crowded=True, base=solver(VECTOR)).statements

    assert (statement.kind, statement.status, statement.name) == ("bytes", "warning", "multiply")
    assert statement.seconds == pytest.approx(STEPS * (VECTOR / 1e9 + 1.5e-6))
    assert statement.severity == pytest.approx(0.0385 / (0.0385 + 0.01), rel=0.01)
    assert "receives 960 kB in each MPI_Allgather at every p, but holds 80 kB" in statement.text


@pytest.mark.parametrize(
    "base",
    [
        solver(VECTOR, is_shared=False),  # weak scaling
        solver(70_000),  # less than the share of each rank, as what neighbours exchange
        solver(VECTOR, work_s=1.0),  # hardly any time
    ],
)
def test_data_that_is_no_larger_part_than_that_of_neighbours_is_fine(base: Plan) -> None:
    assert not diagnose({}, crowded=True, base=base).statements


def tally(received: float, call: str = "MPI_Allreduce", *, script_s: float = 0.0) -> Plan:
    """Histories that are shared, and so many bytes that each rank receives after each batch."""
    return {
        "app": {"visits": lambda p: 1, "time": lambda p: 3, "time_exclusive": lambda p: script_s},
        "app->main->transport": {"visits": lambda p: 960 / p, "time_exclusive": lambda p: 1.2 / p},
        f"app->main->add_tallies->{call}": {
            "visits": lambda p: 20,
            "bytes_sent": lambda p: 20 * received,
            "bytes_received": lambda p: 20 * received,
        },
        "app->main": {
            "visits": lambda p: 1,
            "time": lambda p: 2.0 / p,
            "time_exclusive": lambda p: 0,
        },
    }


@pytest.mark.parametrize(
    ("base", "is_named"),
    [
        (tally(1.2e6), True),
        (tally(800.0), False),  # some sums, whose bytes take no time
        (tally(1.2e6, "MPI_Recv"), False),  # of neighbours, perhaps
        (tally(1.2e6, script_s=1.0), False),  # the script works outside of functions
    ],
)
def test_a_reduction_of_the_whole_mesh_is_not_shared_in_strong_scaling(
    base: Plan, is_named: bool
) -> None:
    """tally.f90 of tests/evaluation, which allocates no share of its data in functions."""
    found = diagnose({}, base=base)

    assert found.scaling == "strong"
    named = [entry for entry in found.statements if entry.name == "add_tallies"]
    assert [(entry.kind, entry.status) for entry in named] == [("bytes", "warning")] * is_named
    assert all(
        entry.text
        == "each rank receives 1.2 MB in each MPI_Allreduce at every p: 24.0 ms that more"
        " ranks do not save; its own work takes 100 ms at p = 12"
        for entry in named
    )


@pytest.mark.parametrize(
    ("sent", "received", "is_named"),
    [
        (lambda p: 17.7e6 / p, lambda p: 17.7e6, True),
        (lambda p: 1.5e6, lambda p: 1.5e6 * p, False),  # weak scaling, which has a law
        (lambda p: 1.7e3 / p, lambda p: 1.7e3, False),  # takes no time
    ],
)
def test_data_of_all_ranks_that_one_receives_are_a_warning_if_they_do_not_grow(
    sent: Vector, received: Vector, is_named: bool
) -> None:
    """monitor.f90 of tests/evaluation: rank 0 gathers a field whose size does not depend on p."""
    plan: Plan = {
        "app->main->advance": {"visits": lambda p: 40, "time_exclusive": lambda p: 0.4 / p},
        "app->main->collect->MPI_Gather": {
            "visits": lambda p: 40,
            "bytes_sent": sent,
            "bytes_received": lambda p: on_rank_0(received(p), p),
        },
    }
    found = diagnose(plan, crowded=True, base={}).statements

    named = [(its.kind, its.status, its.name) for its in found if its.status == "warning"]
    assert named == [("serial", "warning", "collect")] * is_named
    for its in found if is_named else ():
        assert its.text.startswith(
            "rank 0 receives 442 kB, the data of all ranks, in each MPI_Gather at every p: 17.8 ms"
        )
