"""Diagnosis: messages to neighbours, and messages to all."""

import math
from collections.abc import Mapping

import numpy as np
import pytest

from insitu.analysis.diagnosis.laws import find_laws
from insitu.analysis.diagnosis.shared_lines import merge_neighbours
from insitu.analysis.diagnosis.statements import NEIGHBOURS, NOT_JUDGED, Statement
from tests.analysis.programs import (
    Plan,
    Vector,
    diagnose,
    on_rank_0,
    only_limit,
)


def test_an_allgather_grows_in_bytes():
    plan = {
        "app->main->balance->MPI_Allgather": {
            "visits": lambda p: 20,
            "bytes_sent": lambda p: 40_960,
            "bytes_received": lambda p: 40_960 * p,
        },
    }

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.name, limit.law) == ("bytes", "balance", "41 kB * p")


def test_messages_to_every_rank_are_told_from_neighbours_by_six_scales():
    plan = {"app->main->swap->MPI_Isend": {"messages_sent": lambda p: 2000 * (p - 1)}}

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.law, limit.ranks) == ("messages", "2,000 (p - 1)", "all")


@pytest.mark.parametrize(
    ("partners", "status"),
    [
        (lambda p: p, "limit"),  # a graph in which each rank has an edge to all, itself included
        (lambda p: min(p - 1, 2), None),  # a ring
    ],
)
def test_neighbours_of_a_graph_get_a_message_each_however_empty(
    partners: Vector, status: str | None
) -> None:
    plan: Plan = {
        "app->main->halo->MPI_Neighbor_alltoallv": {
            "visits": lambda p: 10_000,
            "partners": partners,
            "bytes_sent": lambda p: 16_000,
        }
    }

    statements = diagnose(plan, crowded=True).statements

    found = [(entry.kind, entry.status, entry.name, entry.law) for entry in statements]
    assert found == ([("messages", status, "halo", "10,000 p")] if status else [])


def test_26_neighbours_of_a_block_look_like_p_minus_1_and_are_not_judged():
    plan = {"app->main->halo->MPI_Isend": {"messages_sent": lambda p: 2000 * (p - 1)}}

    diagnosis = diagnose(plan, (1, 2, 4, 8))

    assert diagnosis.limits == ()
    unjudged = next(entry for entry in diagnosis.not_judged if entry.name == "halo")
    assert unjudged.run == "p = 32"
    assert diagnosis.next_run == "p = 32"


@pytest.mark.parametrize(("of_further", "is_named"), [(0.0, True), (8.0, False)])
@pytest.mark.parametrize("scales", [(1, 2, 4, 8), (1, 2, 3, 4, 6)])
def test_messages_to_all_ranks_most_of_them_empty_are_none_to_neighbours(
    scales, of_further, is_named
):
    """HPCCG with its exchange as a loop over all ranks; a neighbour at a corner is sent a value."""

    def in_bytes(p: int) -> float:
        return 2048.0 * min(p - 1, 2) + of_further * p

    exchange = {
        "visits": lambda p: 150 * p,
        "messages_sent": lambda p: 150 * p,
        "bytes_sent": lambda p: 150 * in_bytes(p),
        "partners": lambda p: p,
    }

    limits = diagnose({"app->main->offset->MPI_Send": exchange}, scales).limits

    assert ("offset" in {entry.name for entry in limits}) == is_named


def test_as_many_bytes_by_chance_are_no_empty_messages():
    """A few particles move to neighbours; on the busiest of four and of six ranks there are ten."""
    moved = {1: [0], 2: [8, 7], 4: [10, 4, 6, 5], 6: [3, 10, 7, 5, 5, 4]}
    exchange = {
        "messages_sent": lambda p: 20 * (p - 1),
        "bytes_sent": lambda p: 960.0 * np.array(moved[p]),
    }

    assert diagnose({"app->main->move->MPI_Isend": exchange}, tuple(moved)).limits == ()


def test_messages_that_grow_with_p_are_no_neighbours_although_there_are_as_many_as_before():
    # A halo exchange that sends whole rows of the global array.
    plan: Plan = {
        "app->main->swap->MPI_Sendrecv": {
            "messages_sent": lambda p: 1200,
            "messages_received": lambda p: 1200,
            "bytes_sent": lambda p: 1200 * 1600 * p,
            "bytes_received": lambda p: 1200 * 1600 * p,
        }
    }

    limit = only_limit(diagnose(plan, (1, 2, 4, 8)))

    assert (limit.kind, limit.name, limit.law) == ("bytes", "swap", "1.92 MB * p")


