"""The fault matrix of tests/stress/chaos.py in its short form."""

import sys
from collections import Counter

import pytest

from tests.stress import chaos_exits, chaos_hostile, chaos_kills, chaos_network
from tests.stress.chaos import BAD
from tests.support.parameters import plain_and_full


def harm(counts):
    return {what: n for what, n in counts.items() if what.split()[-1] in BAD and n}


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_kills_lose_nothing(tmp_path, monkeypatch, number):
    monkeypatch.setenv("INSITU_TABLES", str(tmp_path / "tables"))
    kinds = (chaos_kills.aggregators, chaos_kills.agents, chaos_kills.ranks, chaos_kills.relays)
    kind = kinds[number - 1]

    counts = chaos_kills.kill(tmp_path, 2, kind)

    assert harm(counts) == {}
    assert counts[f"{kind.__name__} killed"] >= 1


@pytest.mark.full  # `bootstrap.py chaos` runs it, and server/test_world.py the protocol alone
def test_a_bad_network_loses_nothing(tmp_path):
    counts = chaos_network.messages(tmp_path, 3) + chaos_network.cuts(tmp_path, 3)

    assert harm(counts) == {}
    assert counts["messages dropped"] > 50
    assert counts["connections cut"] >= 10


def test_a_hostile_client_with_key_and_token_harms_no_other_run(tmp_path):
    counts = chaos_hostile.hostile(tmp_path, 3)

    assert harm(counts) == {}
    assert counts["messages"] == 3_000


def test_little_memory_never_harms_the_program(tmp_path):
    script = tmp_path / "app.py"
    script.write_text(chaos_exits.SMALL)
    counts = Counter()

    for mebibytes in (24, 48, 96, 192):
        chaos_exits.limited(tmp_path, f"RLIMIT_AS, {mebibytes << 20}", script, counts, "limits")

    assert (counts["limits"], harm(counts)) == (4, {})


@pytest.mark.mpi
@plain_and_full("aggregator", chaos_exits.AGGREGATORS)
def test_an_abort_ends_as_without_insitu(tmp_path, aggregator):
    script = tmp_path / "app.py"
    script.write_text(chaos_exits.PROGRAM.format(how=chaos_exits.ENDS["MPI_Abort"]))
    place = chaos_exits.MPIS["MPICH"]
    if not (place / "mpiexec").exists():
        pytest.skip(f"no mpiexec beside {sys.executable}")

    code, output = chaos_exits.launched("MPICH", place, [str(script)])
    measured_code, measured_output = chaos_exits.beside(
        tmp_path, aggregator, "MPICH", place, script
    )

    assert measured_code == code
    # Which lines reach the launcher before it kills the ranks is chance.
    assert {output, measured_output} <= {"", "begun\n", "begun\nbegun\n"}
