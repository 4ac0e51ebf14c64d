"""Diagnosis: messages that pass from rank to rank."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.analysis.programs import (
    HEALTHY,
    Plan,
    Vector,
    chain,
    diagnose,
    only_limit,
    sweep_plan,
)


def test_a_chain_by_the_numbers_of_messages_has_as_many_as_ranks_that_send():
    plan: Plan = {
        "app->main->spread->MPI_Recv": {"messages_received": lambda p: chain(p)[0]},
        "app->main->spread->MPI_Send": {
            "messages_sent": lambda p: chain(p)[1],
            "bytes_sent": lambda p: np.array(chain(p)[1]) * 1e6,
        },
    }

    (statement,) = diagnose(plan).statements

    assert statement.text.startswith("last rank waits for p - 1 messages one after the other")
    assert statement.then == 65_535


def test_messages_passed_from_rank_to_rank_are_a_chain() -> None:
    plan: Plan = {
        "app->main->spread": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.01},
        "app->main->spread->MPI_Recv": {"messages_received": lambda p: chain(p)[0]},
        "app->main->spread->MPI_Send": {
            "messages_sent": lambda p: chain(p)[1],
            "bytes_sent": lambda p: np.array(chain(p)[1]) * 1e6,
        },
    }
    shifted = {path.replace("Send", "Isend"): values for path, values in plan.items()}

    (statement,) = diagnose(plan).statements
    others = diagnose(shifted).statements

    assert (statement.kind, statement.status, statement.ranks) == ("serial", "unclear", "last rank")
    assert statement.seconds == pytest.approx(65_535 * 1e-3, rel=0.01)
    assert ", at least 65.6 s at p = 65,536" in statement.text
    assert not others


def test_chains_are_told_from_sweeps_through_a_grid_on_one_two_four_and_eight_ranks() -> None:
    grids: dict[int, tuple[list[int], list[int]]] = {
        **{p: chain(p) for p in (1, 2, 4)},  # of 2 x 2 ranks, each inner one has two neighbours
        8: ([0, 20, 20, 20, 20, 40, 40, 40], [40, 40, 40, 20, 20, 20, 20, 0]),  # of 4 x 2
    }

    def counted(counts: Callable[[int], tuple[list[int], list[int]]]) -> Plan:
        return {
            "app->main->spread": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.01},
            "app->main->spread->MPI_Recv": {"messages_received": lambda p: counts(p)[0]},
            "app->main->spread->MPI_Send": {
                "messages_sent": lambda p: counts(p)[1],
                "bytes_sent": lambda p: np.array(counts(p)[1]) * 1e6,
            },
        }

    (statement,) = diagnose(counted(chain), (1, 2, 4, 8)).statements
    of_grid = diagnose(counted(grids.__getitem__), (1, 2, 4, 8)).statements
    on_six = diagnose(counted(chain), (1, 2, 4, 6)).statements

    assert (statement.kind, statement.name) == ("serial", "spread")
    assert of_grid == on_six == ()


def test_a_chain_there_and_back_is_told_from_an_exchange_by_its_length() -> None:
    plan = dict(sweep_plan("MPI_Send"))
    calls = plan["app->main->sweep->MPI_Recv"]
    chained = {**plan, "app->main->sweep->MPI_Recv": {**calls, "message_chain": lambda p: 40 * p}}
    healthy = {**plan, "app->main->sweep->MPI_Recv": {**calls, "message_chain": lambda p: 40}}

    (statement,) = diagnose(chained, crowded=True).statements
    others = diagnose(healthy, crowded=True).statements

    assert (statement.kind, statement.status, statement.ranks) == ("serial", "limit", "all")
    assert (statement.metric, statement.exact) == ("message_chain", True)
    assert statement.seconds == pytest.approx(65_536 * 40 * 1.5e-6, rel=0.01)
    assert ", at least 3.93 s at p = 65,536" in statement.text
    assert not others


@pytest.mark.parametrize(
    ("queued_s", "crowded", "between_s"),
    [
        (0.0, False, 0.01),
        (0.0, True, 0.0),  # not known how long ranks waited for cores
        (2.5, True, 0.0075),  # of 10 s
    ],
)
def test_the_work_between_the_messages_of_a_chain_adds_to_its_cost_without_waiting_for_cores(
    queued_s: float, crowded: bool, between_s: float
) -> None:
    plan = dict(sweep_plan("MPI_Send"))
    plan["app->main->sweep->MPI_Recv"] |= {
        "message_chain": lambda p: 40 * p,
        "message_chain_time": lambda p: 40 * p * (0.01 if p > 2 else 1.0),  # two ranks are no chain
    }
    base = {**HEALTHY, "app": {**HEALTHY["app"], "processor_wait": lambda p: queued_s}}

    found = diagnose(plan, crowded=crowded, base=base)

    (statement,) = [entry for entry in found.statements if entry.metric == "message_chain"]
    assert statement.seconds == pytest.approx(65_536 * 40 * (1.5e-6 + between_s), rel=0.01)
    assert ("each sent at least" in statement.text) == bool(between_s)


@pytest.mark.parametrize(("visits", "budget_s"), [(1, 1.0), (40, 0.5)])
def test_a_chain_in_a_function_that_runs_once_may_take_longer(visits, budget_s):
    """At least 1 s, or 5 % of the run time of 10 s in a function that runs again and again."""
    plan = dict(sweep_plan("MPI_Send"))
    plan["app->main->sweep"] = {"visits": lambda p: visits, "time_exclusive": lambda p: 0.01}
    plan["app->main->sweep->MPI_Recv"] |= {"message_chain": lambda p: 40 * p}

    (statement,) = diagnose(plan).statements

    assert statement.severity == pytest.approx(statement.seconds / budget_s, rel=1e-9)


@pytest.mark.parametrize(
    "call", ["MPI_File_write_ordered", "PMPI_File_write_ordered", "MPI_File_write_at_all"]
)
def test_ranks_that_write_in_the_order_of_their_numbers_wait_for_one_another(call: str) -> None:
    plan: Plan = {f"app->main->write_lines->{call}": {"visits": lambda p: 200}}

    statements = diagnose(plan, crowded=True).statements

    found = [(entry.kind, entry.status, entry.name, entry.law) for entry in statements]
    is_ordered = call.endswith("ordered")
    assert found == ([("serial", "unclear", "write_lines", "200 (p - 1)")] if is_ordered else [])


def test_the_length_of_a_pipeline_over_many_blocks_counts_at_the_target() -> None:
    """60 blocks: a chain of 11 more messages on 12 ranks, and of 65,535 more at the target."""
    plan: Plan = {
        "app->main->pipeline->MPI_Recv": {
            "messages_received": lambda p: 60 * (np.arange(p) > 0),
            "bytes_received": lambda p: 480 * (np.arange(p) > 0),
            "message_chain": lambda p: p + 58,
            "message_chain_time": lambda p: (p + 58) * 1e-3,
        },
        "app->main->pipeline->MPI_Send": {"messages_sent": lambda p: 60 * (np.arange(p) < p - 1)},
    }

    near = diagnose(plan, target={"p": 50.0}).statements
    (far,) = diagnose(plan).statements

    assert near == ()
    assert (far.kind, far.status, far.law) == ("serial", "limit", "p + 58")
    assert far.seconds == pytest.approx((65_536 + 58) * (1e-3 + 1.5e-6), rel=0.01)


def test_the_work_between_the_messages_of_a_chain_shrinks_with_a_problem_of_fixed_size() -> None:
    plan: Plan = {
        **{path: its for path, its in HEALTHY.items() if "push" not in path},
        "app->main->push": {"visits": lambda p: 1000 / p, "time_exclusive": lambda p: 8.0 / p},
        "app->main": {"visits": lambda p: 1, "time": lambda p: 9.0, "time_exclusive": lambda p: 0},
        **sweep_plan("MPI_Send"),
        "app->main->sweep": {"visits": lambda p: 40 / p, "time_exclusive": lambda p: 0.01 / p},
    }
    plan["app->main->sweep->MPI_Recv"] |= {
        "message_chain": lambda p: 40 * p,
        "message_chain_time": lambda p: 40 * p * 0.12 / p,
    }

    found = diagnose({}, base=plan)

    (statement,) = [entry for entry in found.statements if entry.metric == "message_chain"]
    assert found.scaling == "strong"
    assert statement.seconds == pytest.approx(40 * (0.12 + 65_536 * 1.5e-6), rel=0.01)
    assert "each sent at least 10 ms after" in statement.text  # on 12 ranks


@pytest.mark.parametrize("length", [20, 0])
def test_objects_passed_around_a_ring_are_a_chain_that_the_matched_probe_measures(
    length: int,
) -> None:
    plan: Plan = {
        "app->main->ring": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.01},
        "app->main->ring->MPI_Mprobe": {"message_chain": lambda p: length * p or 20},
        "app->main->ring->MPI_Mrecv": {
            "messages_received": lambda p: 20,
            "bytes_received": lambda p: 100,
        },
        "app->main->ring->MPI_Send": {"messages_sent": lambda p: 20, "bytes_sent": lambda p: 100},
    }

    statements = diagnose(plan, crowded=True).statements

    found = [(entry.kind, entry.status, entry.metric, entry.law) for entry in statements]
    assert found == ([("serial", "limit", "message_chain", "20 p")] if length else [])


def test_a_token_in_iterations_that_converge_later_on_more_ranks_is_a_chain_of_p_minus_1() -> None:
    """SNAP with a token before each sweep: fewer on up to 6 ranks than on 8 and 12."""

    def passes(p: int) -> int:
        return 1800 if p < 8 else 1900

    plan: Plan = {
        "app->main->inner->MPI_Recv": {
            "visits": passes,
            "messages_received": lambda p: np.where(np.arange(p) > 0, passes(p), 0),
            "message_chain": lambda p: passes(p) * (p - 1),
        },
        "app->main->inner->MPI_Send": {
            "visits": passes,
            "messages_sent": lambda p: np.where(np.arange(p) < p - 1, passes(p), 0),
        },
    }

    found = diagnose(plan, (1, 2, 3, 4, 6, 8, 12), crowded=True, target={"p": 1024}).statements

    (statement,) = [entry for entry in found if entry.metric == "message_chain"]
    assert (statement.status, statement.law) == ("unclear", "1,900 (p - 1)")
    assert statement.text.startswith("each rank waits for 1,900 (p - 1) messages, each sent after")
    assert "if passes are as many as at p = 12" in statement.text


def test_the_axes_of_a_grid_make_no_growing_chain() -> None:
    axes = {2: 1, 4: 2, 8: 3, 16: 3}
    plan: Plan = {
        "app->main->halo->MPI_Sendrecv": {
            "messages_received": lambda p: 20 * axes[p],
            "messages_sent": lambda p: 20 * axes[p],
            "message_chain": lambda p: 40 * axes[p],
        }
    }

    assert not [
        entry
        for entry in diagnose(plan, scales=(2, 4, 8, 16)).statements
        if entry.metric == "message_chain"
    ]


def test_the_chain_of_tasks_that_one_rank_hands_out_is_no_cause_of_its_own() -> None:
    def received(p: int) -> np.ndarray:
        more = {2: 0, 3: 1, 4: 2, 6: 2, 8: 4, 12: 7}[p]
        tasks = np.full(p, 31.0 - more / max(p - 2, 1))
        tasks[0], tasks[1] = 0, 31 + more
        return tasks

    chain = {2: 60, 3: 61, 4: 70, 6: 96, 8: 141, 12: 203}
    plan: Plan = {
        "app->main->work->MPI_Recv": {
            "messages_received": received,
            "visits": received,
            "message_chain": lambda p: chain[p],
        }
    }

    assert not diagnose(plan, crowded=True).statements


def test_messages_around_a_ring_are_certain_since_their_partners_stay_the_same() -> None:
    def passing(partners: Callable[[int], int]) -> Plan:
        values: dict[str, Vector] = {
            "visits": lambda p: 10 * (p - 1),
            "messages_sent": lambda p: 10 * (p - 1),
            "messages_received": lambda p: 10 * (p - 1),
            "partners": partners,
        }
        return {"app->main->pass_around->MPI_Sendrecv": values}

    scales = (2, 3, 4, 5, 6, 8)
    ring = diagnose(passing(lambda p: min(p - 1, 2)), scales=scales)
    all_to_all = diagnose(passing(lambda p: p - 1), scales=scales)

    assert only_limit(ring).kind == "messages"
    assert not all_to_all.limits
