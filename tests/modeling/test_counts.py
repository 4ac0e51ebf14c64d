"""Count-based classes: ranks whose exact counts are equal do the same work."""

import numpy as np

from insitu.entities import BYTES_RECEIVED, BYTES_SENT, TIME, VISITS, CallPath, RunKey
from insitu.modeling.classes.counts import collect_evidence
from insitu.modeling.classes.run_groups import group_runs
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

MAIN = CallPath.parse("main")
STEP = CallPath.parse("main->step")
WALL = CallPath.parse("main->step->boundary")
TOP = CallPath.parse("main->step->boundary->top")
LEFT = CallPath.parse("main->step->boundary->left")
SEND = CallPath.parse("main->step->exchange->MPI_Send")
TEST = CallPath.parse("main->step->MPI_Test")
WAIT = CallPath.parse("main->step->MPI_Wait")
NAN = float("nan")
KNOWN_METRICS = {metric.name: metric for metric in (VISITS, BYTES_SENT, BYTES_RECEIVED, TIME)}


def run(repetition=0, **metrics):
    """One run; metrics map call paths to values per rank."""
    paths = tuple(sorted({path for rows in metrics.values() for path in rows}))
    size = len(next(iter(next(iter(metrics.values())).values())))
    values = {}
    for name, rows in metrics.items():
        values[name] = np.array([rows.get(path, [NAN] * size) for path in paths], dtype=float)
    table = RunTable(paths, tuple(KNOWN_METRICS[name] for name in metrics), values)
    return RunKey.of({"p": size}, repetition), table


def evidence(*runs):
    """The count-based classes of an experiment."""
    experiment = Experiment(("p",), runs)
    groups, _ = group_runs(experiment)
    return collect_evidence(experiment, experiment.callpaths(), groups)


def labels(classes, group=0):
    """The classes of the ranks of one run group, numbered from 0 in it."""
    return np.unique(classes.labels[group], return_inverse=True)[1].ravel().tolist()


def test_equal_counts_separate_no_ranks():
    counts = evidence(run(visits={MAIN: [1, 1], STEP: [9, 9]}))

    assert (counts.own, counts.below, counts.by_series) == ({}, {}, {})


def test_a_difference_of_one_in_a_thousand_is_different_work():
    counts = evidence(run(visits={STEP: [1000, 1001, 1000, 1000]}))

    assert labels(counts.own[STEP]) == [0, 1, 0, 0]


def test_a_call_path_that_some_ranks_never_reach_separates_those_above_it():
    visits = {MAIN: [1] * 6, STEP: [9] * 6, WALL: [9, 18, NAN, 9, 18, NAN]}

    counts = evidence(run(visits=visits))

    assert set(counts.own) == {WALL}
    assert labels(counts.below[MAIN]) == labels(counts.below[STEP]) == [1, 2, 0, 1, 2, 0]


def test_visits_and_bytes_together_separate_more_than_each():
    counts = evidence(run(visits={SEND: [1, 2, 2] * 2}, bytes_sent={SEND: [8, 8, 16] * 2}))

    assert len(set(labels(counts.own[SEND]))) == 3


def test_ranks_with_as_many_walls_are_alike_whichever_walls_these_are():
    visits = {STEP: [9] * 3, WALL: [9, 9, NAN], TOP: [9, NAN, NAN], LEFT: [NAN, 9, NAN]}

    counts = evidence(run(visits=visits))

    assert labels(counts.below[STEP]) == [1, 1, 0]


def test_counts_that_differ_in_every_rank_make_no_classes():
    counts = evidence(run(visits={STEP: [2**i for i in range(12)]}))

    assert counts.own == {}


def test_a_count_that_differs_between_repetitions_makes_no_classes():
    runs = [
        run(0, visits={STEP: [100, 120, 100, 120]}),
        run(1, visits={STEP: [110, 130, 100, 120]}),
    ]

    assert evidence(*runs).own == {}


def test_counts_with_noise_far_below_their_differences_still_separate_ranks():
    rng = np.random.default_rng(1)
    exact = np.array([1e9, 1.02e9] * 8)
    runs = []
    for repetition in range(4):
        noisy = exact * (1 + 0.001 * rng.standard_normal(16))
        runs.append(run(repetition, visits={STEP: noisy}))

    assert labels(evidence(*runs).own[STEP]) == [0, 1] * 8


