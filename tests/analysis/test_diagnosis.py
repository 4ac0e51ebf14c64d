"""Diagnosis: planted limits are found with their law, and healthy programs have none."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from insitu.analysis.diagnosis.diagnose import (
    diagnose_experiment,
)
from insitu.analysis.diagnosis.gather import gather
from insitu.analysis.diagnosis.lines import diagnosis_lines
from insitu.analysis.diagnosis.machine import parse_machine
from insitu.analysis.diagnosis.measurements import RankSeries
from insitu.analysis.diagnosis.scales import next_scale
from insitu.analysis.diagnosis.steady import TimeBounds
from insitu.entities import (
    CallPath,
    Configuration,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.errors import UsageError
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
    table_at,
)


def test_a_healthy_program_has_no_limit():
    diagnosis = diagnose({})

    assert diagnosis.limits == ()
    assert "no limit found up to 65,536 ranks" in diagnosis.verdict
    assert {"push", "reduce"} <= {entry.name for entry in diagnosis.fine}


def test_functions_that_are_fine_are_listed_by_their_time():
    plan: Plan = {
        f"app->main->{name}": {"visits": lambda p: 1, "time_exclusive": lambda p, s=seconds: s}
        for name, seconds in (("b", 0.5), ("c", 2.0), ("a", 1.0))
    }

    fine = [entry.name for entry in diagnose(plan).fine]

    assert [name for name in fine if len(name) == 1] == ["c", "a", "b"]


def test_the_objects_that_ranks_gather_come_before_their_sizes():
    plan: Plan = {
        "app->main->ghosts->MPI_Allgather": {  # of the sizes of objects
            "visits": lambda p: 100,
            "bytes_received": lambda p: 800 * p,
            "comm_ranks": lambda p: 100 * p,
        },
        "app->main->ghosts->MPI_Allgatherv": {
            "visits": lambda p: 100,
            "bytes_received": lambda p: 40_000 * p + (37 * p) % 101,
            "comm_ranks": lambda p: 100 * p,
        },
    }

    (statement,) = diagnose(plan, (1, 2, 4, 8)).statements

    assert (statement.name, statement.status) == ("ghosts", "unclear")
    assert statement.severity >= 1
    assert len(statement.also) == 1  # the sizes, which use up their budget far beyond the target


def test_a_function_with_many_callers_is_not_judged_in_one_statement():
    plan = {
        f"app->main->{caller}->halo->MPI_Isend": {
            "messages_sent": lambda p, each=each: each * (p - 1)
        }
        for each, caller in ((2000, "smooth"), (1000, "restrict"), (500, "prolong"))
    }

    diagnosis = diagnose(plan, (1, 2, 4, 8))

    (unjudged,) = [entry for entry in diagnosis.not_judged if entry.name == "halo"]
    assert unjudged.callpath == "app->main->smooth->halo"
    assert unjudged.text.endswith("; the same for 2 more call paths")
    assert len(unjudged.also) == 2


def test_a_set_up_loop_over_all_ranks_belongs_to_the_function_that_loops():
    plan = {
        "app->main->setup": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.001},
        "app->main->setup->cell_of": {
            "visits": lambda p: 20 * p,
            "time_exclusive": lambda p: 20 * p * 2e-4,
        },
    }

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.name, limit.law) == ("compute", "setup", "20 p")
    assert "cell_of" in limit.text


def test_growth_of_the_classes_of_a_call_path_is_said_once():
    def is_odd(p: int) -> np.ndarray:
        return np.arange(p) % 2

    plan = {
        "app->main->exchange->MPI_Sendrecv": {
            "visits": lambda p: 100 + 50 * is_odd(p),
            "time_exclusive": lambda p: (0.05 + 0.01 * is_odd(p)) * p,
        },
    }

    diagnosis = diagnose(plan, has_models=True)

    (grows,) = [entry for entry in diagnosis.statements if entry.kind == "communication"]
    assert (grows.name, grows.status) == ("exchange", "limit")
    assert [text.split(":")[0] for text in grows.also] == ["all", "A"]


def test_templates_of_the_standard_library_belong_to_the_function_that_uses_them():
    grow = "app->main->splitters->std::vector<long>::_M_default_append"

    path = CallPath.parse(grow)

    measurements = gather(
        Experiment(("p",), ((RunKey.of({"p": 2}), table_at({grow: {}}, 2)),)), {}, {}
    )

    assert measurements.owners[path].name == "splitters"


def test_packages_that_call_mpi_are_named_where_a_script_has_no_function_of_its_own() -> None:
    """As in a script that uses dolfinx: `poisson.py` alone would say nothing."""
    per_rank = {"visits": lambda p: 1, "messages_sent": lambda p: 5 * p, "bytes_sent": lambda p: p}
    once: Mapping[str, Vector] = {"visits": lambda p: 1}
    plan: Plan = {
        "app.py->fem.mesh.create": once,
        "app.py->fem.mesh.create->numpy.unique": once,
        "app.py->fem.mesh.create->MPI_Isend": per_rank,
        "app.py->relax->fem.mesh.refine": once,
        "app.py->relax->fem.mesh.refine->MPI_Isend": per_rank,
        "app.py->numpy.unique": once,
    }
    installed = {
        path: (f"/env/lib/python3.11/site-packages/{path.rpartition('->')[2]}.py", 8)
        for path in plan
        if "." in path.rpartition("->")[2]
    }

    def owners(plan: Plan) -> dict[str, str]:
        runs = tuple((RunKey.of({"p": p}), table_at(plan, p)) for p in (2, 4))
        sites = {CallPath.parse(path): site for path, site in installed.items()}
        found = gather(Experiment(("p",), runs), sites, {}).owners
        return {str(path): owner.name for path, owner in found.items()}

    as_library = owners(plan)
    calls = {f"app.py->fem.mesh.f{i}->MPI_Isend": per_rank for i in range(12)}
    installed |= {path.rpartition("->")[0]: ("/lib/site-packages/fem.py", 9) for path in calls}
    as_program = owners({**plan, **calls, **dict.fromkeys(list(installed)[-12:], once)})

    for path in list(plan)[:3]:
        assert as_library[path] == as_program[path] == "fem.mesh.create"
    assert as_library["app.py->relax->fem.mesh.refine->MPI_Isend"] == "relax"
    assert as_program["app.py->relax->fem.mesh.refine->MPI_Isend"] == "fem.mesh.refine"
    assert as_library["app.py->numpy.unique"] == as_program["app.py->numpy.unique"] == "app.py"


@pytest.mark.parametrize(
    ("inside", "is_shown", "is_told"), [(3.0, False, True), (0.2, False, False), (3.0, True, False)]
)
def test_a_package_that_hides_most_of_the_time_is_named(
    inside: float, is_shown: bool, is_told: bool
) -> None:
    solve = "app.py->ase.atoms.Atoms.get_energy"
    plan: Plan = {
        "app.py": {"visits": lambda p: 1, "time": lambda p: 4.0, "time_exclusive": lambda p: 0.5},
        solve: {"visits": lambda p: 1, "time": lambda p: 3.5, "time_exclusive": lambda p: inside},
        f"{solve}->MPI_Bcast": {"visits": lambda p: 9, "time": lambda p: 0.1},
    }

    sites = {solve: ("/env/lib/python3.11/site-packages/ase/atoms.py", 713)}
    for name in ("ase.atoms.Atoms.begin", "ase.units.find"):  # a little of the time
        little = {"visits": lambda p: 1, "time": lambda p: 0.1, "time_exclusive": lambda p: 0.1}
        plan = {**plan, f"app.py->{name}": little, f"app.py->{name}->MPI_Bcast": little}
        sites[f"app.py->{name}"] = sites[solve]
    if is_shown:
        plan = {**plan, f"{solve}->ase.atoms.copy": {"visits": lambda p: 1}}
        sites[f"{solve}->ase.atoms.copy"] = sites[solve]
    notes = " ".join(diagnose(plan, (2,), base={}, sites=sites).notes)

    text = "78 % of the time at p = 2 is inside ase.atoms.Atoms.get_energy, which calls MPI: insitu"
    assert (f"{text} run --package ase shows the functions of ase" in notes) == is_told


def test_machine_values_are_checked():
    machine = parse_machine("memory=512e9,ranks_per_node=128,bandwidth=25e9")

    assert machine.memory_bytes == pytest.approx(0.9 * 4e9)
    assert machine.bandwidth == pytest.approx(25e9 / 128)
    with pytest.raises(UsageError, match="available: latency"):
        parse_machine("memoy=1")


def test_a_search_tree_over_all_ranks_grows_by_rounds():
    def visits(p: int) -> int:
        return 100 * p * (p - 1).bit_length()

    plan = {
        "app->main->search": {"visits": lambda p: 10, "time_exclusive": lambda p: 0.001},
        "app->main->search->probe": {
            "visits": visits,
            "time_exclusive": lambda p: 1e-5 * visits(p),
        },
    }

    limit = only_limit(diagnose(plan))

    assert (limit.name, limit.law) == ("search", "100 p ceil(log2(p))")


def test_work_whose_cost_is_part_of_a_limit_is_not_called_fine():
    plan = {
        "app->main->ring": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.001},
        "app->main->ring->MPI_Sendrecv": {
            "messages_sent": lambda p: 2000 * (p - 1),
            "messages_received": lambda p: 2000 * (p - 1),
        },
        "app->main->ring->interact": {
            "visits": lambda p: 20 * p,
            "time_exclusive": lambda p: 0.02 * p,
        },
    }

    diagnosis = diagnose(plan)

    assert only_limit(diagnosis).name == "ring"
    assert "interact" not in {entry.name for entry in diagnosis.fine}


def test_two_runs_give_ratios():
    plan = {
        "app->main->swap": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.5 * p},
        "app->main->swap->MPI_Isend": {"messages_sent": lambda p: 100 * p**0.5},
    }

    diagnosis = diagnose(plan, (4, 9))

    assert diagnosis.limits == ()
    (suspect,) = (entry for entry in diagnosis.statements if entry.name == "swap")
    assert "1.5 times as many as at p = 4" in suspect.text
    assert suspect.run == "p = 25"  # 4 and 9 are squares
    (profile,) = (entry for entry in diagnosis.profile if entry.name == "swap")
    assert "2.2 times as long as at p = 4" in profile.text


def test_a_function_that_had_nothing_to_do_on_few_ranks_has_no_ratio():
    plan = {
        "app->main->swap": {"visits": lambda p: 20, "time_exclusive": lambda p: 1e-5 * p**6},
        "app->main->work": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.5},
    }

    (profile,) = (entry for entry in diagnose(plan, (1, 8)).profile if entry.name == "swap")

    assert "; less than 1.0 % at p = 1" in profile.text


def test_one_run_suspects_no_count_that_merely_is_a_multiple_of_p():
    plan = {
        "app->main->halo": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.5},
        "app->main->halo->MPI_Isend": {"messages_sent": lambda p: 80},
    }

    assert diagnose(plan, (4,)).statements == ()


def test_the_efficiency_at_the_target_counts_the_operation_that_costs_most():
    """An object that is gathered goes by two operations of the same function."""
    plan = {
        "app->main->save->MPI_Gather": {
            "visits": lambda p: 100,
            "bytes_received": lambda p: on_rank_0(400 * p, p),
        },
        "app->main->save->MPI_Gatherv": {
            "visits": lambda p: 100,
            "bytes_received": lambda p: on_rank_0(1e6 * p, p),
        },
    }

    diagnosis = diagnose(plan)

    limit = only_limit(diagnosis)
    assert limit.seconds is not None
    assert diagnosis.totals.efficiency_then == pytest.approx(
        10.0 / (10.0 + limit.seconds), rel=0.05
    )


def test_complete_runs_that_ended_with_an_error_are_named():
    """Their values may be those of a part of the program."""
    runs = [(RunKey.of({"p": p}), table_at(HEALTHY, p)) for p in SCALES]
    statuses = {3: (0, 1, 0), 4: (-1000, 0, 0, 0), 6: (2,) * 6}
    records = [
        RunRecord(
            str(key),
            key,
            RunState.COMPLETE,
            exit_status=statuses.get(key.size, ()),
            configuration=Configuration.of({}),
        )
        for key, _ in runs
    ]

    diagnosis = diagnose_experiment(
        Experiment(("p",), tuple(runs), {}), records, ModelSet(), program="app", target=TARGET
    )

    (failed,) = [entry.text for entry in diagnosis.statements if entry.kind == "run"]
    assert failed == (
        "2 of 6 runs ended with exit code 1 and exit code 2 (p=3#0, p=6#0): if the program failed,"
        " leave them out with `insitu omit`"
    )


def test_calls_of_an_unchanged_program_in_every_step_have_the_budget_of_its_run():
    """The visits of its functions are unknown."""
    plan = {
        "app->main->share->MPI_Bcast": {
            "visits": lambda p: 50 * p,
            "bytes_received": lambda p: 25_600 * (p - 1),
        },
    }

    limit = only_limit(diagnose(plan, target={"p": 1200.0}))

    assert limit.severity == pytest.approx((limit.seconds or 0) / (0.05 * 10.0))


def test_communicators_created_in_a_loop_over_all_ranks_are_a_limit():
    plan: Plan = {
        "app->main->pair_up": {"visits": lambda p: 20, "time_exclusive": lambda p: 1e-4},
        "app->main->pair_up->MPI_Comm_split": {"visits": lambda p: 20 * p},
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.exact) == ("messages", "pair_up", True)
    assert "calls MPI_Comm_split 20 p times" in limit.text


def test_an_mpi_call_that_a_script_makes_is_named_once():
    plan: Plan = {"app->MPI_Barrier": {"visits": lambda p: 2000 * p}}

    limit = only_limit(diagnose(plan, crowded=True))

    assert limit.text.startswith("each rank calls MPI_Barrier 2,000 p times: ")


@pytest.mark.parametrize(
    ("call", "visits", "is_named"),
    [
        ("MPI_Comm_split", lambda p: 400, True),
        ("MPI_Comm_split", lambda p: 1, False),  # at the beginning
        ("MPI_Comm_dup", lambda p: 400, False),
        ("MPI_Comm_split", lambda p: 400 if p < 12 else 300, False),  # until it has converged
    ],
)
def test_communicators_that_are_split_in_each_step_cost_lists_of_all_ranks(call, visits, is_named):
    plan: Plan = {
        f"app->main->make_stage->{call}": {"visits": visits},
        "app->main->make_stage->MPI_Comm_free": {"visits": visits},
    }

    statements = diagnose(plan, crowded=True).statements

    found = [(entry.kind, entry.status, entry.name, entry.law) for entry in statements]
    assert found == ([("messages", "unclear", "make_stage", "400 p")] if is_named else [])


@pytest.mark.parametrize(
    ("n_calls", "target", "status"), [(61, 1024, "limit"), (1, 30_000, "warning")]
)
def test_a_compiled_function_that_one_rank_leaves_at_once_is_visited_often(
    n_calls: int, target: float, status: str
) -> None:
    """TeaLeaf with p barriers in each exchange, which one rank does not make: 61 visits."""
    plan: Plan = {
        "app->main": {"time_exclusive": lambda p: 0.01},
        "app->main->exchange->MPI_Barrier": {"visits": lambda p: n_calls * p if p > 1 else 0},
    }

    found = diagnose(plan, (1, 2, 3, 4, 6, 8), target={"p": target}, base={}).statements

    (statement,) = [entry for entry in found if entry.kind == "messages"]
    assert (statement.name, statement.status) == ("exchange", status)


def test_what_a_thread_of_one_rank_does_for_all_is_named_by_its_function() -> None:
    plan: Plan = {
        "app->(thread)": {"visits": lambda p: on_rank_0(1, p)},
        "app->(thread)->compress": {
            "visits": lambda p: on_rank_0(10 * p, p),
            "time_exclusive": lambda p: on_rank_0(0.5 * p, p),
        },
    }

    (statement,) = diagnose(plan, crowded=True).statements

    assert (statement.kind, statement.name, statement.law) == ("serial", "compress", "10 p")


def test_functions_that_one_rank_repeats_for_one_caller_are_one_statement() -> None:
    def on_first(value: float) -> Vector:
        return lambda p: [value if rank == 0 else 0 for rank in range(p)]

    plan: Plan = {
        "app->main": {"visits": lambda p: 1, "time": lambda p: 9.0, "time_exclusive": lambda p: 0},
        "app->main->element": {
            "visits": lambda p: 480 / p * 100,
            "time_exclusive": lambda p: 2.0 / p,
        },
        "app->main->read->parse": {"visits": on_first(1200), "time_exclusive": on_first(0.2)},
        "app->main->read->parse->word": {
            "visits": on_first(50_400),
            "time_exclusive": on_first(0.1),
        },
        "app->main->read": {
            "visits": lambda p: 5,
            "time_exclusive": lambda p: 1e-6,
        },
    }

    found = diagnose(plan, (2, 4, 6, 8, 12, 16), base={}, crowded=True).statements

    (statement,) = [entry for entry in found if "more ranks do not save" in entry.text]
    assert (statement.kind, statement.ranks) == ("serial", "rank 0")
    assert statement.callpath == "app->main->read->parse"
    # 0.3 s alone beside 2 s / 16 of shared work; each function once had its own, larger share.
    assert "71 % of its computing at p = 16, 300 ms" in statement.text


def test_calls_of_several_operations_in_one_loop_are_one_statement() -> None:
    plan: Plan = {
        f"app->main->groups->{name}": {"visits": lambda p: 100 * p, "comm_ranks": lambda p: p}
        for name in ("MPI_Comm_split", "MPI_Allreduce", "MPI_Comm_free")
    }

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.name) == ("messages", "groups")
    assert all(name in limit.text for name in ("Comm_split", "Allreduce", "Comm_free"))


def test_work_that_each_rank_repeats_while_the_rest_is_shared_is_named() -> None:
    plan: Plan = {
        "app->main->cell": {
            "visits": lambda p: 24_000 // p,
            "time_exclusive": lambda p: 2.4 / p,
        },
        "app->main->tables->entry": {"visits": lambda p: 600, "time_exclusive": lambda p: 0.3},
    }
    base = {path: values for path, values in HEALTHY.items() if "push" not in path}
    last: Plan = {
        "app->main->cell": {
            "visits": lambda p: [0] * (p - 1) + [24_000],
            "time_exclusive": lambda p: [0.0] * (p - 1) + [2.4],
        },
        "app->main->entry": {"visits": lambda p: 600, "time_exclusive": lambda p: 0.3},
    }

    (statement,) = diagnose(plan, base=base, crowded=True).statements
    others = diagnose(last, base=base, crowded=True).statements

    assert (statement.kind, statement.status, statement.now) == ("compute", "warning", 600)
    assert "compute" not in {entry.kind for entry in others}


def test_work_of_one_rank_that_more_ranks_do_not_save_is_named_with_its_function() -> None:
    def plan(seconds: Callable[[int], float]) -> Plan:
        return {
            "app->main->cell": {
                "visits": lambda p: 24_000 // p,
                "time_exclusive": lambda p: 2.4 / p,
            },
            "app->main->factorise": {"visits": lambda p: on_rank_0(8, p)},
            "app->main->factorise->row": {
                "visits": lambda p: on_rank_0(2_400, p),
                "time_exclusive": lambda p: on_rank_0(seconds(p), p),
            },
        }

    base = {path: values for path, values in HEALTHY.items() if "push" not in path}

    (serial,) = diagnose(plan(lambda p: 0.24), base=base, crowded=True).statements
    shrinking = diagnose(plan(lambda p: 0.96 / p), base=base, crowded=True).statements

    assert (serial.kind, serial.status, serial.ranks) == ("serial", "warning", "rank 0")
    assert (serial.callpath, serial.now) == ("app->main->factorise", 2_400)
    assert "serial" not in {entry.kind for entry in shrinking}


def test_little_work_of_one_rank_does_not_hide_more_of_another_function() -> None:
    plan: Plan = {
        "app->main->cell": {
            "visits": lambda p: 24_000 // p,
            "time_exclusive": lambda p: 2.4 / p,
        },
        "app->main->aside": {
            "visits": lambda p: on_rank_0(200, p),
            "time_exclusive": lambda p: on_rank_0(0.001, p),
        },
        "app->main->factorise": {
            "visits": lambda p: on_rank_0(2_400, p),
            "time_exclusive": lambda p: on_rank_0(0.24, p),
        },
    }
    base = {path: values for path, values in HEALTHY.items() if "push" not in path}

    found = diagnose(plan, base=base, crowded=True).statements

    assert [(entry.kind, entry.name) for entry in found] == [("serial", "factorise")]


def test_work_that_each_rank_repeats_is_no_limit_however_little_the_rest_becomes() -> None:
    plan: Plan = {
        "app->main->cell": {
            "visits": lambda p: 96_000 // p,
            "time_exclusive": lambda p: 2_400 / p,
        },
        "app->main->entry": {"visits": lambda p: 600, "time_exclusive": lambda p: 300.0},
    }
    base = {path: values for path, values in HEALTHY.items() if "push" not in path}

    found = diagnose(plan, (2, 4, 8, 96, 9_600), base=base, crowded=True).statements
    (statement,) = (entry for entry in found if entry.status == "warning")

    assert (statement.kind, statement.name) == ("compute", "entry")
    assert statement.seconds == pytest.approx(300)
    assert statement.severity == pytest.approx(0.99)  # that of limits begins at 1


def test_no_run_is_asked_for_because_of_what_mpi_allocates_or_spins() -> None:
    def jump(p: int) -> float:
        return 9e6 if p == 12 else 3e6

    whole = {"bytes_allocated": jump, "cpu_time": lambda p: jump(p) / 1e6}
    own = {"app->main->grow": {"visits": lambda p: 1, "bytes_allocated": jump}}

    whole_plan: Plan = {
        "app": {**HEALTHY["app"], **whole},
        "app->main->answer": {"visits": lambda p: 1, "bytes_allocated": jump},
        "app->main->answer->MPI_Iprobe": {
            "visits": lambda p: 1,
            "bytes_allocated": lambda p: jump(p) - 3e6,
        },
    }

    fine = diagnose(whole_plan, crowded=True, has_models=True)
    open_question = diagnose(own, crowded=True, has_models=True)

    assert fine.next_run is None or "again" not in fine.next_run
    assert "bytes_allocated of grow" in (open_question.next_run or "")


def test_counts_ask_for_a_new_scale_in_lines_that_are_wrapped() -> None:
    jump = {"visits": lambda p: 1, "bytes_received": lambda p: 1e6 if p == 12 else 1e3}
    plan: Plan = {"app->main->gather_the_boundary_of_the_domain": jump}

    diagnosis = diagnose(plan, crowded=True, has_models=True)
    lines = diagnosis_lines(diagnosis, 80)

    assert (diagnosis.next_run or "").startswith("p = 18: p=12 alone shows growth in bytes_rec")
    assert max(map(len, lines)) <= 80
    assert lines[-2].startswith("  the run that helps most: p = 18: ")


def test_a_function_is_not_fine_below_one_caller_and_open_below_another(monkeypatch) -> None:
    steady = {
        CallPath.parse("app->setup->borders"): TimeBounds(expected=4.0, growth=0.0, excess=0.0)
    }
    monkeypatch.setattr("insitu.analysis.diagnosis.steady._bounds", lambda *_, **__: steady)
    plan: Plan = {
        "app->setup->borders": {"time_exclusive": lambda p: 4.0},
        "app->run->borders": {"time_exclusive": lambda p: 5.0},
    }

    result = diagnose(plan, crowded=True)

    assert "borders" not in {entry.name for entry in result.fine}
    assert any("growth of borders" in entry.text for entry in result.not_judged)


def test_a_statement_that_is_not_judged_has_no_amount_at_the_target() -> None:
    plan: Plan = {
        "app->main->halo->MPI_Isend": {
            "visits": lambda p: 1,
            "messages_sent": lambda p: 1e6 * (p - 1),
        }
    }

    result = diagnose(plan, scales=(1, 2, 4, 8))

    (statement,) = [entry for entry in result.not_judged if entry.callpath]
    assert "65,536" not in statement.text


@pytest.mark.parametrize(
    ("measured", "factor", "asked"),
    [
        ((8, 27, 64), 1.5, "p = 125"),
        ((4, 9, 16), 2, "p = 36"),
        ((6, 12, 18), 1.5, "p = 36"),
        ((3, 4, 6, 8, 12), 1.5, "p = 18"),
        ((2, 4, 8, 16), 1.5, "p = 24, or 32 if it must be a power of two"),
        ((2, 4, 8, 16), 2, "p = 32"),
        ((4,), 2, "p = 8"),
    ],
)
def test_the_next_scale_is_one_that_the_program_accepts(measured, factor, asked):
    assert next_scale(np.array(measured, float), factor) == asked


def test_what_happens_in_no_visit_has_no_value_per_visit():
    """As where another tool has bytes of functions whose visits it did not count."""
    totals = RankSeries(((np.array([8.0, 6.0, np.nan]),),))
    visits = RankSeries(((np.array([2.0, 0.0, 1.0]),),))

    ((per_visit,),) = (totals / visits).vectors

    np.testing.assert_array_equal(per_visit, [4.0, 0.0, np.nan])


@pytest.mark.parametrize(
    ("function", "named"), [("hypre_MPI_Bcast", "share"), ("set_MPI_types", "set_MPI_types")]
)
def test_a_function_that_calls_mpi_for_others_counts_as_its_caller(function: str, named: str):
    calls: Mapping[str, Vector] = {"visits": lambda p: 2000 * p, "bytes_received": lambda p: 0}
    plan = {f"app->main->share->{function}->MPI_Bcast": calls}

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.law) == ("messages", named, "2,000 p")
