"""Diagnosis: a few ranks serve all others, as many on all numbers of ranks."""

import numpy as np
import pytest

from tests.analysis.programs import (
    SCALES,
    Plan,
    diagnose,
    on_rank_0,
    only_limit,
)


def output(group_of):
    """Every rank sends 20 blocks of 1 MB to the first rank of its group."""

    def leaders(p):
        ranks = np.arange(p)
        groups = group_of(ranks, p)
        return np.array([int(np.argmax(groups == group)) for group in groups])

    def clients(p):
        return (leaders(p) != np.arange(p)).astype(float)

    def served(p):
        return np.bincount(leaders(p), weights=clients(p), minlength=p)

    return {
        "app->main->collect->MPI_Send": {
            "visits": lambda p: 20 * clients(p),
            "messages_sent": lambda p: 20 * clients(p),
            "bytes_sent": lambda p: 2e7 * clients(p),
            "only_partner": lambda p: np.where(clients(p) > 0, leaders(p), np.nan),
        },
        "app->main->collect->MPI_Barrier": {"visits": lambda p: 1},
        "app->main->store->MPI_Recv": {
            "visits": lambda p: 20 * served(p),
            "messages_received": lambda p: 20 * served(p),
            "bytes_received": lambda p: 2e7 * served(p),
        },
    }


def halves(ranks, p):
    return ranks // ((p + 1) // 2)


@pytest.mark.parametrize(
    ("scales", "status"),
    [(SCALES, "limit"), ((1, 2, 4, 8, 16), "limit"), ((1, 2, 4, 8), "unclear")],
)
def test_two_ranks_that_serve_all_others_are_named(scales, status):
    (statement,) = diagnose(output(halves), scales, crowded=True).statements

    assert (statement.kind, statement.status, statement.name) == ("serial", status, "store")
    assert statement.unit == "1"
    assert "as one of 2 that serve all others receives 10 p - 20 messages" in statement.text
    assert ("if there are never more than 2 of them" in statement.text) == (status == "unclear")


