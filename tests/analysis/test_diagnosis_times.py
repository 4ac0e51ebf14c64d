"""Diagnosis: times, samples and shared cores."""

from collections.abc import Mapping

import numpy as np
import pytest

from insitu.analysis.diagnosis.diagnose import (
    diagnose_experiment,
)
from insitu.analysis.diagnosis.gather import gather
from insitu.analysis.diagnosis.steady import COUNTS_FINE
from insitu.analysis.diagnosis.times import comparable_runs
from insitu.entities import (
    CallPath,
    Configuration,
    Finding,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment
from tests.analysis.programs import (
    HEALTHY,
    SCALES,
    TARGET,
    Plan,
    Vector,
    diagnose,
    on_rank_0,
    only_limit,
    spread_evenly,
    strong_plan,
    sweep_plan,
    table_at,
)


def test_one_run_gives_a_profile_and_suspects_but_no_limit():
    plan = {
        "app->main->collect->MPI_Recv": {
            "messages_received": lambda p: on_rank_0(20 * (p - 1), p),
        },
    }

    diagnosis = diagnose(plan, (8,))

    assert diagnosis.limits == ()
    assert diagnosis.profile[0].name == "push"
    suspect = diagnosis.statements[0]
    assert (suspect.status, suspect.run) == ("unclear", "p = 16")
    assert (suspect.ranks, suspect.law, suspect.now) == ("rank 0", "20 (p - 1)", 140.0)


def test_crowded_runs_have_no_judged_times():
    diagnosis = diagnose({}, crowded=True)
    totals = diagnosis.totals.to_dict()
    assert (totals["crowded"], totals["speedup"], totals["efficiency"]) == (True, None, None)

    assert "6 of 6 runs had more ranks than cores" in diagnosis.not_judged[0].text
    assert diagnosis.totals.efficiency_then is None
    assert {entry.text for entry in diagnosis.fine} == {COUNTS_FINE}


def test_the_processor_time_of_sampled_functions_is_judged_on_crowded_cores():
    plan = {
        "app->main->push": {"visits": lambda p: 100, "time_exclusive": lambda p: 0.5 * p},
        "app->main->sort": {"time_exclusive": lambda p: 0.5 * p},
    }

    diagnosis = diagnose(plan, crowded=True, has_models=True)

    limit = only_limit(diagnosis)
    assert (limit.kind, limit.name) == ("compute", "sort")
    assert limit.text.startswith("processor time grows: 6 s at p = 12")


@pytest.mark.parametrize(("poller", "named"), [("wait", []), ("other", ["wait"])])
def test_functions_that_poll_on_crowded_cores_wait_there(poller, named):
    plan = {
        "app->main->wait": {"time_exclusive": lambda p: 0.5 * p},
        f"app->main->{poller}->ask->MPI_Test": {"visits": lambda p: 100 * p},
    }

    diagnosis = diagnose(plan, crowded=True, has_models=True)

    assert [entry.name for entry in diagnosis.statements if entry.kind == "compute"] == named


@pytest.mark.parametrize(
    ("crowded", "is_precise", "named"),
    [(True, False, []), (True, True, ["short"]), (False, False, ["short"])],
)
def test_samples_that_move_from_one_function_to_the_next_are_no_growth(crowded, is_precise, named):
    plan = {
        "app->main->long": {"time_exclusive": lambda p: 7 - 0.5 * p},
        "app->main->short": {"time_exclusive": lambda p: 0.5 * p},
    }

    diagnosis = diagnose(plan, crowded=crowded, is_precise=is_precise, has_models=True)

    assert [entry.name for entry in diagnosis.statements if entry.kind == "compute"] == named
    about = [
        entry.text
        for entry in diagnosis.not_judged
        if "cannot be judged from samples" in entry.text
    ]
    assert bool(about) is crowded


def test_the_profile_says_of_samples_on_shared_cores_that_they_may_be_of_neighbours():
    plan = {
        "app->main->push": {"visits": lambda p: 100, "time_exclusive": lambda p: 1.0},
        "app->main->sort": {"time_exclusive": lambda p: 3.0},
    }

    lines = {entry.name: entry.text for entry in diagnose(plan, (8,), crowded=True).profile}

    assert lines["push"].endswith("(ranks shared cores)")
    may = "may belong to what runs before or after it"
    assert lines["sort"].endswith(f"(ranks shared cores: {may})")
    precise = diagnose(plan, (8,), crowded=True, is_precise=True).profile
    assert all(entry.text.endswith("(ranks shared cores)") for entry in precise)


@pytest.mark.parametrize(
    ("samples", "names"),
    [
        # One in two ranks, and 11 where 6 were due: likelier than 1 in 1000.
        ({2: 0, 3: 0, 4: 0, 6: 2, 8: 3, 12: 11}, []),
        ({2: 8, 3: 18, 4: 32, 6: 72, 8: 128, 12: 288}, ["solve"]),
    ],
)
def test_the_processor_time_of_few_samples_grows_by_chance(
    samples: Mapping[int, int], names: list[str]
) -> None:
    interval_s = 0.01
    plan: Plan = {
        "app": {"visits": lambda p: 1, "time": lambda p: 1.0, "time_exclusive": lambda p: 0.1},
        "app->main->solve": {"time_exclusive": lambda p: interval_s * spread_evenly(samples[p], p)},
        "app->main->solve->MPI_Barrier": {"visits": lambda p: 1},
    }

    found = diagnose(plan, crowded=True, has_models=True, base={}, sampling_s=interval_s)

    assert [entry.name for entry in found.statements] == names


def test_the_few_samples_of_a_short_function_are_those_of_its_caller():
    """tabulate.f90 of tests/evaluation/plants/held_out on 2 to 12 ranks, as measured."""
    interval_s = 0.01031
    of_main = {
        2: [2, 2],
        3: [1, 2, 0],
        4: [1, 2, 1, 2],
        6: [0, 1, 2, 0, 0, 3],
        8: [2, 0, 1, 1, 2, 2, 1, 4],
        12: [1, 3, 1, 0, 2, 1, 2, 3, 0, 1, 0, 2],
    }
    own = {
        6: [3, 1, 4, 1, 1, 1],
        8: [5, 7, 5, 6, 3, 4, 5, 3],
        12: [3, 6, 7, 5, 3, 5, 5, 8, 6, 7, 10, 4],
    }

    def seconds(samples):
        return lambda p: interval_s * np.array(samples.get(p, [np.nan] * p), float)

    plan: Plan = {
        "app": {"visits": lambda p: 1, "time": lambda p: 1.0, "time_exclusive": lambda p: 0.1},
        "app->main": {"time_exclusive": seconds(of_main)},
        "app->main->tabulate": {"time_exclusive": seconds(own)},
        "app->main->MPI_Barrier": {"visits": lambda p: 1},
    }

    found = diagnose(plan, crowded=True, has_models=True, base={}, sampling_s=interval_s)

    (statement,) = found.statements
    assert (statement.status, statement.name) == ("unclear", "tabulate")
    assert "processor time, with that of main, has grown from 20.6 ms" in statement.text


def test_time_that_samples_do_not_explain_is_not_said_to_be_that_of_the_program():
    plan = {
        "app": {"visits": lambda p: 1, "time_exclusive": lambda p: 4.0},
        "app->main->push": {"visits": lambda p: 100, "time_exclusive": lambda p: 1.0},
    }
    sampled = {**plan, "app->main->sort": {"time_exclusive": lambda p: 3.0}}

    lines = [diagnose(each, (8,), base={}).profile[0] for each in (plan, sampled)]

    assert lines[0].text == "80 % of the time at p = 8"
    assert lines[1].text == (
        "50 % of the time at p = 8 is in no sampled function, as when waiting for files or a"
        " processor"
    )


def test_sampled_functions_without_a_bound_on_their_time_are_not_judged_rather_than_fine():
    plan = {
        "app->main->steady": {"time_exclusive": lambda p: 0.5},
        "app->main->rare": {"time_exclusive": lambda p: 0.2 * (1 + 0.6 * (-1) ** p)},
    }

    diagnosis = diagnose(plan, crowded=True, has_models=True)

    assert diagnosis.limits == ()
    fine = {entry.name: entry.text for entry in diagnosis.fine}
    assert fine["steady"] == "processor time does not grow enough to matter up to p = 96"
    assert "rare" not in fine
    assert any("growth of rare" in entry.text for entry in diagnosis.not_judged)


def test_growth_with_wide_bounds_is_unclear_and_not_fine():
    plan = {"app->main->sort": {"time_exclusive": lambda p: 0.5 * p * (1 + 0.3 * (-1) ** p)}}

    diagnosis = diagnose(plan, (1, 2, 3, 4), crowded=True, has_models=True)

    (statement,) = [entry for entry in diagnosis.statements if entry.name == "sort"]
    assert (statement.kind, statement.status) == ("compute", "unclear")
    assert "sort" not in {entry.name for entry in diagnosis.fine}


def test_the_run_time_is_predicted_with_bounds_as_far_as_times_reach():
    totals = diagnose(strong_plan(0.0)).totals

    predicted = totals.predicted
    assert predicted is not None
    assert predicted.efficiency is not None
    assert predicted.p == 8 * 12
    truth = 1000.0 / 96 + 0.1
    assert predicted.time.low <= truth <= predicted.time.high
    assert predicted.efficiency.value == pytest.approx((500.1 / truth) / 48, rel=0.05)


def test_imports_and_the_start_of_mpi_are_told_apart():
    plan = {
        "app->(import)": {"visits": lambda p: 1, "time": lambda p: 2.0},
        "app->(import)->MPI_Init": {"visits": lambda p: 1, "time": lambda p: 0.5},
        "app->main->MPI_Finalize": {"visits": lambda p: 1, "time": lambda p: 0.25},
        "app->stop->MPI_Finalize": {"visits": lambda p: 1, "time": lambda p: 0.125},
    }

    diagnosis = diagnose(plan)
    start_up = diagnosis.totals.start_up

    assert (start_up.imports_s, start_up.init_s, start_up.finalize_s) == (1.5, 0.5, 0.375)
    assert diagnosis.start_up is not None
    assert " s at p = 12, apart from" in diagnosis.start_up.text


def test_the_time_of_a_compiled_program_outside_of_main_is_start_up() -> None:
    def late(p: int) -> np.ndarray:
        return np.where(np.arange(p) == 1, 9.0, 0.1)

    def plan(init: str) -> Plan:
        return {
            "app": {
                "visits": lambda p: 1,
                "time": lambda p: 9.0 + late(p),
                "time_exclusive": late,
            },
            init: {"visits": lambda p: 1, "time": lambda p: 0.5, "time_exclusive": lambda p: 0.5},
        }

    compiled = diagnose(plan("app->main->MPI_Init"))
    script = diagnose(plan("app->(import)->MPI_Init"))

    assert [entry.kind for entry in compiled.statements] == []
    assert compiled.totals.time is not None
    assert compiled.totals.time.value == pytest.approx(8.5)
    assert [entry.name for entry in script.statements if entry.kind == "imbalance"] == ["app"]


def test_functions_that_were_throttled_are_neither_fine_nor_without_growth():
    runs = [(RunKey.of({"p": p}), table_at(HEALTHY, p)) for p in SCALES]
    text = (
        "timing these functions would have taken more than 2 % of the time; they count as part of"
        " their callers from then on: inside (2592000 visits), box<3, 4>::at (12 visits);"
        " use --skip to leave them out of all runs"
    )
    finding = Finding("throttled", text)
    records = [
        RunRecord(
            str(key),
            key,
            RunState.COMPLETE,
            configuration=Configuration.of({}),
            findings=(finding,),
        )
        for key, _ in runs
    ]
    sites = {
        CallPath.parse("app->main->push->inside"): ("locate.c", 6),
        CallPath.parse("app->main->push->box<3, 4>::at"): ("locate.c", 9),
    }

    diagnosis = diagnose_experiment(
        Experiment(("p",), tuple(runs), {}),
        records,
        ModelSet(),
        program="app",
        target=TARGET,
        sites=sites,
    )

    names = {entry.name: entry for entry in diagnosis.not_judged}
    assert {"inside", "box<3, 4>::at"} <= set(names)
    assert names["inside"].where == "locate.c:6"
    assert (names["inside"].ranks, names["inside"].metric) == ("all", "visits")
    assert "push" not in {entry.name for entry in diagnosis.fine}


@pytest.mark.parametrize(
    ("factor", "text"), [(1.8, "1.8 times slower"), (1 / 1.8, "1.8 times faster")]
)
def test_a_run_that_differs_from_its_repetitions_in_all_functions_is_disturbed(factor, text):
    plan = {
        f"app->main->part{i}": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.5}
        for i in range(6)
    }
    runs = []
    for p in (2, 4):
        for repetition in range(3):
            table = table_at({**HEALTHY, **plan}, p)
            noise = 1 + 0.01 * repetition
            table.values["time_exclusive"][:] *= factor if (p, repetition) == (4, 1) else noise
            runs.append((RunKey.of({"p": p}, repetition), table))
    experiment = Experiment(("p",), tuple(runs), {})

    diagnosis = diagnose_experiment(experiment, [], ModelSet(), program="app", target=TARGET)

    (statement,) = [entry for entry in diagnosis.statements if entry.kind == "run"]
    assert statement.text.startswith(f"run p=4#1 was disturbed: {text} than its repetitions in")
    assert statement.now == pytest.approx(factor, rel=0.03)
    assert (statement.ranks, statement.metric, statement.unit) == ("all", "time_exclusive", "s")


