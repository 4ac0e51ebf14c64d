"""The example mafia.py: exponential in k, counted exactly, and as table 4 of [VAL] expects."""

import json
from math import comb
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.native, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLUSTER = "mafia.py->main->cluster"
VISITS = {
    f"{CLUSTER}->gen->join": lambda k: k * (k - 1) * 2**k // 8,
    f"{CLUSTER}->gen->join->extend": lambda k: sum(
        j * comb(j, 2) * comb(k, j) for j in range(2, k + 1)
    ),
    f"{CLUSTER}->dedup->same": lambda k: sum(
        comb(comb(j, 2), 2) * comb(k, j) for j in range(2, k + 1)
    ),
    f"{CLUSTER}->pcount->narrow": lambda k: k * 2 ** (k - 1) - k,
    f"{CLUSTER}->unjoin->absorb": lambda k: k * (k - 1) * 2**k // 4,
}


@pytest.mark.full
def test_mafia_grows_exponentially_as_expected(bench):
    program = ["--", EXAMPLES / "mafia.py", "--points", 500, "--dimensions"]
    outcomes = bench.measure_all(("--param", f"k={k}", *program, k) for k in range(3, 9))
    assert [outcome.code for outcome in outcomes] == [0] * 6

    answer = bench.insitu("check", bench.campaign, EXAMPLES / "mafia.toml", "--json")

    for callpath, law in VISITS.items():
        assert bench.values(callpath, "visits") == [law(8)], callpath
    rows = {row["callpath"]: row for row in map(json.loads, answer.out.splitlines())}
    assert answer.code == 0, answer.out + answer.err
    assert rows[f"{CLUSTER}->gen->join->extend"]["found"] == "O(k^3 * 2^k)"
    assert rows[f"{CLUSTER}->dedup->same"]["found"] == "O(k^4 * 2^k)"
    assert rows[f"{CLUSTER}->pcount->narrow"]["status"] in ("met", "near")
    assert rows[f"{CLUSTER}->unjoin->absorb"]["match"] == "approximate"
