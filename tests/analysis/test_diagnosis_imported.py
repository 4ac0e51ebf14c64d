"""Diagnosis of measurements of other tools: inclusive times, two parameters, lists of regions."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from insitu.analysis.diagnosis.diagnose import Diagnosis, diagnose_experiment
from insitu.analysis.diagnosis.gather import gather
from insitu.analysis.diagnosis.lines import diagnosis_lines, fine_texts
from insitu.analysis.diagnosis.statements import FINE, WARNING, Statement
from insitu.analysis.diagnosis.steady import ALL_FINE, TimeBounds
from insitu.analysis.own_times import with_own_times
from insitu.entities import (
    TIME,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    Configuration,
    Metric,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

SCALES = (32, 64, 128, 256, 512)
NOISE = 0.005
Law = Callable[[Mapping[str, float]], float]


def diagnose(
    laws: Mapping[str, Law],
    coordinates: Sequence[Mapping[str, float]],
    *,
    has_size: bool = True,
    target: Mapping[str, float] | None = None,
) -> Diagnosis:
    """The diagnosis of imported runs, in which inclusive times follow laws."""
    rng = np.random.default_rng(5)
    paths = tuple(map(CallPath.parse, laws))
    runs = []
    for at in coordinates:
        times = np.array([[law(at) * rng.normal(1, NOISE)] for law in laws.values()])
        key = RunKey.of(at if has_size else {"p": 1, **at})
        runs.append((key, RunTable(paths, (TIME,), {TIME.name: times})))
    records = [
        RunRecord(
            str(key),
            key,
            RunState.COMPLETE,
            configuration=Configuration.of({"imported": "a.jsonl"}),
        )
        for key, _ in runs
    ]
    experiment = Experiment(tuple(coordinates[0]), tuple(runs))
    models = remodel(experiment)
    return diagnose_experiment(experiment, records, models, program="app", target=target)


def statements_about(diagnosis: Diagnosis, name: str) -> list[str]:
    return [f"{entry.status} {entry.text}" for entry in diagnosis.statements if entry.name == name]


def test_a_function_of_inclusive_times_that_grows_is_a_limit_and_its_callers_are_none():
    laws: dict[str, Law] = {
        "main": lambda at: 10 + 0.1 * at["p"],
        "main->solve": lambda at: 8 + 0.1 * at["p"],
        "main->solve->sort": lambda at: 0.1 * at["p"],
    }

    diagnosis = diagnose(laws, [{"p": p} for p in SCALES])

    assert [entry.name for entry in diagnosis.limits] == ["sort"]
    assert diagnosis.limits[0].text.startswith("time grows: 51")
    assert diagnosis.totals.time is not None
    assert diagnosis.totals.time.value == pytest.approx(61.2, rel=0.02)
    assert "heap" not in " ".join(diagnosis_lines(diagnosis))


def test_growth_with_p_is_judged_where_another_parameter_varies_too():
    laws: dict[str, Law] = {
        "main": lambda at: at["n"] * (1 + 0.01 * at["p"]),
        "main->solve": lambda at: at["n"],
        "main->sort": lambda at: 0.01 * at["n"] * at["p"],
    }
    grid = [{"p": p, "n": n} for p in SCALES for n in (10, 20, 40, 80, 160)]

    diagnosis = diagnose(laws, grid)

    (sort,) = statements_about(diagnosis, "sort")
    assert sort.startswith("limit time grows: 819 s at p = 512") or "81" in sort
    assert not statements_about(diagnosis, "solve")
    assert ("n", 160.0) in diagnosis.fixed


def test_regions_that_contain_each_other_have_no_run_time():
    laws: dict[str, Law] = {
        "main()": lambda at: 10 + at["p"],
        "loop": lambda at: 9 + at["p"],
        "sort": lambda at: at["p"],
        "read": lambda at: 1.0,
    }

    diagnosis = diagnose(laws, [{"p": p} for p in SCALES])

    assert diagnosis.totals.time is None
    assert {entry.name for entry in diagnosis.limits} == {"main()", "loop", "sort"}


def test_growth_with_nodes_is_no_growth_with_a_problem_size():
    laws: dict[str, Law] = {"solve": lambda at: 5.0, "sort": lambda at: 0.1 * at["nodes"]}

    diagnosis = diagnose(laws, [{"nodes": n} for n in SCALES], has_size=False)

    assert diagnosis.verdict == "app: sort grows with nodes"
    lines = " ".join(diagnosis_lines(diagnosis))
    assert "measured: nodes = 32 to 512, 5 runs" in lines
    assert "the run that helps most: nodes = 1024" in lines
    assert "p = " not in lines


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        (None, "app: sort grows with processes"),
        ({"processes": 1024.0, "size": 40.0}, "app: sort grows with processes"),
        ({"size": 400.0}, "app: no growth found that is faster than size"),
    ],
)
def test_a_parameter_that_counts_processes_is_judged_before_a_size(target, verdict):
    laws: dict[str, Law] = {
        "solve": lambda at: 1 + 0.1 * at["size"],
        "sort": lambda at: 0.01 * at["processes"] * at["size"],
    }
    grid = [{"processes": p, "size": n} for p in (4, 8, 16, 32, 64) for n in (10, 20, 30, 40)]

    diagnosis = diagnose(laws, grid, has_size=False, target=target)

    assert diagnosis.verdict == verdict
    assert "p = " not in " ".join(diagnosis_lines(diagnosis))


def test_growth_of_a_size_is_judged_up_to_where_the_function_was_measured():
    laws: dict[str, Law] = {
        "long": lambda at: at["n"],
        "short": lambda at: at["n"] ** 2 if at["n"] <= 200 else float("nan"),
    }

    diagnosis = diagnose(laws, [{"n": n} for n in (10, 20, 50, 100, 200, 400, 800)], has_size=False)

    (short,) = statements_about(diagnosis, "short")
    assert "11.1 h at n = 200" in short


def test_functions_with_wide_bounds_are_not_called_fine():
    rng = np.random.default_rng(8)
    laws: dict[str, Law] = {
        "main": lambda at: 40.0,
        "main->steady": lambda at: 20.0,
        "main->erratic": lambda at: 10.0 * float(rng.lognormal(0, 0.3)),
    }

    diagnosis = diagnose(laws, [{"p": p} for p in SCALES])

    texts = {entry.name: entry.text for entry in diagnosis.fine}
    assert texts["steady"].startswith("no growth with p")
    assert texts.get("erratic") != ALL_FINE


@pytest.mark.parametrize(
    ("growth", "excess", "text"),
    [
        (0.0, 1.0, ALL_FINE),
        (1.0, 50.0, "no growth with p seen over 32 to 512 ranks"),
        (15.0, 50.0, "growth of steady: the bounds of its time are too wide"),
    ],
)
def test_what_is_said_of_a_function_depends_on_the_bounds_of_its_time(
    monkeypatch, growth, excess, text
):
    bounds = {CallPath.parse("main->steady"): TimeBounds(20.0, growth, excess)}
    monkeypatch.setattr("insitu.analysis.diagnosis.steady._bounds", lambda *_, **__: bounds)
    laws: dict[str, Law] = {"main": lambda at: 40.0, "main->steady": lambda at: 20.0}

    diagnosis = diagnose(laws, [{"p": p} for p in SCALES])

    assert text in {entry.text for entry in (*diagnosis.fine, *diagnosis.not_judged)}


def test_own_times_are_times_without_those_of_the_call_paths_below():
    paths = tuple(map(CallPath.parse, ("main", "main->a", "main->a->b", "main->c")))
    times = np.array([[10.0, 12.0], [6.0, 6.0], [2.0, np.nan], [5.0, 1.0]])
    run = (RunKey.of({"p": 2}), RunTable(paths, (TIME,), {TIME.name: times}))

    experiment, _ = with_own_times(Experiment(("p",), (run,)), ModelSet())

    (measured,) = gather(experiment, {}, {}).runs
    own = [measured.vector(path, "time_exclusive").tolist() for path in paths]
    assert own == [[0.0, 5.0], [4.0, 6.0], [2.0, 0.0], [5.0, 1.0]]  # not below 0


def test_own_times_have_models_where_they_are_more_than_noise_from_three_scales_on():
    """`main` itself takes 0.5 % of its time; `b` has no other below it."""
    paths = tuple(map(CallPath.parse, ("main", "main->a", "main->a->b")))
    runs = []
    for p in (2, 4, 8):
        b = 10.0 * p
        times = np.array([[1.005 * (b + 5.0)] * p, [b + 5.0] * p, [b] * p])
        runs.append((RunKey.of({"p": p}), RunTable(paths, (TIME,), {TIME.name: times})))
    experiment = Experiment(("p",), tuple(runs))

    _, models = with_own_times(experiment, remodel(experiment))
    own = {
        str(series.key.callpath): series
        for series in models.models
        if series.metric == TIME_EXCLUSIVE and series.key.behaviour == "all"
    }
    _, of_two = with_own_times(Experiment(("p",), tuple(runs[:2])), ModelSet(("p",)))

    assert set(own) == {"main->a", "main->a->b"}
    assert own["main->a"].model.values.tolist() == pytest.approx([5.0] * 3)
    assert own["main->a->b"].key.metric == TIME_EXCLUSIVE.name
    assert of_two.models == []


def test_times_without_those_of_called_functions_are_reported():
    laws: dict[str, Law] = {"main": lambda at: 1.0, "main->solve": lambda at: 3.0}

    notes = " ".join(diagnose(laws, [{"p": p} for p in SCALES]).notes)

    assert "solve takes longer than its caller main: times do not include those of" in notes


def test_means_over_ranks_have_no_load_balance():
    laws: dict[str, Law] = {
        "main": lambda at: 10.0,
        "main->MPI_Allreduce": lambda at: 2.0,
    }

    diagnosis = diagnose(laws, [{"p": p} for p in SCALES])

    assert diagnosis.efficiencies == ()
    assert "load balance" not in " ".join(diagnosis_lines(diagnosis))


def test_runs_without_times_stay_without_own_times():
    paths = (CallPath.parse("main"), CallPath.parse("main->a"))
    timed = RunTable(paths, (TIME,), {TIME.name: np.array([[3.0], [1.0]])})
    counted = RunTable(paths, (VISITS,), {VISITS.name: np.ones((2, 1))})
    runs = tuple((RunKey.of({"p": p}), timed) for p in (1, 2, 4))

    experiment, models = with_own_times(
        Experiment(("p",), (*runs, (RunKey.of({"p": 8}), counted))), ModelSet(("p",))
    )

    assert "time_exclusive" not in experiment.runs[-1][1].values
    assert models.models == []


def test_campaigns_with_both_times_are_left_as_they_are():
    values = {"time": np.ones((1, 2)), "time_exclusive": np.ones((1, 2))}
    table = RunTable((CallPath.parse("main"),), (TIME, TIME_EXCLUSIVE), values)
    experiment = Experiment(("p",), ((RunKey.of({"p": 2}), table),))
    models = ModelSet()

    assert with_own_times(experiment, models) == (experiment, models)


def test_a_single_function_without_ranks_is_judged_and_its_time_belongs_to_its_size():
    laws: dict[str, Law] = {"sort": lambda at: 1e-3 * at["n"] ** 3}

    diagnosis = diagnose(laws, [{"n": n} for n in SCALES], has_size=False)

    assert diagnosis.verdict == "app: sort grows faster than n"
    assert "at n = 512 (without start-up)" in " ".join(diagnosis_lines(diagnosis))


def test_growth_by_orders_of_magnitude_is_certain_though_no_law_is():
    laws: dict[str, Law] = {"search": lambda at: 1e-4 * math.gamma(at["n"])}

    diagnosis = diagnose(laws, [{"n": n} for n in range(7, 16)], has_size=False)

    assert diagnosis.verdict == "app: search grows faster than n"


def test_inclusive_times_are_the_sums_of_exclusive_ones_below():
    paths = tuple(map(CallPath.parse, ("main", "main->a", "main->a->b->c", "idle")))
    own = np.array([[1.0, 2.0], [4.0, np.nan], [np.nan, 8.0], [np.nan, np.nan]])
    table = RunTable(paths, (TIME_EXCLUSIVE,), {"time_exclusive": own})

    experiment, _ = with_own_times(Experiment(("p",), ((RunKey.of({"p": 2}), table),)), ModelSet())

    whole = experiment.runs[0][1].values["time"]
    assert np.nan_to_num(whole).tolist() == [[5.0, 10.0], [4.0, 8.0], [0.0, 8.0], [0.0, 0.0]]
    assert np.isnan(whole[3]).all()


def test_exclusive_times_of_ranks_and_their_calls_have_a_run_time_and_efficiencies():
    paths = tuple(map(CallPath.parse, ("main", "main->work", "main->MPI_Allreduce")))
    own = np.array([[0.0, 0.0], [9.0, 6.0], [1.0, 4.0]])
    table = RunTable(paths, (TIME_EXCLUSIVE,), {"time_exclusive": own})
    key = RunKey.of({"p": 2})
    record = RunRecord(
        "a", key, RunState.COMPLETE, configuration=Configuration.of({"imported": "a"})
    )

    diagnosis = diagnose_experiment(
        Experiment(("p",), ((key, table),)), [record], ModelSet(), program="app"
    )

    assert diagnosis.totals.time is not None
    assert diagnosis.totals.time.value == 10.0
    (whole_run,) = diagnosis.efficiencies
    assert whole_run.scales[0].factors["parallel_efficiency"].value == pytest.approx(0.75)


def test_metrics_that_insitu_does_not_know_are_not_called_free_of_limits():
    paths = (CallPath.parse("main"),)
    metric = Metric("time.avg", "s")
    runs = tuple(
        (RunKey.of({"p": p}), RunTable(paths, (metric,), {metric.name: np.full((1, 1), float(p))}))
        for p in SCALES
    )
    records = [
        RunRecord(
            str(key), key, RunState.COMPLETE, configuration=Configuration.of({"imported": "a"})
        )
        for key, _ in runs
    ]

    diagnosis = diagnose_experiment(
        Experiment(("p",), runs), records, ModelSet(("p",)), program="app"
    )

    assert diagnosis.verdict == "app: nothing is judged: it has only time.avg"
    assert diagnosis.not_judged[0].text.startswith("time.avg: import times of call paths")


def test_start_up_is_no_part_of_a_run_time_that_is_not_known():
    laws: dict[str, Law] = {"solve": lambda at: 10.0, "MPI_Init": lambda at: 1.0}

    diagnosis = diagnose(laws, [{"p": p} for p in SCALES])

    assert diagnosis.start_up is not None
    assert " of " not in diagnosis.start_up.text.split(",")[0]


@pytest.mark.parametrize(
    ("law", "scaling"),
    [
        (lambda at: 1 + 3200 / at["p"], "strong"),
        (lambda at: 10.0, "unknown"),
        (lambda at: 10 + at["p"], "unknown"),
    ],
)
def test_run_times_that_fall_are_those_of_strong_scaling(law, scaling):
    diagnosis = diagnose({"main": law}, [{"p": p} for p in SCALES])

    assert diagnosis.scaling == scaling
    assert (diagnosis.totals.efficiency is not None) == (scaling == "strong")


def test_functions_are_called_fine_each_for_its_own_reason():
    paths = [CallPath.parse(name) for name in ("main->a", "main->b", "main->c")]
    entries = [
        Statement(kind="fine", status=FINE, text=text, callpath=str(path))
        for path, text in zip(paths, ("none", "little", "none"), strict=True)
    ]
    diagnosis = replace(diagnose({"main": lambda at: 1.0}, [{"p": 2}]), fine=tuple(entries))

    assert fine_texts(diagnosis) == ["✔ a, c: none", "✔ b: little"]
    assert set(fine_texts(diagnosis)) <= set(diagnosis_lines(diagnosis))


def test_of_many_steady_functions_the_longest_are_listed():
    laws: dict[str, Law] = {f"f{i}": lambda at, i=i: 1.0 + i for i in range(20)}

    diagnosis = diagnose(laws, [{"nodes": nodes} for nodes in SCALES], has_size=False)

    assert [entry.name for entry in diagnosis.fine] == [f"f{i}" for i in range(19, 11, -1)]


def test_functions_of_the_same_name_are_told_apart_by_their_callers():
    names = ("main->x_solve->loop", "main->y_solve->loop", "main->sort")
    entries = [
        Statement(kind="compute", status=WARNING, text="grows", callpath=name) for name in names
    ]
    whole = diagnose({"main": lambda at: 1.0}, [{"p": p} for p in SCALES])

    lines = diagnosis_lines(replace(whole, statements=tuple(entries)))

    assert [line.strip() for line in lines if line.strip().startswith("in ")] == [
        "in main->x_solve",
        "in main->y_solve",
    ]


@pytest.mark.parametrize(("unit", "is_noted"), [("s", False), ("?", True)])
def test_times_of_an_unknown_unit_are_said_to_be_read_as_seconds(unit, is_noted):
    metric = Metric("time", unit)
    table = RunTable((CallPath.parse("main"),), (metric,), {"time": np.ones((1, 1))})
    key = RunKey.of({"p": 2})
    record = RunRecord("a", key, RunState.COMPLETE)

    diagnosis = diagnose_experiment(
        Experiment(("p",), ((key, table),)), [record], ModelSet(), program="app"
    )

    note = f"the unit of time, '{unit}', is not known: read as s"
    assert (note in diagnosis.notes) == is_noted


def test_growth_without_a_law_has_none():
    """The model of these times is a constant, which says nothing about their growth."""
    seconds = {27: 7.9, 64: 11.4, 125: 13.5, 216: 8.9, 343: 16.4}
    laws: dict[str, Law] = {
        "main": lambda at: 40 + seconds[int(at["p"])],
        "main->step": lambda at: seconds[int(at["p"])],
        "main->step->MPI_Allreduce": lambda at: seconds[int(at["p"])],
    }

    diagnosis = diagnose(laws, [{"p": p} for p in seconds])

    (statement,) = [entry for entry in diagnosis.statements if entry.kind == "communication"]
    assert "has grown from 7.89 s" in statement.text
    assert statement.law is None