def test_a_server_for_every_four_ranks_is_none():
    assert diagnose(output(lambda ranks, p: ranks // 4), crowded=True).statements == ()


def test_pairs_of_ranks_are_none():
    assert diagnose(output(lambda ranks, p: ranks // 2), crowded=True).statements == ()


def test_a_rank_that_serves_the_leaders_of_all_groups_is_named():
    # Leaders of four ranks each send to rank 0, which is the leader of a group, too.
    def target(p):
        ranks = np.arange(p)
        leaders = ranks - ranks % 4
        return np.where(ranks == 0, np.nan, np.where(ranks == leaders, 0, leaders))

    def sends(p):
        return 100.0 * np.isfinite(target(p))

    def receives(p):
        return 100.0 * np.bincount(target(p)[1:].astype(int), minlength=p)

    plan = {
        "app->main->add->MPI_Send": {
            "visits": sends,
            "messages_sent": sends,
            "only_partner": target,
        },
        "app->main->add->MPI_Recv": {"visits": receives, "messages_received": receives},
    }

    (limit,) = diagnose(plan, (2, 4, 8, 12, 16), crowded=True).limits

    assert (limit.kind, limit.name, limit.law) == ("serial", "add", "25 p + 200")
    assert limit.points == "4 of 5 points"


def test_collective_calls_of_a_file_are_no_neighbours():
    plan = {"app->main->write_rows->MPI_File_write_at_all": {"visits": lambda p: 192 * p}}

    (statement,) = diagnose(plan, (1, 2, 4, 8), crowded=True).statements

    assert (statement.status, statement.name, statement.law) == ("limit", "write_rows", "192 p")


def send_across(partners_of):
    """The first half of the ranks sends 100 messages to each of its partners, in the other half."""

    def partners(p):
        return np.where(np.arange(p) < p // 2, partners_of(p), 0.0)

    return {
        "app->main->send_fluxes->MPI_Send": {
            "visits": lambda p: 100 * partners(p),
            "messages_sent": lambda p: 100 * partners(p),
            "partners": partners,
        }
    }


@pytest.mark.parametrize(
    ("scales", "law"), [((2, 4, 6, 8, 12), "50 p"), ((2, 3, 4, 6, 8, 12), "100 floor(p/2)")]
)
def test_each_rank_of_a_model_that_sends_to_all_of_another_is_named(scales, law):
    plan = send_across(lambda p: p // 2)

    (limit,) = diagnose(plan, scales, crowded=True).limits

    assert (limit.kind, limit.name, limit.law) == ("messages", "send_fluxes", law)


@pytest.mark.parametrize("law", ["floor(p/2)", "p log2(p)"])
def test_work_of_one_rank_that_grows_with_pairs_or_a_sort_is_an_imbalance(law):
    def visits(p):
        work = np.full(p, 100.0)
        work[p // 2] += 5000 * (p // 2 if law == "floor(p/2)" else p * np.log2(p))
        return work

    plan = {
        "app->main->regrid": {"visits": lambda p: 1, "time_exclusive": lambda p: 1e-6},
        "app->main->regrid->cell": {
            "visits": visits,
            "time_exclusive": lambda p: 1e-7 * visits(p),
        },
    }

    (limit,) = diagnose(plan, SCALES, crowded=True).limits

    assert (limit.kind, limit.name) == ("imbalance", "regrid")
    assert law in limit.text


@pytest.mark.parametrize("scales", [(2, 4, 6, 8), (2, 4, 6, 8, 10)])
def test_few_ranks_of_another_model_may_be_neighbours(scales):
    plan = send_across(lambda p: min(p // 2, 4))

    assert diagnose(plan, scales, crowded=True).statements == ()


def table_in_shards(servers_of):
    """Each rank sends 40 messages to each of the ranks that keep a table."""

    def received(p):
        return np.where(np.arange(p) < servers_of(p), 40.0 * p, 0.0)

    return {
        "app->main->update->MPI_Isend": {
            "visits": lambda p: 40 * servers_of(p),
            "messages_sent": lambda p: 40 * servers_of(p),
            "bytes_sent": lambda p: 96_000,
        },
        "app->main->update->serve->MPI_Recv": {
            "visits": received,
            "messages_received": received,
            "bytes_received": lambda p: 2400 * received(p),
        },
    }


@pytest.mark.parametrize(("scales", "status"), [(SCALES, "limit"), ((4, 6, 12), "unclear")])
def test_four_ranks_to_each_of_which_all_others_send_are_named(scales, status):
    """shards.cpp of tests/evaluation."""
    plan = table_in_shards(lambda p: min(4, p))

    (statement,) = diagnose(plan, scales, crowded=True).statements

    assert (statement.kind, statement.status, statement.name) == ("serial", status, "serve")
    assert "as one of 4 that serve all others receives 40 p messages" in statement.text
    assert ("if there are never more than 4 of them" in statement.text) == (status == "unclear")


@pytest.mark.parametrize("servers_of", [lambda p: max(1, p // 2), lambda p: p])
def test_ever_more_ranks_that_receive_are_no_fixed_servers(servers_of):
    diagnosis = diagnose(table_in_shards(servers_of), crowded=True)

    assert not any("serve all others" in entry.text for entry in diagnosis.statements)


def gathered_in_groups(size_of):
    """Each rank sends 8 MB to the root of its group, which exchanges with other roots."""

    def of_roots(p):
        ranks, size = np.arange(p), size_of(p)
        sizes = np.minimum(size, p - ranks)
        return np.where(ranks % size == 0, 8e6 * sizes, 0.0)

    return {
        "app->main->couple->MPI_Gather": {
            "visits": lambda p: 50,
            "bytes_sent": lambda p: 8e6,
            "bytes_received": of_roots,
            "comm_ranks": lambda p: 50 * size_of(p),
        },
        "app->main->couple->MPI_Sendrecv": {
            "visits": lambda p: np.where(of_roots(p) > 0, 50, 0),
            "messages_sent": lambda p: np.where(of_roots(p) > 0, 50, 0),
            "messages_received": lambda p: np.where(of_roots(p) > 0, 50, 0),
            "bytes_sent": of_roots,
            "bytes_received": of_roots,
        },
    }


def test_the_roots_of_two_coupled_models_are_named_by_the_bytes_that_they_move():
    """coupling.py of tests/evaluation."""
    plan = gathered_in_groups(lambda p: p // 2)

    (statement,) = diagnose(plan, (2, 4, 6, 8, 12), crowded=True).statements

    assert (statement.kind, statement.status, statement.name) == ("serial", "limit", "couple")
    assert "as one of 2 that serve all others receives 8 MB * p" in statement.text


def test_owners_of_hashed_keys_are_named_by_their_mean():
    """dht.cpp of tests/evaluation: how many keys each owner has is chance, but not their sum."""

    def received(p):
        shares = np.array([1.01, 1.0, 0.99]) + 0.002 * np.array([p % 5, 0, -(p % 5)])
        return np.concatenate([4e6 * p * shares / 3, np.zeros(p - 3)])

    plan = {
        "app->main->route->MPI_Alltoallv": {
            "visits": lambda p: 25,
            "bytes_sent": lambda p: 4e6,
            "bytes_received": received,
            "comm_ranks": lambda p: 25 * p,
        },
    }

    (statement,) = diagnose(plan, (3, 4, 6, 8, 12), crowded=True).statements

    assert (statement.kind, statement.status, statement.name) == ("serial", "limit", "route")
    assert statement.text.startswith(
        "busiest rank as one of 3 that serve all others receives 1.33 MB * p in the mean"
    )


@pytest.mark.parametrize("size_of", [lambda p: 2, lambda p: int(p**0.5)])
def test_roots_of_ever_more_groups_are_no_fixed_servers(size_of):
    diagnosis = diagnose(gathered_in_groups(size_of), (2, 4, 6, 8, 12), crowded=True)

    assert not any("serve all others" in entry.text for entry in diagnosis.statements)


def test_all_ranks_of_the_smallest_runs_are_no_servers():
    """Three ranks receive from all others on three ranks; on more, all have a few neighbours."""
    neighbours = {
        1: [0],
        3: [2, 2, 2],
        5: [2, 4, 3, 3, 4],
        7: [4, 2, 3, 6, 5, 2, 6],
        9: [5, 3, 5, 7, 4, 6, 2, 8, 2],
    }
    plan = {
        "app->main->adapt->MPI_Recv": {
            "visits": lambda p: 5 * np.array(neighbours[p]),
            "messages_received": lambda p: 5 * np.array(neighbours[p]),
            "bytes_received": lambda p: 4e4 * np.array(neighbours[p]),
        },
    }

    statements = diagnose(plan, tuple(neighbours), crowded=True).statements

    assert [entry for entry in statements if "serve all others" in entry.text] == []


@pytest.mark.parametrize(("scales", "exact"), [((1, 2, 3, 4, 6), False), ((2, 3, 4, 6, 12), True)])
def test_messages_to_all_ranks_are_certain_where_blocks_cannot_all_touch(
    scales: tuple[int, ...], exact: bool
):
    sends = {"messages_sent": lambda p: 5000 * (p - 1), "bytes_sent": lambda p: 8e7 * (p - 1)}
    plan = {"app->main->swap->MPI_Isend": {"visits": lambda p: 5000 * (p - 1), **sends}}

    diagnosis = diagnose(plan, scales)

    of_swap = [entry for entry in diagnosis.all_statements() if entry.name == "swap"]
    assert {entry.status for entry in of_swap} == ({"limit"} if exact else {"not judged"})
    assert all(exact or "neighbours in a grid look alike" in entry.text for entry in of_swap)


def test_a_funnel_into_rank_0_is_serial():
    plan = {
        "app->main->collect->MPI_Recv": {
            "visits": lambda p: on_rank_0(20 * (p - 1), p),
            "messages_received": lambda p: on_rank_0(20 * (p - 1), p),
            "bytes_received": lambda p: on_rank_0(160_000 * (p - 1), p),
        },
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.ranks, limit.law) == ("serial", "rank 0", "20 (p - 1)")
    assert limit.seconds == pytest.approx(20 * 65_535 * 1.5e-6 + 160_000 * 65_535 / 1e9)


@pytest.mark.parametrize("scales", [(2, 4, 8), (1, 2, 4, 8)])
def test_a_funnel_is_found_at_powers_of_two(scales: tuple[int, ...]):
    plan = {
        "app->main->collect->MPI_Recv": {
            "messages_received": lambda p: on_rank_0(2000 * (p - 1), p),
        },
    }

    limit = only_limit(diagnose(plan, scales))

    assert (limit.kind, limit.law) == ("serial", "2,000 (p - 1)")


def test_the_root_of_more_broadcasts_is_no_funnel():
    def iterations(p: int) -> int:
        return 8000 * p

    plan: Plan = {
        "app->main->share": {"visits": lambda p: 8, "time_exclusive": lambda p: 1e-4},
        "app->main->share->MPI_Bcast": {
            "visits": iterations,
            "bytes_sent": lambda p: on_rank_0(8 * iterations(p), p),
            "bytes_received": lambda p: 8 * iterations(p) - on_rank_0(8 * iterations(p), p),
        },
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.ranks) == ("messages", "all")
    assert "calls MPI_Bcast 8,000 p times" in limit.text


def test_blocks_of_a_matrix_that_each_pair_of_ranks_exchanges_are_ever_smaller_messages() -> None:
    """Their sizes fall as 1 / p^2, which no law of a growing count describes."""
    plan: Plan = {
        "app->main->transpose->MPI_Sendrecv": {
            "messages_sent": lambda p: 6 * p,
            "bytes_sent": lambda p: 11_059_200 / p,
        }
    }

    found = diagnose(plan, scales=(1, 2, 4))

    assert not [entry for entry in found.statements if entry.kind == "bytes"]


def test_the_root_of_a_tree_has_two_neighbours_on_four_ranks_and_one_on_two() -> None:
    received = {1: 0, 2: 2, 4: 12, 8: 30}
    others = {1: 0, 2: 2, 4: 6, 8: 6}

    def plan(p: int) -> np.ndarray:
        return np.array([received[p], *[others[p]] * (p - 1)], dtype=float)

    tree: Plan = {"app->main->finish->MPI_Testall": {"messages_received": plan}}

    few = diagnose(tree, scales=(1, 2, 4))
    more = diagnose(tree, scales=(1, 2, 4, 8))

    assert not [entry for entry in few.statements if entry.kind == "serial"]
    (statement,) = [entry for entry in few.not_judged if entry.kind == "serial"]
    assert "neighbours in a grid look alike on so few ranks: run p = 8" in statement.text
    assert {entry.status for entry in more.statements if entry.kind == "serial"} == {"unclear"}


def test_locks_that_may_all_be_of_one_rank_are_not_fine() -> None:
    """Which ranks they lock is not known."""
    paths = ("app->main->ticket->MPI_Win_lock", "app->main->ticket->MPI_Win_unlock")
    plan: Plan = {
        path: {"visits": lambda p: 200, "time_exclusive": lambda p: 1.0} for path in paths
    }

    diagnosis = diagnose(plan)

    assert not diagnosis.limits
    assert "ticket" not in {entry.name for entry in diagnosis.fine}
    (unjudged,) = [entry for entry in diagnosis.not_judged if entry.name == "ticket"]
    assert "it serves 13.1 million calls, at least 19.7 s at p = 65,536" in unjudged.text
    assert (unjudged.kind, unjudged.unit) == ("serial", "1")
    assert not [entry for entry in diagnose(plan, target={"p": 16.0}).not_judged if entry.callpath]


@pytest.mark.parametrize("call", ["MPI_Fetch_and_op", "MPI_Win_lock", "MPI_Get"])
def test_one_sided_calls_that_all_ranks_address_to_one_are_a_limit(call: str) -> None:
    plan: Plan = {
        f"app->main->next_task->{call}": {
            "visits": lambda p: 300,
            "time_exclusive": lambda p: 1.0,
            "only_partner": lambda p: 0,
        }
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.ranks) == ("serial", "next_task", "rank 0")
    assert limit.law == "300 p"
    assert limit.exact
    assert f"rank 0 serves 300 p calls of {call}: 19.7 million of them, 29.5 s" in limit.text


def test_messages_to_two_servers_are_a_limit_of_the_function_that_receives_them() -> None:
    """No rank is alone, and the mean over ranks does not grow."""

    def clients(p: int) -> np.ndarray:
        return np.where(np.arange(p) % (p // 2) == 0, 0.0, 40.0)

    def servers(p: int) -> np.ndarray:
        return np.where(clients(p) == 0, 40.0 * (p // 2 - 1), 0.0)

    def server_of(p: int) -> np.ndarray:
        return np.where(clients(p) > 0, np.arange(p) // (p // 2) * (p // 2), np.nan)

    plan: Plan = {
        "app->main->deliver->MPI_Send": {
            "visits": clients,
            "messages_sent": clients,
            "bytes_sent": lambda p: 16_000 * clients(p),
            "only_partner": server_of,
        },
        "app->main->serve->MPI_Recv": {
            "visits": servers,
            "messages_received": servers,
            "bytes_received": lambda p: 16_000 * servers(p),
        },
    }

    diagnosis = diagnose(plan, (2, 4, 6, 8, 12), crowded=True)

    limit = only_limit(diagnosis)
    assert (limit.kind, limit.name, limit.ranks) == ("serial", "serve", "busiest rank")
    assert limit.exact
    assert "receives 20 p - 40 messages of ranks that send to no other" in limit.text
    assert "serve" not in {entry.name for entry in diagnosis.fine}


def test_the_root_of_a_tree_is_one_cause_if_it_collects_the_blocks_of_all() -> None:
    """It has log2(p) children, which send ever more to their only parent."""

    def parents(p: int) -> np.ndarray:
        return np.array([np.nan, *(rank & (rank - 1) for rank in range(1, p))])

    def received(p: int, values: np.ndarray) -> np.ndarray:
        return np.bincount(parents(p)[1:].astype(int), weights=values[1:], minlength=p)

    def blocks(p: int) -> np.ndarray:
        ranks = np.arange(p)
        return np.minimum(ranks & -ranks, p - ranks) * 480_000.0

    plan: Plan = {
        "app->main->collect->MPI_Send": {
            "visits": lambda p: np.where(np.arange(p) > 0, 60, 0),
            "messages_sent": lambda p: np.where(np.arange(p) > 0, 60, 0),
            "bytes_sent": blocks,
            "only_partner": parents,
        },
        "app->main->collect->MPI_Recv": {
            "visits": lambda p: received(p, np.full(p, 60.0)),
            "messages_received": lambda p: received(p, np.full(p, 60.0)),
            "bytes_received": lambda p: received(p, blocks(p)),
        },
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.law) == ("serial", "collect", "480 kB * (p - 1)")


def test_one_sided_calls_to_the_next_rank_are_fine() -> None:
    plan: Plan = {
        "app->main->next_task->MPI_Fetch_and_op": {
            "visits": lambda p: 300,
            "time_exclusive": lambda p: 1.0,
            "bytes_sent": lambda p: 2400,
            "only_partner": lambda p: (np.arange(p) + 1) % p,
        }
    }

    diagnosis = diagnose(plan)

    assert not diagnosis.statements
    assert "next_task" in {entry.name for entry in diagnosis.fine}