def test_a_rank_that_was_once_delayed_on_shared_cores_makes_no_work_between_messages() -> None:
    """The run on 6 ranks was: its 240 messages took 1 s longer than those of the other runs."""
    delayed_s = {6: 1.0}
    plan = dict(sweep_plan("MPI_Send"))
    plan["app->main->sweep->MPI_Recv"] |= {
        "message_chain": lambda p: 40 * p,
        "message_chain_time": lambda p: 40 * p * 1e-5 + delayed_s.get(p, 0.0),
    }
    base = {**HEALTHY, "app": {**HEALTHY["app"], "processor_wait": lambda p: 6.0}}

    found = diagnose(plan, crowded=True, base=base)

    (statement,) = [entry for entry in found.statements if entry.metric == "message_chain"]
    assert statement.seconds == pytest.approx(65_536 * 40 * (1.5e-6 + 0.4e-5), rel=0.01)


def test_times_of_a_run_whose_ranks_waited_for_processors_are_not_judged() -> None:
    """Rank 0 of the largest run waits for 1 of 10 s, or for 3 s: then it may only seem slow."""
    plan: Plan = {
        "app->main->entry": {
            "visits": lambda p: 100,
            "time_exclusive": lambda p: on_rank_0(3.0, p) + 1.0,
        }
    }
    for queued_s, names, why in (
        (1.0, ["entry"], []),
        (
            3.0,
            [],
            [
                "times: in 1 of 2 runs, other processes used the cores: ranks waited for a"
                " processor for up to 30 % of their time"
            ],
        ),
    ):
        queued = {"processor_wait": lambda p, s=queued_s: on_rank_0(s, p) if p > 1 else 0.0}
        base = {**HEALTHY, "app": {**HEALTHY["app"], **queued}}

        diagnosis = diagnose(plan, (1, 2), base=base)

        found = [entry.name for entry in diagnosis.statements if entry.kind == "imbalance"]
        assert found == names
        assert [entry.text for entry in diagnosis.not_judged if entry.kind == "time"] == why