def test_bytes_that_grow_with_the_number_of_messages_may_be_those_of_neighbours():
    plan: Plan = {
        "app->main->swap->MPI_Isend": {
            "messages_sent": lambda p: 2000 * (p - 1),
            "bytes_sent": lambda p: 16_000_000 * (p - 1),
        }
    }

    diagnosis = diagnose(plan, (1, 2, 4, 8))

    assert diagnosis.statements == ()


def test_a_loop_over_all_pairs_of_ranks_is_told_on_four_scales_with_its_doubt():
    plan: Plan = {
        "app->main->build": {"visits": lambda p: 1, "time_exclusive": lambda p: 1e-6},
        "app->main->build->touches": {
            "visits": lambda p: p * (p - 1),
            "time_exclusive": lambda p: 1e-6 * p * (p - 1),
        },
    }

    (statement,) = diagnose(plan, (1, 2, 4, 8)).statements

    assert (statement.kind, statement.status, statement.name) == ("compute", "unclear", "build")
    assert statement.law == "p^2 - p"
    assert "unless these are pairs of neighbours in a grid" in statement.text


def test_the_cost_of_messages_names_the_functions_whose_time_is_a_part_of_it():
    plan: Plan = {
        "app->main->sort->MPI_Gather": {
            "visits": lambda p: 10,
            "bytes_sent": lambda p: 26_000,
            "bytes_received": lambda p: on_rank_0(26_000 * p, p),
            "comm_ranks": lambda p: 10 * p,
        },
        "app->main->sort": {"visits": lambda p: 10, "time_exclusive": lambda p: 1e-6},
        "app->main->sort->weight": {
            "visits": lambda p: on_rank_0(2_000 * p, p),
            "time_exclusive": lambda p: on_rank_0(1e-3 * p, p),
        },
    }

    limit = only_limit(diagnose(plan))

    # 1.7 GB take 1.7 s; the rest of the time is that of weight.
    assert "1.7 GB, 67.2 s with the visits of weight at p = 65,536" in limit.text


def test_messages_of_a_wrapper_are_added_up_over_its_callers():
    def plan(shares: Mapping[str, int]) -> Plan:
        return {
            f"app->main->{caller}->gather_all->MPI_Allgather": {
                "visits": lambda p, share=share: share,
                "bytes_sent": lambda p, share=share: 8_000 * share,
                "bytes_received": lambda p, share=share: 8_000 * share * p,
                "comm_ranks": lambda p, share=share: share * p,
            }
            for caller, share in shares.items()
        }

    whole = only_limit(diagnose(plan({"step": 10})))
    divided = only_limit(diagnose(plan({"step": 5, "check": 3, "write": 2})))

    assert divided.law == whole.law
    assert divided.then == pytest.approx(whole.then)
    assert divided.seconds == pytest.approx(whole.seconds)
    assert divided.callpath == "app->main->step->gather_all"
    assert "in 3 call paths" in divided.text
    assert "call paths" not in whole.text


def test_calls_in_the_rows_and_columns_of_a_grid_follow_its_sides() -> None:
    """As transposes in transforms of pencils; on these numbers of ranks it is ceil(log2(p)) + 2."""
    scales = (1, 2, 3, 4, 6)
    sides = {1: 2, 2: 3, 3: 4, 4: 4, 6: 5, 512: 16 + 32, 1009: 2 * math.sqrt(1009)}

    laws = find_laws(np.array(scales, dtype=float), np.array([123.0 * sides[p] for p in scales]))

    assert [law.text("1") for law in laws] == ["123 (rows + columns)"]
    for p in (512, 1009):
        assert laws[0].at(p) == pytest.approx(123 * sides[p])
    with_offset = np.array([20.0 + 5 * sides[p] for p in scales])
    both = find_laws(np.array(scales, dtype=float), with_offset)
    assert {law.text("1") for law in both} == {
        "5 ceil(log2(p)) + 30",
        "5 (rows + columns) + 20",
    }
    even = np.array([2.0, 4.0, 6.0, 8.0])
    assert {law.term.order for law in find_laws(even, 6 * even + 105) if law.term} == {"p"}


def test_exchanges_in_rows_and_columns_cost_the_messages_that_they_send() -> None:
    """Not those that they would send to all ranks."""
    sides = {1: 2, 2: 3, 3: 4, 4: 4, 6: 5, 8: 6}
    plan: Plan = {
        "app->main->transpose->MPI_Alltoallw": {
            "visits": lambda p: 20_000,
            "comm_ranks": lambda p: 10_000 * sides[p],
        }
    }

    diagnosis = diagnose(plan, tuple(sides), target={"p": 1024.0})

    found = only_limit(diagnosis)
    assert found.law == "10,000 (rows + columns)"
    assert found.seconds == pytest.approx(10_000 * (64 - 2) * 1.5e-6)


