"""The course of a run in progress."""

from dataclasses import replace
from itertools import pairwise

import pytest

from insitu.analysis.board import RunRow
from insitu.views.web.history import MAX_SAMPLES, History

RUN = RunRow("x", "p=4#0", "measuring", 4, 2, 0, started_at=100.0, part=0.1, memory=1e6)


def test_a_run_in_progress_has_samples_since_its_start():
    history = History()

    history.add([RUN], 101.0)
    history.add([replace(RUN, seen=4, ended=1, part=0.5, memory=2e6)], 102.5)

    assert history.samples("x") == [(1.0, 2, 0, 0.1, 1e6), (2.5, 4, 1, 0.5, 2e6)]
    assert history.samples("y") == []


@pytest.mark.parametrize("n_boards", [MAX_SAMPLES, MAX_SAMPLES + 1, 5 * MAX_SAMPLES + 3])
def test_a_long_run_keeps_few_samples_evenly_spaced_and_the_newest(n_boards: int):
    history = History()

    for second in range(n_boards):
        history.add([RUN], 100.0 + second)

    seconds = [sample[0] for sample in history.samples("x")]
    gaps = {after - before for before, after in pairwise(seconds[:-1])}
    assert len(seconds) <= MAX_SAMPLES
    assert (seconds[0], seconds[-1]) == (0.0, n_boards - 1)
    assert len(gaps) == 1


def test_a_run_that_ended_is_forgotten():
    history = History()
    history.add([RUN], 101.0)

    history.add([], 102.0)

    assert history.samples("x") == []
