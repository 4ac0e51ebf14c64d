"""A campaign over a parameter other than p is diagnosed over that parameter."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np
import pytest

from insitu.analysis.diagnosis.diagnose import Diagnosis, diagnose_experiment
from insitu.analysis.diagnosis.lines import diagnosis_lines
from insitu.analysis.diagnosis.over_parameter import find_axis
from insitu.analysis.diagnosis.rows import summary_row
from insitu.entities import (
    METRICS,
    TIME_EXCLUSIVE,
    CallPath,
    Configuration,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

SIZES = (100, 200, 300, 400, 600, 800)
RANKS = 2
Plan = Mapping[str, Mapping[str, Callable[[int], float]]]

STEADY: Plan = {
    "app": {"visits": lambda n: 1, "time": lambda n: 0.02 * n},
    "app->main": {"visits": lambda n: 1, "time_exclusive": lambda n: 0.1},
    "app->main->push": {"visits": lambda n: 5 * n, "time_exclusive": lambda n: 0.01 * n},
}


def diagnose(
    plan: Plan, *, target: Mapping[str, float] | None = None, is_crowded: bool = False
) -> Diagnosis:
    plan = {**STEADY, **plan}
    names = sorted({name for values in plan.values() for name in values})
    runs = []
    for n in SIZES:
        values = {name: np.full((len(plan), RANKS), np.nan) for name in names}
        for row, quantities in enumerate(plan.values()):
            for name, value in quantities.items():
                values[name][row] = value(n)
        metrics = tuple(metric for metric in METRICS if metric.name in names)
        table = RunTable(tuple(map(CallPath.parse, plan)), metrics, values)
        runs.append((RunKey.of({"p": RANKS, "n": n}), table))

    records = [
        RunRecord(str(key), key, RunState.COMPLETE, configuration=Configuration.of({}))
        for key, _ in runs
    ]
    crowded = {key: 1 for key, _ in runs} if is_crowded else {}
    experiment = Experiment(("n",), tuple(runs), crowded)
    models = ModelSet() if is_crowded else remodel(experiment)
    return diagnose_experiment(experiment, records, models, program="app", target=target)


def test_a_function_whose_time_grows_with_the_square_of_n_is_named_with_its_law():
    diagnosis = diagnose({"app->main->search": {"time_exclusive": lambda n: 1e-5 * n * n}})

    assert diagnosis.verdict == "app: search grows faster than n"
    (statement,) = [entry for entry in diagnosis.statements if entry.name == "search"]
    assert (statement.kind, statement.status) == ("compute", "warning")
    assert statement.then == pytest.approx(1e-5 * 6400**2, rel=0.05)
    assert "n^2" in statement.law
    lines = diagnosis_lines(diagnosis)
    assert "measured: n = 100 to 800 on 2 ranks, 6 runs" in " ".join(lines)
    assert any(line.startswith("✔ push") for line in lines)


def test_growth_in_proportion_to_n_is_fine():
    diagnosis = diagnose({})

    assert diagnosis.verdict == "app: no growth found that is faster than n"
    assert not diagnosis.statements
    assert "growth with n is judged at p = 2; all else at its largest value" in diagnosis.notes


def test_visits_that_follow_an_exact_law_are_judged_on_crowded_cores_too():
    search = {"visits": lambda n: n * n, "time_exclusive": lambda n: 1e-5 * n * n}

    diagnosis = diagnose({"app->main->search": search}, is_crowded=True)

    (statement,) = diagnosis.statements
    assert (statement.name, statement.law, statement.exact) == ("main", "n^2", True)
    assert statement.text.startswith("each rank visits search n^2 times: 2.62 billion of them")


def test_of_functions_that_are_visited_equally_often_the_first_is_named():
    squared = {"visits": lambda n: n * n, "time_exclusive": lambda n: 1e-5 * n * n}

    diagnosis = diagnose({"app->main->find": squared, "app->main->search": squared})

    texts = [entry.text for entry in diagnosis.statements if entry.metric == "visits"]
    assert [text.split(" times:")[0] for text in texts] == ["each rank visits find n^2"]


@pytest.mark.parametrize(
    ("target", "status"), [(None, "warning"), ({"n": 51_200.0}, "limit"), ({"n": 900.0}, None)]
)
def test_memory_is_a_limit_only_at_a_target_that_the_user_named(target, status):
    matrix = {
        "visits": lambda n: 1,
        "heap_growth": lambda n: 8 * n * n,
        "time_exclusive": lambda n: 0.1,
    }

    diagnosis = diagnose({"app->main->matrix": matrix}, target=target)

    memory = [entry for entry in diagnosis.statements if entry.kind == "memory"]
    assert [entry.status for entry in memory] == [status] * (status is not None)
    if status:
        assert "each rank holds 8 B * n^2: 21 GB at p = 2, n = 51200" in memory[0].text
        assert "fits to n = 16383" in memory[0].text
    assert summary_row(diagnosis)["target"] == {"p": 2, "n": target["n"] if target else 51_200}


def test_a_number_of_ranks_with_enough_cores_is_judged_although_it_is_smaller():
    square = {"app->main->search": {"time_exclusive": lambda n: 1e-5 * n * n}}
    runs = []
    for ranks in (1, 2):
        for n in SIZES:
            plan = {**STEADY, **square}
            times = np.full((len(plan), ranks), np.nan)
            for row, quantities in enumerate(plan.values()):
                if "time_exclusive" in quantities:
                    times[row] = quantities["time_exclusive"](n)
            paths = tuple(map(CallPath.parse, plan))
            table = RunTable(paths, (TIME_EXCLUSIVE,), {TIME_EXCLUSIVE.name: times})
            runs.append((RunKey.of({"p": ranks, "n": n}), table))
    records = [RunRecord(str(key), key, RunState.COMPLETE) for key, _ in runs]
    crowded = {key: 1 for key, _ in runs if key.size == 2}
    experiment = Experiment(("p", "n"), tuple(runs), crowded)

    diagnosis = diagnose_experiment(experiment, records, remodel(experiment), program="app")

    assert diagnosis.axis is not None and diagnosis.axis.fixed["p"] == 1
    assert "search" in {entry.name for entry in diagnosis.statements}


GRID = tuple(product((2, 3, 4, 6), (100, 200, 400, 800)))


def diagnose_grid(
    plan: Plan,
    *,
    target: Mapping[str, float] | None = None,
    sampling_s: float = 0.0,
    places: Sequence[tuple[int, int]] = GRID,
) -> Diagnosis:
    """The diagnosis of runs, by default at each of four numbers of ranks and of four sizes."""
    plan = {**STEADY, **plan}
    names = sorted({name for values in plan.values() for name in values})
    metrics = tuple(metric for metric in METRICS if metric.name in names)
    runs = []
    for ranks, n in places:
        values = {name: np.full((len(plan), ranks), np.nan) for name in names}
        for row, quantities in enumerate(plan.values()):
            for name, value in quantities.items():
                values[name][row] = value(n)
        table = RunTable(tuple(map(CallPath.parse, plan)), metrics, values)
        runs.append((RunKey.of({"p": ranks, "n": n}), table))
    records = [RunRecord(str(key), key, RunState.COMPLETE) for key, _ in runs]
    sampled = {key: sampling_s for key, _ in runs} if sampling_s else {}
    experiment = Experiment(("p", "n"), tuple(runs), sampling_s=sampled)
    return diagnose_experiment(
        experiment, records, remodel(experiment), program="app", target=target
    )


MATRIX: Plan = {
    "app->main->matrix": {
        "visits": lambda n: 1,
        "heap_growth": lambda n: 8 * n * n,
        "time_exclusive": lambda n: 0.1,
    }
}


def test_beside_p_memory_is_a_limit_at_a_size_that_the_user_named():
    diagnosis = diagnose_grid(MATRIX, target={"p": 4096.0, "n": 51_200.0})

    assert diagnosis.verdict == "app will not run at n = 51200 as it is"
    assert "each rank holds 8 B * n^2: 21 GB at p = 6, n = 51200" in diagnosis.statements[0].text
    assert diagnosis.notes[-1] == "growth with p is judged at n = 800, growth with n at p = 6"


def test_beside_p_nothing_is_said_of_memory_at_the_largest_size():
    diagnosis = diagnose_grid(MATRIX, target={"p": 4096.0})

    assert not diagnosis.statements
    assert diagnosis.notes[-1].endswith("other values need a diagnosis with --at")


def test_beside_p_a_function_that_grows_faster_than_the_size_is_named_where_others_do_not():
    search: Plan = {"app->main->search": {"time_exclusive": lambda n: 1e-5 * n * n}}
    push: Plan = {"app->main->push": {"time_exclusive": lambda n: 3e-5 * n * n}}

    names = [entry.name for entry in diagnose_grid(search).statements]
    of_edge = diagnose_grid({**search, **push}).statements

    assert names == ["search"]
    assert not of_edge


def test_few_samples_that_grow_faster_than_the_size_are_not_judged():
    interval_s = 0.01
    few: Plan = {"app->main->push": {"time_exclusive": lambda n: interval_s * (n / 200) ** 1.6}}
    many: Plan = {"app->main->push": {"time_exclusive": lambda n: 5 * interval_s * (n / 100) ** 2}}

    of_few = diagnose_grid(few, target={"n": 51_200.0}, sampling_s=interval_s)
    of_many = diagnose_grid(many, target={"n": 51_200.0}, sampling_s=interval_s)

    assert not of_few.statements
    assert any("with n: the bounds" in entry.text for entry in of_few.not_judged)
    assert [entry.name for entry in of_many.statements] == ["push"]


def test_growth_with_p_is_judged_where_it_was_varied_if_a_size_was_measured_once():
    star = [*product((2, 3, 4, 6), (200,)), *product((4,), (100, 400, 800))]

    diagnosis = diagnose_grid(MATRIX, target={"p": 4096.0, "n": 800.0}, places=star)

    assert diagnosis.p == (2, 3, 4, 6)
    assert diagnosis.notes[-1] == "growth with p is judged at n = 200, growth with n at p = 4"


@pytest.mark.parametrize(("wanted", "chosen"), [(100, 100), (200, 200), (400, 200), (None, 200)])
def test_growth_with_p_is_judged_at_a_size_of_three_scales_or_at_that_of_most(wanted, chosen):
    places = [*product((2, 3, 4), (100,)), *product((2, 3, 4, 6), (200,)), (2, 400)]
    target = {"p": 4096.0} | ({} if wanted is None else {"n": float(wanted)})

    diagnosis = diagnose_grid(MATRIX, target=target, places=places)

    assert dict(diagnosis.fixed) == {"n": chosen}


@pytest.mark.parametrize(("target", "chosen"), [(20, 20), (10, 10), (None, 10)])
def test_of_several_values_of_another_parameter_the_requested_one_is_judged(target, chosen):
    """Of others, that with the most values of the first."""
    runs = []
    for n, m in (*product(SIZES, (10,)), *product(SIZES[:-1], (20,))):
        values = {"visits": np.full((1, RANKS), float(n)), "time": np.full((1, RANKS), 0.1 * n)}
        metrics = tuple(metric for metric in METRICS if metric.name in values)
        table = RunTable((CallPath.parse("app"),), metrics, values)
        runs.append((RunKey.of({"p": RANKS, "n": n, "m": m}), table))
    experiment = Experiment(("m", "n"), tuple(runs))
    requested = {} if target is None else {"m": float(target)}

    axis = find_axis(experiment, [], {}, requested=requested)

    assert axis is not None
    assert (axis.name, axis.fixed["m"]) == ("n", chosen)


@pytest.mark.parametrize(("sizes", "is_axis"), [((1, 2, 4), True), ((0, 2, 4), False)])
def test_a_parameter_may_have_the_value_1_but_not_0(sizes, is_axis):
    runs = []
    for n in sizes:
        values = {"visits": np.full((1, RANKS), float(n)), "time": np.full((1, RANKS), 0.1 * n)}
        metrics = tuple(metric for metric in METRICS if metric.name in values)
        table = RunTable((CallPath.parse("app"),), metrics, values)
        runs.append((RunKey.of({"p": RANKS, "n": n}), table))

    axis = find_axis(Experiment(("n",), tuple(runs)), [], {}, requested={})

    assert (axis is not None) == is_axis