def test_objects_that_go_by_two_collectives_are_one_cause():
    plan = {
        "app->main->collect": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.001},
        "app->main->collect->MPI_Gather": {
            "visits": lambda p: 20,
            "bytes_received": lambda p: on_rank_0(160_000 * p, p),
        },
        "app->main->collect->MPI_Gatherv": {
            "visits": lambda p: 20,
            "bytes_received": lambda p: on_rank_0(1_600_000 * p, p),
        },
    }

    limit = only_limit(diagnose(plan))

    assert limit.law == "1.6 MB * p"
    assert len(limit.also) == 1


def test_tasks_that_ranks_share_as_they_have_time_are_no_growing_messages():
    def received(p: int) -> np.ndarray:
        more = {3: 1, 4: 2, 6: 2, 8: 4, 12: 7}[p]
        tasks = np.full(p, 8.0 - more / (p - 2))
        tasks[0], tasks[1] = 0, 8 + more
        return tasks

    plan = {"app->main->serve->MPI_Recv": {"visits": received, "messages_received": received}}

    diagnosis = diagnose(plan, (3, 4, 6, 8, 12))

    assert "serve" not in {entry.name for entry in (*diagnosis.statements, *diagnosis.not_judged)}


@pytest.mark.parametrize("scales", [(1, 2, 4, 8), (2, 4, 6, 8, 12)])
@pytest.mark.parametrize(
    ("partners", "is_limit"),
    [
        (lambda p: 100 * np.arange(p), True),  # all ranks before this one
        (lambda p: 100 * np.arange(p)[::-1], True),
        (lambda p: 100 * np.minimum(np.arange(p), 2), False),  # two of them
    ],
)
def test_ranks_that_read_from_all_before_them_have_no_neighbours(scales, partners, is_limit):
    receive = {"visits": partners, "messages_received": partners}
    diagnosis = diagnose({"app->main->offset->MPI_Recv": receive}, scales)

    assert ("offset" in {entry.name for entry in diagnosis.limits}) == is_limit


def test_receives_posted_for_all_ranks_are_named_although_no_message_arrives() -> None:
    def expecting(name: str, of_timing: int = 0) -> Plan:
        return {
            f"app->main->expect->{name}": {
                "visits": lambda p: 30 * p + of_timing * (np.arange(p) % 2),
                "time_exclusive": lambda p: 30 * p * 1e-6,
            }
        }

    limit = only_limit(diagnose(expecting("MPI_Irecv")))

    assert (limit.kind, limit.callpath, limit.exact) == ("messages", "app->main->expect", True)
    assert "calls MPI_Irecv 30 p times" in limit.text
    assert not diagnose(expecting("MPI_Iprobe", of_timing=1)).statements


def test_functions_whose_messages_neighbours_may_explain_share_a_line() -> None:
    neighbours = {1: 0, 2: 10, 4: 35}
    plan: Plan = {
        f"app->main->{name}->MPI_Isend": {"messages_sent": lambda p: neighbours[p]}
        for name in ("pack", "halo", "edges", "faces")
    }

    found = diagnose(plan, scales=(1, 2, 4))

    texts = [entry.text for entry in found.not_judged if entry.kind == "messages"]
    assert len(texts) == 2
    assert "neighbours in a grid look alike on so few ranks: run p = 8" in texts[0]
    assert texts[1].startswith("growing messages of ")
    assert texts[1].endswith(", for the same reason")


def test_visits_of_functions_that_neighbours_may_explain_are_no_messages() -> None:
    statements = []
    for kind, names in (("compute", "abc"), ("messages", "def"), ("files", "ghi")):
        for name in names:
            text = f"{kind} of {name}; {NEIGHBOURS}: run p = 8"
            path, also = f"main->{name}", (f"bytes of {name}",)
            statements.append(Statement(kind, NOT_JUDGED, text, callpath=path, also=also))

    merged = merge_neighbours(statements)
    texts = [entry.text for entry in merged]

    b, c = statements[1:3]
    assert merged[1].also == (b.text, "bytes of b", c.text, "bytes of c")

    assert texts == [
        f"compute of a; {NEIGHBOURS}: run p = 8",
        "growing visits of b, c, for the same reason",
        f"messages of d; {NEIGHBOURS}: run p = 8",
        "growing messages of e, f, for the same reason",
        f"files of g; {NEIGHBOURS}: run p = 8",
        "growth of h, i, for the same reason",
    ]