def test_repetitions_beside_other_processes_are_not_compared_with_the_others() -> None:
    tables = [
        table_at({**HEALTHY, "app": {**HEALTHY["app"], "processor_wait": lambda p, s=s: s}}, 2)
        for s in (1.0, 3.0, 1.5)
    ]
    runs = tuple((RunKey.of({"p": 2}, i), table) for i, table in enumerate(tables))

    measurements = gather(Experiment(("p",), runs, {}), {}, {})
    (group,) = measurements.groups

    for run, comparable in ((group[0], (0, 2)), (group[1], (0, 1, 2))):
        found = comparable_runs(measurements, run)
        assert [other.key.repetition for other in found] == list(comparable)


def test_runs_that_shared_cores_ask_for_cores_of_their_own():
    plan = {"app->main->step": {"visits": lambda p: 20, "time_exclusive": lambda p: 1.0}}

    diagnosis = diagnose(plan, (4, 6, 8, 12, 16), crowded=True)

    assert "no limit in counts up to 65,536 ranks" in diagnosis.verdict
    assert diagnosis.next_run == "p = 16 on as many free cores: times are judged only there"


@pytest.mark.parametrize(
    ("blocked_s", "is_stated"),
    [
        (lambda p: 0.2 + 0.07 * p, True),
        (lambda p: 0.2, False),
        (lambda p: 0.2 + 0.001 * p, False),  # grows by 10 ms
        (lambda p: {2: 0.3, 3: 0.9, 4: 0.2, 6: 0.8, 8: 0.4, 12: 0.9}[p], False),  # chance
        (lambda p: 0.07 * p if p > 2 else 0.0, False),  # unknown at one scale
    ],
)
def test_ranks_that_are_blocked_for_longer_at_each_scale_are_unclear(
    blocked_s: Vector, is_stated: bool
) -> None:
    base = {**HEALTHY, "app": {**HEALTHY["app"], "blocked_time": blocked_s}}

    statements = diagnose({}, crowded=True, base=base).statements

    found = [entry for entry in statements if entry.metric == "blocked_time"]
    assert bool(found) is is_stated
    if found:
        assert found[0].status == "unclear"
        assert "340 ms at p = 2 and 1.04 s at p = 12" in found[0].text