def test_polling_is_timing_and_what_it_completes_with_waits_is_work():
    visits = {TEST: [3_000, 2_000, 2_500, 900], WAIT: [3, 7, 5, 9]}
    received = {TEST: [8, 16, 24, 32], WAIT: [32, 24, 16, 88]}

    counts = evidence(run(visits=visits, bytes_received=received))

    assert set(counts.own) == set()
    assert labels(counts.below[STEP]) == [0, 0, 0, 1]


def test_waits_without_polling_are_work():
    counts = evidence(run(visits={WAIT: [4, 2, 2, 4]}))

    assert labels(counts.own[WAIT]) == [1, 0, 0, 1]


def cube(side):
    """Messages to 26 neighbours in a cube, and bytes that differ in every direction."""
    position = np.indices((side,) * 3).reshape(3, -1)
    messages, size = np.zeros(side**3), np.zeros(side**3)
    for shift in np.indices((3, 3, 3)).reshape(3, -1).T - 1:
        target = position + shift[:, None]
        is_inside = ((target >= 0) & (target < side)).all(axis=0) & shift.any()
        messages += is_inside
        size += is_inside * (1000 + 100 * shift[0] + 10 * shift[1] + shift[2])
    return messages, size


def test_all_kinds_of_ranks_of_a_cube_are_classes_in_every_run():
    runs = []
    for side in (2, 3, 4, 5):
        messages, size = cube(side)
        runs.append(run(visits={SEND: messages}, bytes_sent={SEND: size}))

    counts = evidence(*runs)

    assert counts.by_series[VISITS.name, SEND].count == 4
    assert counts.by_series[BYTES_SENT.name, SEND].count == 27
    assert len(set(counts.own[SEND].labels[0].tolist())) == 8
    assert max(map(np.max, counts.own[SEND].coarse)) == 3


def test_counts_that_grow_are_matched_by_order():
    runs = [run(visits={STEP: [p - 1] + [1] * (p - 1)}) for p in (4, 8, 16)]

    matched = evidence(*runs).own[STEP]

    assert matched.count == 2
    assert [group[0] for group in matched.labels] == [1, 1, 1]


def test_polling_programs_have_one_class_and_models_of_everything():
    rng = np.random.default_rng(3)
    runs = []
    for p in (2, 4, 6, 8):
        completed = np.round(400 * rng.uniform(0.2, 0.8, p))
        visits = {TEST: np.round(2e6 * rng.uniform(0.7, 1.4, p)), WAIT: completed}
        received = {TEST: 8 * (400 - completed), WAIT: 8 * completed}
        time = {MAIN: 1 + rng.normal(0, 0.02, p), STEP: 0.3 * (1 + rng.normal(0, 0.02, p))}
        runs.append(run(visits=visits, bytes_received=received, time=time))

    models = remodel(Experiment(("p",), tuple(runs)))

    assert {series.key.behaviour for series in models.models} == {"all"}
    assert len(models.models) == 6
    assert [finding for finding in models.findings if "class" in finding.code] == []


PROBE = CallPath.parse("main->MPI_Probe")
WORK = CallPath.parse("main->work")


def run_pool(tasks, repetition=0):
    """A run in which rank 0 probes for answers, and the others work on so many tasks each."""
    visits = {PROBE: [sum(tasks)] + [NAN] * len(tasks), WORK: [NAN, *tasks]}
    return run(repetition, visits=visits)


HANDED_OUT = ([40, 39, 41], [37, 21, 24, 18, 20], [18, 17, 18, 16, 18, 16, 17])


def test_work_that_is_handed_out_by_arrival_makes_no_classes_of_workers():
    counts = evidence(*map(run_pool, HANDED_OUT))

    assert labels(counts.own[WORK], 2) == [0] + [1] * 7


def test_counts_that_recur_are_evidence_beside_a_probe():
    counts = evidence(run_pool([9, 3, 3, 3, 9, 3, 3]), run_pool([9, 3, 3, 3, 9, 3, 3, 3, 9, 3, 3]))

    assert labels(counts.own[WORK], 0) == [0, 2, 1, 1, 1, 2, 1, 1]


def test_counts_that_repeat_are_evidence_beside_a_probe():
    tasks = [40, 41, 40, 41, 40]
    repeated = evidence(run_pool(tasks), run_pool(tasks, repetition=1))

    assert labels(repeated.own[WORK]) == [0, 1, 2, 1, 2, 1]
