"""Of which runs the times are used."""

import numpy as np
import pytest

from insitu.entities import CPU_TIME, IMBALANCE, TEAM_THREADS, TIME, VISITS, CallPath, RunKey
from insitu.modeling.crowding import report_crowded_runs, report_team_sizes
from insitu.modeling.measurement import Experiment, RunTable, find_unjudged_runs
from insitu.modeling.pipeline import remodel


@pytest.mark.parametrize(
    ("idle", "crowded", "unjudged"),
    [
        ((1, 2, 4, 8), (16,), ()),
        ((1, 2, 4, 16), (8,), ()),
        ((1, 2, 4), (8,), (8,)),  # three are too few
        ((1, 2, 3, 4), (16,), (16,)),  # they do not reach half of it
        ((1, 2, 3, 4), (5, 6, 7, 8), ()),
        ((1, 2, 3, 4), (4, 5, 6, 7, 8, 8.5), (5, 6, 7, 8, 8.5)),  # 4 of 9; p=4 was repeated
        ((8,), (8,), ()),
        ((), (4, 8), (4, 8)),
        ((4, 8), (), ()),
    ],
)
def test_times_of_crowded_runs_are_used_where_the_others_do_not_suffice(idle, crowded, unjudged):
    kept = [RunKey.of({"p": p}) for p in idle]
    slow = [RunKey.of({"p": p}, repetition=1) for p in crowded]

    found = find_unjudged_runs([*kept, *slow], slow, ("p",))

    assert [dict(key.parameters)["p"] for key in found] == list(unjudged)


def test_runs_that_suffice_reach_half_of_every_parameter():
    grid = [{"p": p, "n": n} for p in (1, 2, 4) for n in (10, 20, 40)]
    keys = [RunKey.of(at) for at in grid]

    def unjudged(is_crowded):
        crowded = [key for key, at in zip(keys, grid, strict=True) if is_crowded(**at)]
        return len(find_unjudged_runs(keys, crowded, ("p", "n")))

    assert unjudged(lambda p, n: p == 4) == 0
    assert unjudged(lambda p, n: n == 10) == 0
    assert unjudged(lambda p, n: n > 10) == 6


def test_of_many_crowded_runs_few_are_named():
    table = RunTable((), (), {})
    keys = [RunKey.of({"p": p}) for p in range(1, 11)]

    def text(count):
        runs = tuple((key, table) for key in keys)
        (finding,) = report_crowded_runs(Experiment(("p",), runs, dict.fromkeys(keys[:count], 2)))
        return finding.text.partition(":")[0]

    assert text(6) == "more ranks than processor cores at p=1, p=2, p=3, p=4, p=5, p=6"
    assert text(9).endswith("at p=1, p=2, p=3, p=4, p=5, 4 other coordinates")


@pytest.mark.parametrize(
    ("metric", "is_marked"), [(TIME, True), (IMBALANCE, True), (CPU_TIME, False), (VISITS, False)]
)
def test_what_waiting_for_a_core_changes_is_marked_where_ranks_shared_cores(metric, is_marked):
    path = CallPath.parse("app->solve")
    runs = []
    for p in (2, 4, 8):
        table = RunTable((path,), (metric,), {metric.name: np.full((1, p), 0.5 * p)})
        runs.append((RunKey.of({"p": p}), table))
    experiment = Experiment(("p",), tuple(runs), {key: 1 for key, _ in runs})

    models = remodel(experiment).models

    assert models
    assert {bool(series.crowding) for series in models} == {is_marked}


def test_teams_of_different_sizes_at_one_coordinate_are_reported():
    """OMP_NUM_THREADS is in no command: without a parameter, the runs look like repetitions."""
    path = CallPath.parse("app->solve->loop (parallel 1)")

    def run(p, repetition, threads):
        values = {TEAM_THREADS.name: np.full((1, p), float(threads))}
        return RunKey.of({"p": p}, repetition), RunTable((path,), (TEAM_THREADS,), values)

    same = Experiment(("p",), (run(1, 0, 4), run(1, 1, 4), run(2, 0, 2)))
    different = Experiment(("p",), (run(1, 0, 1), run(2, 0, 1), run(2, 1, 4)))

    (finding,) = report_team_sizes(different)

    assert report_team_sizes(same) == []
    assert finding.code == "teams-differ"
    assert finding.text.startswith("runs at p=2 had parallel regions of 1 and 4 threads")
    assert finding.text.endswith("--param threads=4")


def test_runs_whose_threads_alone_are_more_than_the_cores_are_told_apart():
    table, keys = RunTable((), (), {}), [RunKey.of({"p": p}) for p in (1, 2, 4)]
    experiment = Experiment(
        ("p",),
        tuple((key, table) for key in keys),
        crowded=dict.fromkeys(keys[1:], 2),
        threads={keys[1]: 2, keys[2]: 2},
    )

    (finding,) = report_crowded_runs(experiment)

    assert finding.text.startswith(
        "more ranks than processor cores at p=4; more threads than processor cores at p=2: "
    )
