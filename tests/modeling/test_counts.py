"""Counts as witnesses of which ranks behave alike."""

import numpy as np
import pytest

from insitu.entities import BYTES_SENT, VISITS, CallPath, RunKey
from insitu.modeling.classes.counts import find_count_labels, label_counts
from insitu.modeling.classes.run_groups import group_runs
from insitu.modeling.measurement import Experiment, RunTable

MAIN = CallPath.parse("main")
STEP = CallPath.parse("main->step")
WALL = CallPath.parse("main->step->boundary")
TOP = CallPath.parse("main->step->boundary->top")
LEFT = CallPath.parse("main->step->boundary->left")
SEND = CallPath.parse("main->step->exchange->MPI_Send")
NAN = float("nan")


def witnesses(**metrics):
    """Witnesses of one run; metrics map call paths to counts per rank."""
    paths = tuple(sorted({path for rows in metrics.values() for path in rows}))
    size = len(next(iter(next(iter(metrics.values())).values())))
    values = {
        name: np.array([rows.get(path, [NAN] * size) for path in paths], dtype=float)
        for name, rows in metrics.items()
    }
    known = {metric.name: metric for metric in (VISITS, BYTES_SENT)}
    table = RunTable(paths, tuple(known[name] for name in metrics), values)
    experiment = Experiment(("p",), ((RunKey.of({"p": size}), table),))
    places, _ = group_runs(experiment)
    return find_count_labels(experiment, paths, places)


def groups(witness):
    """Ranks alike at the only place, as labels from 0."""
    return np.unique(witness.codes[0], return_inverse=True)[1].ravel().tolist()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100, 100, 100], [0, 0, 0]),
        ([100, 101, 100], [0, 1, 0]),
        ([1000, 1001, 1000], [0, 0, 0]),
        ([NAN, 5, 10], [-1, 0, 1]),
        ([*range(100, 120)], [0] * 20),
    ],
)
def test_counts_part_ranks_that_do_other_work(values, expected):
    assert label_counts(np.array([values], dtype=float))[0].tolist() == expected


def test_equal_counts_separate_no_ranks():
    own, below = witnesses(visits={MAIN: [1, 1], STEP: [9, 9]})

    assert (own, below) == ({}, {})


def test_a_call_path_that_some_ranks_never_reach_parts_those_above_it():
    own, below = witnesses(visits={MAIN: [1] * 3, STEP: [9] * 3, WALL: [9, 18, NAN]})

    assert set(own) == {WALL}
    assert groups(below[MAIN]) == groups(below[STEP]) == [1, 2, 0]


def test_visits_and_bytes_together_part_more_than_each():
    own, _ = witnesses(visits={SEND: [1, 2, 2]}, bytes_sent={SEND: [8, 8, 16]})

    assert len(set(groups(own[SEND]))) == 3


def test_ranks_with_as_many_walls_are_alike_whichever_walls_these_are():
    visits = {STEP: [9] * 3, WALL: [9, 9, NAN], TOP: [9, NAN, NAN], LEFT: [NAN, 9, NAN]}

    _, below = witnesses(visits=visits)

    assert groups(below[STEP]) == [1, 1, 0]


def test_counts_that_differ_in_every_rank_give_no_labels():
    own, _ = witnesses(visits={STEP: [2**i for i in range(12)]})

    assert own == {}