@pytest.mark.parametrize(("last_at_6", "is_named"), [(3.0, True), (1.0, False)])
def test_few_samples_of_three_scales_are_judged_together(last_at_6: float, is_named: bool) -> None:
    """remainder.f90 of tests/evaluation: the last rank has the rest; late samples make noise."""
    of_others = {
        6: [2.4, 1.1, 2.0, 1.8, 2.1],
        8: [2.1, 1.0, 1.5, 0.3, 1.4, 1.8, 0.9],
        12: [0.5, 0.5, 0.9, 1.0, 0.4, 0.5, 0.8, 0.5, 0.6, 0.4, 0.9],
    }
    of_last = {6: last_at_6, 8: 2.6, 12: 2.1}
    plan: Plan = {
        "app": {"time": lambda p: 10.0, "time_exclusive": lambda p: 0.1},
        "app->main->relax": {
            "time_exclusive": lambda p: np.array(
                [*of_others[p], of_last[p]] if p in of_others else [6.0 / p] * p
            )
        },
        "app->main->halo->MPI_Barrier": {"visits": lambda p: 100, "comm_ranks": lambda p: 100 * p},
    }

    statements = diagnose(plan, crowded=True, base={}, sampling_s=0.1).statements

    found = [entry for entry in statements if entry.kind == "imbalance"]
    named = [(entry.ranks, entry.name, entry.status) for entry in found]
    assert named == ([("last rank", "relax", "unclear")] if is_named else [])


def test_runs_without_samples_are_left_out_where_ranks_are_compared_by_theirs():
    """The last run was made with `--sample off`."""

    def times(p: int) -> np.ndarray:
        vector = np.full(p, 0.4)
        vector[3:4] = 0.9
        return vector

    plan: Plan = {
        "app": {"time": lambda p: 10.0, "time_exclusive": lambda p: 0.1},
        "app->main->smooth": {"time_exclusive": times},
        "app->main->halo->MPI_Barrier": {"visits": lambda p: 100, "comm_ranks": lambda p: 100 * p},
    }
    scales = (1, 2, 4, 6, 8, 12, 16)

    diagnosis = diagnose(plan, scales, crowded=True, base={}, sampling_s=0.01, unsampled=16)

    [named] = [entry for entry in diagnosis.statements if entry.kind == "imbalance"]
    assert named.ranks == "rank 3"
    assert "rank 3 has 90 samples of smooth, no other rank more than 40, at p = 12" in named.text
