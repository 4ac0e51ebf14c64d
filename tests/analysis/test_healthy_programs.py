"""Diagnosis: nothing certain is said of programs without a limit."""

import numpy as np

from insitu.analysis.diagnosis.statements import LIMIT
from tests.evaluation import healthy

COUNT = 40


def certain(program: healthy.Program) -> list[str]:
    return [
        entry.text
        for entry in program.diagnose().statements
        if (entry.exact or entry.status == LIMIT) and not program.may_be_certain(entry)
    ]


def test_nothing_certain_is_said_of_random_programs_without_a_limit():
    assert [certain(healthy.Program(seed)) for seed in range(COUNT)] == [[]] * COUNT


def test_a_loop_over_all_ranks_in_any_of_these_programs_is_certain(monkeypatch):
    def loop(its: healthy.Sizes, p: int) -> healthy.Rows:
        counts = np.full(p, 300.0 * p)
        return {"MPI_Bcast": {"visits": counts, "bytes_received": 8 * counts, "comm_ranks": p}}

    monkeypatch.setattr(healthy, "PARTS", (loop,))

    for seed in range(5):
        assert any("300 p times" in text for text in certain(healthy.Program(seed)))
