"""Diagnosis: a few ranks serve all others, as many on all numbers of ranks."""

import numpy as np
import pytest

from tests.analysis.test_diagnosis import SCALES, diagnose


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
