"""Diagnosis: planted limits are found with their law, and healthy programs have none."""

import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import numpy as np
import pytest

from insitu.analysis.diagnosis.diagnose import (
    Diagnosis,
    diagnose_experiment,
)
from insitu.analysis.diagnosis.gather import gather
from insitu.analysis.diagnosis.growth import CountGrowth, estimated_growth, find_growth
from insitu.analysis.diagnosis.laws import find_laws
from insitu.analysis.diagnosis.lines import diagnosis_lines
from insitu.analysis.diagnosis.machine import parse_machine
from insitu.analysis.diagnosis.measurements import RankSeries
from insitu.analysis.diagnosis.memory import _memory_limit
from insitu.analysis.diagnosis.scales import next_scale
from insitu.analysis.diagnosis.shared_lines import merge_neighbours
from insitu.analysis.diagnosis.statements import NEIGHBOURS, NOT_JUDGED, Statement
from insitu.analysis.diagnosis.steady import COUNTS_FINE, TimeBounds
from insitu.analysis.diagnosis.times import comparable_runs
from insitu.entities import (
    METRICS,
    CallPath,
    Configuration,
    Finding,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.errors import UsageError
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

SCALES = (2, 3, 4, 6, 8, 12)
TARGET = {"p": 65_536.0}
Vector = Callable[[int], object]
Plan = Mapping[str, Mapping[str, Vector]]

HEALTHY: Plan = {
    "app": {"visits": lambda p: 1, "time": lambda p: 10.0, "time_exclusive": lambda p: 0.1},
    "app->main": {"visits": lambda p: 1, "time": lambda p: 9.0, "time_exclusive": lambda p: 0.5},
    "app->main->push": {"visits": lambda p: 100, "time_exclusive": lambda p: 8.0},
    "app->main->reduce->MPI_Allreduce": {
        "visits": lambda p: 100,
        "bytes_sent": lambda p: 800,
        "bytes_received": lambda p: 800,
        "comm_ranks": lambda p: 100 * p,
    },
}


def spread_evenly(count: int, p: int) -> np.ndarray:
    """How many of some things, such as samples, each of p ranks has: (p,)."""
    return np.full(p, count // p) + (np.arange(p) < count % p)


def diagnose(
    plan: Plan,
    scales: tuple[int, ...] = SCALES,
    *,
    crowded: bool = False,
    has_models: bool = False,
    target: Mapping[str, float] = TARGET,
    base: Plan = HEALTHY,
    sampling_s: float = 0.0,
    unsampled: int = 0,
    is_precise: bool = False,
    sites: Mapping[str, tuple[str, int]] | None = None,
    scaling: str = "",
) -> Diagnosis:
    """The diagnosis of runs whose values are functions of p: a number, or one per rank."""
    runs = [(RunKey.of({"p": p}), table_at({**base, **plan}, p)) for p in scales]
    keys = {key: 2 for key, _ in runs} if crowded else {}
    records = [
        RunRecord(str(key), key, RunState.COMPLETE, configuration=Configuration.of({}))
        for key, _ in runs
    ]
    sampled = {key: sampling_s for key, _ in runs if sampling_s and key.size != unsampled}
    precise = frozenset(key for key, _ in runs if is_precise)
    experiment = Experiment(
        ("p",), tuple(runs), keys, sampling_s=sampled, precisely_sampled=precise
    )
    models = remodel(experiment) if has_models else ModelSet()
    located = {CallPath.parse(path): site for path, site in (sites or {}).items()}
    return diagnose_experiment(
        experiment,
        records,
        models,
        program="app",
        target=target,
        scaling=scaling,
        sites=located,
    )


def table_at(plan: Plan, p: int) -> RunTable:
    names = sorted({name for values in plan.values() for name in values})
    values = {name: np.full((len(plan), p), np.nan) for name in names}
    for row, quantities in enumerate(plan.values()):
        for name, vector in quantities.items():
            values[name][row] = np.broadcast_to(np.asarray(vector(p), dtype=float), p)
    metrics = tuple(metric for metric in METRICS if metric.name in names)
    return RunTable(tuple(CallPath.parse(path) for path in plan), metrics, values)


def on_rank_0(value: float, p: int) -> np.ndarray:
    vector = np.zeros(p)
    vector[0] = value
    return vector


def only_limit(diagnosis: Diagnosis) -> Statement:
    assert len(diagnosis.limits) == 1, diagnosis_lines(diagnosis)
    return diagnosis.limits[0]


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


def test_a_program_that_stops_after_a_given_time_scales_neither_weakly_nor_strongly():
    iterations = {2: 1963, 3: 453, 4: 302, 6: 302, 8: 200, 12: 151}

    def counts(p: int) -> float:
        return iterations[p]

    plan: Plan = {
        "app->main->push": {"visits": counts, "time_exclusive": lambda p: 1e-3 * counts(p)},
        "app->main->norm->MPI_Allreduce": {"visits": counts},
    }

    assert diagnose(plan).scaling == "mixed"


@pytest.mark.parametrize(("first", "scaling"), [(130, "weak"), (170, "mixed")])
def test_the_most_frequent_collective_call_counts_iterations(first: int, scaling: str):
    """A rarer one may be called less on more ranks, and a few iterations less are convergence."""

    def counts(p: int) -> float:
        return first if p == 2 else 100

    plan: Plan = {
        "app->main->norm->MPI_Allreduce": {"visits": counts},
        "app->main->check->MPI_Barrier": {"visits": lambda p: max(1, 48 // p**2)},
    }

    assert diagnose(plan).scaling == scaling


@pytest.mark.parametrize(("scales", "exact"), [((1, 2, 3, 4, 6), False), ((2, 3, 4, 6, 12), True)])
def test_messages_to_all_ranks_are_certain_where_blocks_cannot_all_touch(
    scales: tuple[int, ...], exact: bool
):
    sends = {"messages_sent": lambda p: 5000 * (p - 1), "bytes_sent": lambda p: 8e7 * (p - 1)}
    plan = {"app->main->swap->MPI_Isend": {"visits": lambda p: 5000 * (p - 1), **sends}}

    diagnosis = diagnose(plan, scales)

    of_swap = [entry for entry in diagnosis.all_statements() if entry.name == "swap"]
    assert {entry.status for entry in of_swap} == ({"limit"} if exact else {"not judged"})
    assert all(exact or "neighbours in a grid look alike" in entry.text for entry in of_swap)


def test_a_table_of_all_ranks_is_a_memory_limit_with_the_scale_where_it_breaks():
    plan = {
        "app->main": {"visits": lambda p: 1, "heap_growth": lambda p: 160_000 * p + 5_000},
        "app->main->table": {"visits": lambda p: 1, "heap_growth": lambda p: 160_000 * p + 168},
    }

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.name, limit.exact) == ("memory", "table", True)
    assert limit.points == "6 of 6 points"
    assert limit.breaks_at == pytest.approx(2 * 2**30 / 160_000, rel=0.001)
    assert limit.then == pytest.approx(160_000 * 65_536, rel=0.001)


def test_memory_of_all_ranks_but_the_first_does_not_grow_with_their_share():
    """As in ParaView, whose rank 0 parses its configuration in another function."""

    def held(p: int) -> np.ndarray:
        return 4_539_176.0 - on_rank_0(4_539_176.0, p)

    plan = {"app->main->follow->parse": {"visits": lambda p: 1, "heap_growth": held}}

    diagnosis = diagnose(plan, (1, 2, 4))

    assert "memory" not in {statement.kind for statement in diagnosis.statements}


def test_memory_that_the_caller_frees_is_held_once_only():
    plan = {
        "app->main": {"visits": lambda p: 1, "heap_growth": lambda p: 5_000},
        "app->main->step": {"visits": lambda p: 100, "heap_growth": lambda p: 100 * 2_000 * p},
    }

    assert diagnose(plan).limits == ()


def test_a_funnel_into_rank_0_is_serial():
    plan = {
        "app->main->collect->MPI_Recv": {
            "visits": lambda p: on_rank_0(20 * (p - 1), p),
            "messages_received": lambda p: on_rank_0(20 * (p - 1), p),
            "bytes_received": lambda p: on_rank_0(160_000 * (p - 1), p),
        },
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.ranks, limit.law) == ("serial", "rank 0", "20 (p - 1)")
    assert limit.seconds == pytest.approx(20 * 65_535 * 1.5e-6 + 160_000 * 65_535 / 1e9)


@pytest.mark.parametrize("scales", [(2, 4, 8), (1, 2, 4, 8)])
def test_a_funnel_is_found_at_powers_of_two(scales: tuple[int, ...]):
    plan = {
        "app->main->collect->MPI_Recv": {
            "messages_received": lambda p: on_rank_0(2000 * (p - 1), p),
        },
    }

    limit = only_limit(diagnose(plan, scales))

    assert (limit.kind, limit.law) == ("serial", "2,000 (p - 1)")


def test_an_allgather_grows_in_bytes():
    plan = {
        "app->main->balance->MPI_Allgather": {
            "visits": lambda p: 20,
            "bytes_sent": lambda p: 40_960,
            "bytes_received": lambda p: 40_960 * p,
        },
    }

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.name, limit.law) == ("bytes", "balance", "41 kB * p")


def test_messages_to_every_rank_are_told_from_neighbours_by_six_scales():
    plan = {"app->main->swap->MPI_Isend": {"messages_sent": lambda p: 2000 * (p - 1)}}

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.law, limit.ranks) == ("messages", "2,000 (p - 1)", "all")


@pytest.mark.parametrize(
    ("partners", "status"),
    [
        (lambda p: p, "limit"),  # a graph in which each rank has an edge to all, itself included
        (lambda p: min(p - 1, 2), None),  # a ring
    ],
)
def test_neighbours_of_a_graph_get_a_message_each_however_empty(
    partners: Vector, status: str | None
) -> None:
    plan: Plan = {
        "app->main->halo->MPI_Neighbor_alltoallv": {
            "visits": lambda p: 10_000,
            "partners": partners,
            "bytes_sent": lambda p: 16_000,
        }
    }

    statements = diagnose(plan, crowded=True).statements

    found = [(entry.kind, entry.status, entry.name, entry.law) for entry in statements]
    assert found == ([("messages", status, "halo", "10,000 p")] if status else [])


def test_26_neighbours_of_a_block_look_like_p_minus_1_and_are_not_judged():
    plan = {"app->main->halo->MPI_Isend": {"messages_sent": lambda p: 2000 * (p - 1)}}

    diagnosis = diagnose(plan, (1, 2, 4, 8))

    assert diagnosis.limits == ()
    unjudged = next(entry for entry in diagnosis.not_judged if entry.name == "halo")
    assert unjudged.run == "p = 32"
    assert diagnosis.next_run == "p = 32"


@pytest.mark.parametrize(("of_further", "is_named"), [(0.0, True), (8.0, False)])
@pytest.mark.parametrize("scales", [(1, 2, 4, 8), (1, 2, 3, 4, 6)])
def test_messages_to_all_ranks_most_of_them_empty_are_none_to_neighbours(
    scales, of_further, is_named
):
    """HPCCG with its exchange as a loop over all ranks; a neighbour at a corner is sent a value."""

    def in_bytes(p: int) -> float:
        return 2048.0 * min(p - 1, 2) + of_further * p

    exchange = {
        "visits": lambda p: 150 * p,
        "messages_sent": lambda p: 150 * p,
        "bytes_sent": lambda p: 150 * in_bytes(p),
        "partners": lambda p: p,
    }

    limits = diagnose({"app->main->offset->MPI_Send": exchange}, scales).limits

    assert ("offset" in {entry.name for entry in limits}) == is_named


def test_as_many_bytes_by_chance_are_no_empty_messages():
    """A few particles move to neighbours; on the busiest of four and of six ranks there are ten."""
    moved = {1: [0], 2: [8, 7], 4: [10, 4, 6, 5], 6: [3, 10, 7, 5, 5, 4]}
    exchange = {
        "messages_sent": lambda p: 20 * (p - 1),
        "bytes_sent": lambda p: 960.0 * np.array(moved[p]),
    }

    assert diagnose({"app->main->move->MPI_Isend": exchange}, tuple(moved)).limits == ()


def test_messages_that_grow_with_p_are_no_neighbours_although_there_are_as_many_as_before():
    # A halo exchange that sends whole rows of the global array.
    plan: Plan = {
        "app->main->swap->MPI_Sendrecv": {
            "messages_sent": lambda p: 1200,
            "messages_received": lambda p: 1200,
            "bytes_sent": lambda p: 1200 * 1600 * p,
            "bytes_received": lambda p: 1200 * 1600 * p,
        }
    }

    limit = only_limit(diagnose(plan, (1, 2, 4, 8)))

    assert (limit.kind, limit.name, limit.law) == ("bytes", "swap", "1.92 MB * p")


def test_rounds_of_exchanges_along_a_line_follow_their_law_but_on_two_ranks():
    # Odd-even transposition: as many rounds as ranks, with a neighbour on either side in turn.
    def received(p: int) -> np.ndarray:
        rounds = np.full(p, 20.0 * p)
        rounds[[0, -1]] = 10 * p
        return rounds

    def partners(p: int) -> np.ndarray:
        neighbours = np.full(p, 2.0)
        neighbours[[0, -1]] = 1
        return neighbours

    plan: Plan = {
        "app->main->sort->MPI_Sendrecv": {
            "messages_sent": received,
            "messages_received": received,
            "partners": partners,
        }
    }

    limit = only_limit(diagnose(plan, (2, 4, 8, 12, 16)))

    assert (limit.kind, limit.name, limit.law) == ("messages", "sort", "20 p")
    assert (limit.ranks, limit.points) == ("all", "4 of 5 points")


def test_bytes_that_grow_with_the_number_of_messages_may_be_those_of_neighbours():
    plan: Plan = {
        "app->main->swap->MPI_Isend": {
            "messages_sent": lambda p: 2000 * (p - 1),
            "bytes_sent": lambda p: 16_000_000 * (p - 1),
        }
    }

    diagnosis = diagnose(plan, (1, 2, 4, 8))

    assert diagnosis.statements == ()


def test_a_loop_over_all_pairs_of_ranks_is_told_on_four_scales_with_its_doubt():
    plan: Plan = {
        "app->main->build": {"visits": lambda p: 1, "time_exclusive": lambda p: 1e-6},
        "app->main->build->touches": {
            "visits": lambda p: p * (p - 1),
            "time_exclusive": lambda p: 1e-6 * p * (p - 1),
        },
    }

    (statement,) = diagnose(plan, (1, 2, 4, 8)).statements

    assert (statement.kind, statement.status, statement.name) == ("compute", "unclear", "build")
    assert statement.law == "p^2 - p"
    assert "unless these are pairs of neighbours in a grid" in statement.text


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


def test_memory_whose_steps_differ_by_powers_is_not_carried_to_terabytes():
    plan: Plan = {
        "app->main->exchange": {
            "visits": lambda p: 60,
            "heap_growth": lambda p: {1: 0, 2: 24, 4: 32_000, 8: 48_000}[p],
        }
    }

    diagnosis = diagnose(plan, (1, 2, 4, 8))

    assert diagnosis.statements == ()
    unjudged = next(entry for entry in diagnosis.not_judged if entry.name == "exchange")
    assert "its steps differ too much to extrapolate" in unjudged.text


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


def test_the_cost_of_messages_names_the_functions_whose_time_is_a_part_of_it():
    plan: Plan = {
        "app->main->sort->MPI_Gather": {
            "visits": lambda p: 10,
            "bytes_sent": lambda p: 26_000,
            "bytes_received": lambda p: on_rank_0(26_000 * p, p),
            "comm_ranks": lambda p: 10 * p,
        },
        "app->main->sort": {"visits": lambda p: 10, "time_exclusive": lambda p: 1e-6},
        "app->main->sort->weight": {
            "visits": lambda p: on_rank_0(2_000 * p, p),
            "time_exclusive": lambda p: on_rank_0(1e-3 * p, p),
        },
    }

    limit = only_limit(diagnose(plan))

    # 1.7 GB take 1.7 s; the rest of the time is that of weight.
    assert "1.7 GB, 67.2 s with the visits of weight at p = 65,536" in limit.text


def test_messages_of_a_wrapper_are_added_up_over_its_callers():
    def plan(shares: Mapping[str, int]) -> Plan:
        return {
            f"app->main->{caller}->gather_all->MPI_Allgather": {
                "visits": lambda p, share=share: share,
                "bytes_sent": lambda p, share=share: 8_000 * share,
                "bytes_received": lambda p, share=share: 8_000 * share * p,
                "comm_ranks": lambda p, share=share: share * p,
            }
            for caller, share in shares.items()
        }

    whole = only_limit(diagnose(plan({"step": 10})))
    divided = only_limit(diagnose(plan({"step": 5, "check": 3, "write": 2})))

    assert divided.law == whole.law
    assert divided.then == pytest.approx(whole.then)
    assert divided.seconds == pytest.approx(whole.seconds)
    assert divided.callpath == "app->main->step->gather_all"
    assert "in 3 call paths" in divided.text
    assert "call paths" not in whole.text


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


def test_work_that_grows_with_the_rank_is_an_imbalance():
    plan = {
        "app->main->assemble": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.001},
        "app->main->assemble->cell": {
            "visits": lambda p: 60 + 30 * (1 + np.arange(p)),
            "time_exclusive": lambda p: 2e-3 * (60 + 30 * (1 + np.arange(p))),
        },
    }

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.name) == ("imbalance", "assemble")
    assert "load balance 50 %" in limit.text


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


def test_blocks_that_are_aligned_differently_are_equal_on_all_ranks():
    """malloc gave 4,696 bytes on two of three ranks and 4,712 on the third one."""
    plan = {
        "app->main->route_table": {
            "visits": lambda p: 1,
            "heap_growth": lambda p: 512 * p**2 + 88 + 16 * (np.arange(p) % 3 == 1),
        },
    }

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.name, limit.exact) == ("memory", "route_table", True)


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


def test_templates_of_the_standard_library_belong_to_the_function_that_uses_them():
    grow = "app->main->splitters->std::vector<long>::_M_default_append"

    path = CallPath.parse(grow)

    measurements = gather(
        Experiment(("p",), ((RunKey.of({"p": 2}), table_at({grow: {}}, 2)),)), {}, {}
    )

    assert measurements.owners[path].name == "splitters"


def test_calls_in_the_rows_and_columns_of_a_grid_follow_its_sides() -> None:
    """As transposes in transforms of pencils; on these numbers of ranks it is ceil(log2(p)) + 2."""
    scales = (1, 2, 3, 4, 6)
    sides = {1: 2, 2: 3, 3: 4, 4: 4, 6: 5, 512: 16 + 32, 1009: 2 * math.sqrt(1009)}

    laws = find_laws(np.array(scales, dtype=float), np.array([123.0 * sides[p] for p in scales]))

    assert [law.text("1") for law in laws] == ["123 (rows + columns)"]
    for p in (512, 1009):
        assert laws[0].at(p) == pytest.approx(123 * sides[p])
    with_offset = np.array([20.0 + 5 * sides[p] for p in scales])
    both = find_laws(np.array(scales, dtype=float), with_offset)
    assert {law.text("1") for law in both} == {
        "5 ceil(log2(p)) + 30",
        "5 (rows + columns) + 20",
    }
    even = np.array([2.0, 4.0, 6.0, 8.0])
    assert {law.term.order for law in find_laws(even, 6 * even + 105) if law.term} == {"p"}


def test_two_counts_after_zeros_follow_no_law() -> None:
    """As the messages of some ranks of a grid, (rows - 1) (columns - 1); with three, it shows."""
    few, more = np.array([2.0, 3.0, 4.0, 6.0]), np.array([2.0, 3.0, 4.0, 6.0, 8.0])

    assert find_laws(few, np.array([0.0, 0.0, 1.0, 2.0])) == []
    assert [law.text("1") for law in find_laws(more, np.array([0.0, 0.0, 1.0, 2.0, 3.0]))] == [
        "floor(p/2) - 1"
    ]


@pytest.mark.parametrize(("seconds", "is_named"), [(0.05, True), (0.001, False)])
def test_a_rank_that_is_slower_by_less_than_noise_is_not_worth_a_line(seconds, is_named) -> None:
    """As rank 0 of PT-Scotch's dgord, which opens files and is 1 ms slower than others."""
    plan: Plan = {
        "app": {"time": lambda p: 1.0},
        "app->main->read": {
            "visits": lambda p: 1,
            "time_exclusive": lambda p: np.where(np.arange(p) == 0, seconds, seconds / 100),
        },
    }

    found = diagnose(plan, (2, 3, 4, 6, 8, 12), crowded=True, base={}).statements

    assert [entry.kind for entry in found] == (["imbalance"] if is_named else [])


@pytest.mark.parametrize(
    ("scales", "counts", "law"),
    [
        ((2, 3, 4), (1, 1, 2), None),  # columns of a grid, floor(log2(p)) or floor(p/2)
        ((2, 3, 4), (10, 20, 20), None),  # ceil(log2(p)) or ceil(p/2)
        ((2, 3, 4, 6), (1, 1, 2, 3), "floor(p/2)"),
        ((2, 4, 8), (10, 20, 30), "10 log2(p)"),
        ((2, 3, 4, 8), (10, 20, 20, 30), "10 ceil(log2(p))"),
    ],
)
def test_two_levels_of_a_count_follow_no_law_of_steps(scales, counts, law) -> None:
    """As the messages in columns of a grid of ScaLAPACK."""
    laws = find_laws(np.array(scales, dtype=float), np.array(counts, dtype=float))

    assert {law.text("1") for law in laws} & {law} == ({law} if law else set())
    assert law or not laws


def test_exchanges_in_rows_and_columns_cost_the_messages_that_they_send() -> None:
    """Not those that they would send to all ranks."""
    sides = {1: 2, 2: 3, 3: 4, 4: 4, 6: 5, 8: 6}
    plan: Plan = {
        "app->main->transpose->MPI_Alltoallw": {
            "visits": lambda p: 20_000,
            "comm_ranks": lambda p: 10_000 * sides[p],
        }
    }

    diagnosis = diagnose(plan, tuple(sides), target={"p": 1024.0})

    found = only_limit(diagnosis)
    assert found.law == "10,000 (rows + columns)"
    assert found.seconds == pytest.approx(10_000 * (64 - 2) * 1.5e-6)


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


def test_exactness_is_measured_against_the_range_and_not_the_value():
    p = np.array(SCALES, dtype=float)
    noise = np.array([3.0, -2.0, 1.0, 4.0, -1.0, 2.0])

    laws = find_laws(p, 1e9 + 100 * noise)

    assert all(law.term is None for law in laws)


def test_a_rank_alone_that_sends_nothing_is_no_evidence_for_a_law():
    """Of 80 counts of measured programs with 0, 1 and 3 on 1, 2 and 4 ranks, 38 were p - 1 on 8."""
    p = np.array([1.0, 2.0, 4.0, 8.0])

    assert find_laws(p[:3], np.array([0.0, 1.0, 3.0])) == []
    (linear,) = find_laws(p, np.array([0.0, 240.0, 480.0, 960.0]))
    (others,) = find_laws(p, np.array([0.0, 1.0, 3.0, 7.0]))

    assert (linear.text("1"), linear.points, linear.of) == ("120 p", 3, 4)
    assert (others.text("1"), others.points, others.of) == ("p - 1", 4, 4)


def test_counts_that_three_scales_leave_open_grow_at_most_as_their_simplest_laws():
    """FEniCSx repartitions a mesh by 1, 91 and 181 calls; h5py creates 1 + p data sets."""
    p = np.array([1.0, 2.0, 4.0])

    def growth_of(*values: float) -> CountGrowth:
        vectors = tuple((np.array([value]),) for value in values)
        return find_growth(p, RankSeries(vectors), target=256.0)

    assert growth_of(1.0, 91.0, 181.0).law is None  # not 90.8 log2(p)
    assert growth_of(1.0, 60.0, 90.0).high == pytest.approx(90 * 64**0.585, rel=0.01)
    constant_and_p = growth_of(2.0, 3.0, 5.0)
    assert constant_and_p.low < 257 <= constant_and_p.high + 1e-6


@pytest.mark.parametrize(("more", "points"), [((), []), ((160.0,), [4])])
def test_a_law_that_leaves_out_one_rank_needs_four_others(more, points):
    values = np.array([3.0, 20.0, 40.0, 80.0, *more])

    laws = find_laws(2.0 ** np.arange(len(values)), values)

    assert [(law.text("1"), law.points) for law in laws] == [("10 p", n) for n in points]


def test_a_law_that_falls_is_written_as_a_difference():
    p = np.array([2.0, 4.0, 8.0, 16.0])

    first, *_ = find_laws(p, 0.9 - 0.05 * p)

    assert first.text("s") == "900 ms - 50 ms * p"


def test_growth_that_slows_down_does_not_go_on_as_it_began():
    """Heap of miniVite's parallel region: p^3.4 to four ranks would be 19 GB on 512."""
    p = np.array([1.0, 2.0, 4.0, 8.0])

    def growth_of(*values: float) -> CountGrowth:
        vectors = tuple((np.array([value]),) for value in values)
        return find_growth(p, RankSeries(vectors), target=512.0)

    slowing = growth_of(0.0, 1104.0, 11520.0, 14864.0)
    speeding = growth_of(0.0, 1104.0, 1424.0, 14864.0)

    assert slowing.law is None and slowing.is_growing
    assert slowing.low == pytest.approx(14864 * 64**0.368, rel=0.01)
    assert slowing.high == pytest.approx(14864 * 64**1.876, rel=0.01)
    assert speeding.high == pytest.approx(14864 * 64**3.384, rel=0.01)


def test_small_counts_follow_no_law_by_rounding():
    """As those of the broadcasts in which Scotch saves an ordering."""
    p = np.array([1.0, 2.0, 4.0, 8.0])

    assert find_laws(p, np.array([1.0, 3.0, 10.0, 29.0])) == []  # not 1.21 p log2(p)
    (law,) = find_laws(p, np.array([40.0, 56.0, 80.0, 113.0]))
    assert law.term is not None and law.term.name == "p^(1/2)"


def test_machine_values_are_checked():
    machine = parse_machine("memory=512e9,ranks_per_node=128,bandwidth=25e9")

    assert machine.memory_bytes == pytest.approx(0.9 * 4e9)
    assert machine.bandwidth == pytest.approx(25e9 / 128)
    with pytest.raises(UsageError, match="available: latency"):
        parse_machine("memoy=1")


def test_strong_scaling_is_found_although_every_rank_visits_as_often():
    plan = {"app->main->push": {"visits": lambda p: 100, "time_exclusive": lambda p: 80.0 / p}}

    assert diagnose({}).scaling == "weak"
    assert diagnose(plan).scaling == "strong"


def test_blocks_rounded_to_pages_still_follow_their_law():
    def pages(p: int) -> int:
        return -(-(80_000 * p + 16) // 4096) * 4096

    plan = {"app->main->map": {"visits": lambda p: 1, "heap_growth": pages}}

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.exact) == ("memory", True)
    assert limit.breaks_at == pytest.approx(2 * 2**30 / 80_000, rel=0.01)


def test_blocks_that_are_freed_again_are_a_memory_limit():
    plan = {
        "app->main->scratch": {
            "visits": lambda p: 15,
            "heap_growth": lambda p: 0,
            "allocations": lambda p: 15,
            "bytes_allocated": lambda p: 15 * 256_000 * p,
        },
    }

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.name, limit.law) == ("memory", "scratch", "256 kB * p")
    assert "allocates blocks" in limit.text


@pytest.mark.parametrize("rank", [0, 1])
def test_blocks_that_one_rank_frees_again_are_a_limit_of_that_rank(rank: int):
    # A compiled program without visits: rank 0 eliminates a dense matrix of all ranks in each step.
    def only(value: float, p: int) -> np.ndarray:
        return np.roll(on_rank_0(value, p), rank)

    plan: Plan = {
        "app->main->solve": {
            "heap_growth": lambda p: 0,
            "allocations": lambda p: only(40, p),
            "bytes_allocated": lambda p: only(40 * 1152 * p**2, p),
        },
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.law) == ("memory", "solve", "1.15 kB * p^2")
    assert limit.text.startswith(f"rank {rank} allocates blocks of")


def test_blocks_that_the_caller_frees_are_no_exact_limit_where_their_number_grows():
    plan: Plan = {
        "app->main->table": {
            "heap_growth": lambda p: 30_000 * p,
            "allocations": lambda p: p,
            "bytes_allocated": lambda p: 30_000 * p,
        },
        "app->main": {**HEALTHY["app->main"], "heap_growth": lambda p: 0},
    }

    statements = [
        entry
        for entry in diagnose(plan, target={"p": 1e6}).all_statements()
        if entry.kind == "memory" and entry.callpath
    ]

    (statement,) = statements
    assert (statement.status, statement.exact, statement.law) == ("unclear", False, "30 kB * p")
    assert "if all of it is held at once" in statement.text


def test_many_small_allocations_are_no_block():
    plan = {
        "app->main->parse": {
            "visits": lambda p: 1,
            "heap_growth": lambda p: 0,
            "allocations": lambda p: 1000 * p,
            "bytes_allocated": lambda p: 160_000 * p,
        },
    }

    (statement,) = diagnose(plan).limits
    assert (statement.kind, statement.metric) == ("compute", "allocations")
    assert statement.text.startswith("each rank allocates 1,000 p blocks of the heap")


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


def test_objects_that_go_by_two_collectives_are_one_cause():
    plan = {
        "app->main->collect": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.001},
        "app->main->collect->MPI_Gather": {
            "visits": lambda p: 20,
            "bytes_received": lambda p: on_rank_0(160_000 * p, p),
        },
        "app->main->collect->MPI_Gatherv": {
            "visits": lambda p: 20,
            "bytes_received": lambda p: on_rank_0(1_600_000 * p, p),
        },
    }

    limit = only_limit(diagnose(plan))

    assert limit.law == "1.6 MB * p"
    assert len(limit.also) == 1


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


def test_scattered_work_is_neither_weak_nor_strong():
    times = dict(zip(SCALES, (9.0, 3.0, 14.0, 16.0, 2.0, 19.0), strict=True))
    plan = {
        "app->main": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.0},
        "app->main->push": {"visits": lambda p: 1, "time_exclusive": lambda p: times[p] / p},
    }

    diagnosis = diagnose(plan)

    assert diagnosis.scaling == "mixed"
    assert diagnosis.totals.time is not None
    assert diagnosis.totals.speedup is diagnosis.totals.efficiency is None
    assert "scaling efficiency" not in "\n".join(diagnosis_lines(diagnosis))
    assert diagnosis.totals.stops_paying_at is None


def strong_plan(serial_s: float) -> Plan:
    """1,000 s of work that ranks share, and a funnel that costs rank 0 `serial_s` per rank."""

    def total(p: int) -> float:
        return 1000.0 / p + 0.1

    return {
        "app": {"visits": lambda p: 1, "time": total, "time_exclusive": lambda p: 0.0},
        "app->main": {"visits": lambda p: 1, "time": total, "time_exclusive": lambda p: 0.0},
        "app->main->push": {"visits": lambda p: 1, "time_exclusive": lambda p: 1000.0 / p},
        "app->main->collect->MPI_Recv": {
            "messages_received": lambda p: on_rank_0(1e6 * serial_s / 1.5 * (p - 1), p),
        },
    }


def test_strong_scaling_stops_paying_where_the_funnel_costs_what_a_rank_saves():
    """The time 1000 / p + c p is least at p = sqrt(1000 / c)."""
    totals = diagnose(strong_plan(0.001)).totals

    assert totals.stops_paying_at == pytest.approx(1000.0, rel=0.05)
    text = "\n".join(diagnosis_lines(diagnose(strong_plan(0.001))))
    assert "each further rank costs more than it saves" in text


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


def test_tasks_that_ranks_share_as_they_have_time_are_no_growing_messages():
    def received(p: int) -> np.ndarray:
        more = {3: 1, 4: 2, 6: 2, 8: 4, 12: 7}[p]
        tasks = np.full(p, 8.0 - more / (p - 2))
        tasks[0], tasks[1] = 0, 8 + more
        return tasks

    plan = {"app->main->serve->MPI_Recv": {"visits": received, "messages_received": received}}

    diagnosis = diagnose(plan, (3, 4, 6, 8, 12))

    assert "serve" not in {entry.name for entry in (*diagnosis.statements, *diagnosis.not_judged)}


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


def test_communicators_created_in_a_loop_over_all_ranks_are_a_limit():
    plan: Plan = {
        "app->main->pair_up": {"visits": lambda p: 20, "time_exclusive": lambda p: 1e-4},
        "app->main->pair_up->MPI_Comm_split": {"visits": lambda p: 20 * p},
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.exact) == ("messages", "pair_up", True)
    assert "calls MPI_Comm_split 20 p times" in limit.text


def test_work_of_a_class_whose_share_changes_is_an_imbalance():
    def boundary(p: int) -> np.ndarray:
        values = np.full(p, 40.0)
        values[: {2: 2, 3: 2, 4: 4, 6: 4, 8: 4, 12: 4}[p]] += 2000.0 * p
        return values

    plan: Plan = {
        "app->main->assemble": {"visits": lambda p: 1, "time_exclusive": lambda p: 1e-6},
        "app->main->assemble->element": {
            "visits": boundary,
            "time_exclusive": lambda p: 1e-7 * boundary(p),
        },
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name) == ("imbalance", "assemble")
    assert limit.text.startswith("slowest rank visits element 2,000 p + 40 times")
    assert "times the mean at p = 12" in limit.text


def test_a_loop_over_the_neighbours_in_a_grid_is_no_imbalance() -> None:
    dims = {2: (2, 1, 1), 3: (3, 1, 1), 4: (2, 2, 1), 6: (3, 2, 1), 8: (2, 2, 2), 12: (3, 2, 2)}

    def neighbours(p: int) -> np.ndarray:  # of 26, as in a 27-point stencil without wrapping
        reach = [[min(i, 1) + min(n - 1 - i, 1) + 1 for i in range(n)] for n in dims[p]]
        return np.array([a * b * c - 1 for a in reach[0] for b in reach[1] for c in reach[2]])

    plan: Plan = {
        "app->main->halo->pack": {
            "visits": lambda p: 50 * neighbours(p),
            "time_exclusive": lambda p: 1e-3 * neighbours(p),
        },
        "app->main->halo->MPI_Isend": {
            "visits": lambda p: 50 * neighbours(p),
            "messages_sent": lambda p: 50 * neighbours(p),
            "partners": neighbours,
        },
    }

    statements = diagnose(plan, crowded=True).statements

    assert not [entry for entry in statements if entry.status in ("limit", "warning")]


def test_neighbours_that_only_some_ranks_have_are_no_imbalance():
    def neighbours(p: int) -> np.ndarray:  # of blocks along a line: at most two
        return np.minimum(np.arange(p), 1) + np.minimum(np.arange(p)[::-1], 1)

    plan: Plan = {
        "app->main->halo": {"visits": lambda p: 1e6, "time_exclusive": lambda p: 1e-3},
        "app->main->halo->pack": {
            "visits": lambda p: 1e6 * neighbours(p),
            "time_exclusive": lambda p: 0.1 * neighbours(p),
        },
    }

    assert diagnose(plan, crowded=True).limits == ()


@pytest.mark.parametrize("steps", [1, 8])
def test_iterations_that_are_rounded_in_every_step_follow_their_law(steps: int):
    def iterations(p: int) -> int:
        return steps * int(40 * p**0.5)

    plan: Plan = {
        "app->main->solve": {"visits": lambda p: steps, "time_exclusive": lambda p: 1e-4},
        "app->main->solve->relax": {
            "visits": iterations,
            "time_exclusive": lambda p: 1e-3 * iterations(p),
        },
        "app->main->solve->MPI_Allreduce": {
            "visits": iterations,
            "bytes_received": lambda p: 8 * iterations(p),
        },
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.name, limit.exact) == ("solve", True)
    assert "p^(1/2) times" in limit.text


def test_an_mpi_call_that_a_script_makes_is_named_once():
    plan: Plan = {"app->MPI_Barrier": {"visits": lambda p: 2000 * p}}

    limit = only_limit(diagnose(plan, crowded=True))

    assert limit.text.startswith("each rank calls MPI_Barrier 2,000 p times: ")


def test_the_root_of_more_broadcasts_is_no_funnel():
    def iterations(p: int) -> int:
        return 8000 * p

    plan: Plan = {
        "app->main->share": {"visits": lambda p: 8, "time_exclusive": lambda p: 1e-4},
        "app->main->share->MPI_Bcast": {
            "visits": iterations,
            "bytes_sent": lambda p: on_rank_0(8 * iterations(p), p),
            "bytes_received": lambda p: 8 * iterations(p) - on_rank_0(8 * iterations(p), p),
        },
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.ranks) == ("messages", "all")
    assert "calls MPI_Bcast 8,000 p times" in limit.text


@pytest.mark.parametrize(("seconds", "scaling"), [(0.01, "unknown"), (1.0, "weak")])
def test_the_scaling_of_a_sampled_program_is_that_of_its_samples(seconds: float, scaling: str):
    tool: Plan = {
        "tool": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.5 / p},
        "tool->main->solve": {"time_exclusive": lambda p: seconds},
        "tool->main->write->fopen": calls_of_files(),
    }

    assert diagnose(tool, base={}).scaling == scaling


def test_waiting_in_functions_that_poll_is_no_work_that_tells_the_scaling():
    tool: Plan = {
        "app->main->solve": {"time_exclusive": lambda p: 8.0 / p},
        "app->main->wait": {"time_exclusive": lambda p: 8.0 - 8.0 / p},
        "app->main->wait->MPI_Testany": {"visits": lambda p: 1000 * p},
    }

    assert diagnose(tool, base={}).scaling == "strong"


@pytest.mark.parametrize(
    ("seconds", "arrays", "scaling"),
    [
        (lambda p: 0.01, lambda p: 1e6, "weak"),
        (lambda p: 0.1 / p, lambda p: 1e6, "unknown"),  # samples contradict
        (lambda p: 0.01, lambda p: 1e6 / p + 100, "strong"),
        (lambda p: 1.0, lambda p: 1e6 / p + 100, "strong"),  # and all ranks repeat work
        (lambda p: 1.0, lambda p: 4e6 / p + 4e5, "mixed"),  # and keep a copy of some arrays
        (lambda p: 1.0, lambda p: 4e5 / p + 4e6, "weak"),  # and share a small table
        (lambda p: 0.01, lambda p: 1e3, "unknown"),  # buffers
        (lambda p: 0.01, lambda p: 1e6 / p**0.5, "unknown"),
    ],
)
def test_arrays_tell_the_scaling_of_a_program_with_few_samples(seconds, arrays, scaling) -> None:
    of_mpi = {"visits": lambda p: 1, "bytes_allocated": lambda p: 3e6}
    tool: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": lambda p: 3e6 + arrays(p)},
        "tool->main->MPI_Init": of_mpi,
        "tool->main->solve": {"time_exclusive": seconds},
    }

    assert diagnose(tool, base={}).scaling == scaling


@pytest.mark.parametrize(
    ("seconds", "matrix", "scaling"),
    [
        (lambda p: 0.02, lambda p: 2e4, "weak"),
        (lambda p: 0.0, lambda p: 2e4, "unknown"),  # no sample says that work grows
        (lambda p: 0.0001 * p, lambda p: 2e4, "unknown"),
        (lambda p: 0.02, lambda p: 2e4 / p, "unknown"),  # ranks share a small matrix
        (lambda p: 0.02, lambda p: 4e3 / p, "weak"),
        (lambda p: 0.02, lambda p: 2e4 / p if p != 4 else 3e4, "weak"),  # by chance
    ],
)
def test_constant_buffers_do_not_make_weak_scaling_of_few_samples(seconds, matrix, scaling) -> None:
    """As in hypre, p4est and SuperLU_DIST with small problems of a fixed size."""
    tool: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": lambda p: 5e6 + matrix(p)},
        "tool->main->compress": {"bytes_allocated": lambda p: 5e6},
        "tool->main->assemble": {"time_exclusive": seconds, "bytes_allocated": matrix},
    }

    assert diagnose(tool, base={}, sampling_s=1e-4).scaling == scaling


@pytest.mark.parametrize(
    ("crowded", "arrays", "scaling"),
    [
        (True, lambda p: 4e7 / p, "strong"),
        (True, lambda p: 4e7, "weak"),
        (True, lambda p: 4e5, "mixed"),  # small objects
        (False, lambda p: 4e7, "mixed"),  # times are right
    ],
)
def test_arrays_tell_the_scaling_where_times_on_shared_cores_do_not(crowded, arrays, scaling):
    tool: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": arrays},
        "tool->main->solve": {
            "visits": lambda p: 100,
            "time_exclusive": lambda p: 1 / p**0.5,
        },
    }

    assert diagnose(tool, base={}, crowded=crowded).scaling == scaling


@pytest.mark.parametrize(
    ("arrays", "helper_s", "scaling"),
    [
        (lambda p: 4e7 / p, 0.001, "strong"),
        (lambda p: 4e7, 0.001, "weak"),
        (lambda p: 4e5, 0.001, "unknown"),  # small objects
        (lambda p: 4e7, 1.0, "weak"),
        (lambda p: 2e7 / p + 4e7, 1.0, "mixed"),  # mpi-sppy: scenarios of all, and imported modules
        (lambda p: np.where(np.arange(p), 4e7, 6e7), 1.0, "weak"),  # rank 0 alone has more
        (lambda p: 4e7 / p, 1.0, "mixed"),  # each rank repeats its functions, and shares its data
    ],
)
def test_arrays_tell_the_scaling_of_a_script_without_functions_of_note(arrays, helper_s, scaling):
    script: Plan = {
        "app.py": {
            "visits": lambda p: 1,
            "time_exclusive": lambda p: 2.0,  # with waiting for a core
            "bytes_allocated": arrays,
        },
        "app.py->show": {"visits": lambda p: 5, "time_exclusive": lambda p: helper_s},
    }

    assert diagnose(script, base={}, crowded=True).scaling == scaling


def calls_of_files() -> Mapping[str, Vector]:
    """A file that rank 0 opens, at the same price on any number of ranks."""
    return {
        "visits": lambda p: on_rank_0(1, p),
        "files_opened": lambda p: on_rank_0(1, p),
        "time_exclusive": lambda p: on_rank_0(0.01, p),
    }


MPI_MEMORY = {"memory_mpi": lambda p: 14e6 + 0.3e6 * p}
LISTS: Plan = {
    "app": {
        **HEALTHY["app"],
        **MPI_MEMORY,
        "heap_growth": lambda p: 10e6 + 16_000 * p,
        "memory_rss_peak": lambda p: 54e6 + 0.3e6 * p + 200_000 * p + 30_000 * (p % 3),
    },
    "app->main": {**HEALTHY["app->main"], "heap_growth": lambda p: 16_000 * p},
    "app->main->register": {
        "visits": lambda p: 1,
        "time_exclusive": lambda p: 0.1,
        "heap_growth": lambda p: 16_000 * p * (1.0, 1.06, 1.11)[p % 3],  # reserved for more
    },
}


def test_small_python_objects_are_found_in_the_peak_of_the_process() -> None:
    result = diagnose(LISTS)

    (statement,) = [entry for entry in result.statements if entry.kind == "memory"]
    assert statement.callpath == "app->main->register"
    assert statement.status == "unclear"
    assert statement.then == pytest.approx(185_000 * 65_536, rel=0.1)


@pytest.mark.parametrize("scales", [(1, 2, 4, 8), (2, 4, 6, 8, 12)])
@pytest.mark.parametrize(
    ("partners", "is_limit"),
    [
        (lambda p: 100 * np.arange(p), True),  # all ranks before this one
        (lambda p: 100 * np.arange(p)[::-1], True),
        (lambda p: 100 * np.minimum(np.arange(p), 2), False),  # two of them
    ],
)
def test_ranks_that_read_from_all_before_them_have_no_neighbours(scales, partners, is_limit):
    receive = {"visits": partners, "messages_received": partners}
    diagnosis = diagnose({"app->main->offset->MPI_Recv": receive}, scales)

    assert ("offset" in {entry.name for entry in diagnosis.limits}) == is_limit


def test_what_a_caller_passes_on_to_one_that_frees_it_is_not_held() -> None:
    """Measured of status_line.py of tests/evaluation/plants/held_out: p = 2 imports less."""
    imported = {2: 0.0}
    text = {"visits": lambda p: 60, "heap_growth": lambda p: 100_800.0 * p + 3360}
    plan: Plan = {
        "app": {
            **HEALTHY["app"],
            "heap_peak": lambda p: 1e7 + imported.get(p, 1.05e6) + 40_000 * p,
        },
        "app->main": {"visits": lambda p: 1, "heap_growth": lambda p: 1e6 + 1700.0 * p},
        "app->main->report": text,
        "app->main->report->status_line": text,
    }

    diagnosis = diagnose(plan, base={})

    assert "memory" not in {entry.kind for entry in diagnosis.statements}


def test_what_does_not_fit_in_the_peak_of_the_heap_was_not_held() -> None:
    """Arrays of Python functions are freed when their callers go on, 60 times."""
    grown = {"visits": lambda p: 60, "heap_growth": lambda p: 60 * 64_000 * p}

    def diagnose_with_peak(peak: float) -> Diagnosis:
        plan: Plan = {
            "app": {**HEALTHY["app"], "heap_peak": lambda p: 1e7 + peak * p},
            "app->main->partition": grown,
            "app->main->partition->bisect": grown,
            "app->main": {**HEALTHY["app->main"], "heap_growth": lambda p: 60 * 64_000 * p},
        }
        return diagnose(plan)

    kept = diagnose_with_peak(60 * 64_000)

    assert only_limit(kept).law == "3.84 MB * p"
    for arrays in (2, 20):  # with 20, the growth up to the second scale would fit
        freed = diagnose_with_peak(arrays * 64_000)
        laws = {entry.name: entry.law for entry in freed.statements}
        assert laws["bisect"] == "64 kB * p"


def test_small_blocks_that_belong_to_no_function_are_seen_in_the_peak_of_the_heap() -> None:
    def plan(small: float, buffer: float) -> Plan:
        def of_mpi(p: int) -> float:
            return 3e6 + 7e3 * p

        return {
            "app": {
                **HEALTHY["app"],
                "heap_peak": lambda p: of_mpi(p) + (small + buffer) * p + 4e5,
            },
            "app->main->MPI_Init": {"visits": lambda p: 1, "heap_growth": of_mpi},
            "app->main->exchange": {
                "visits": lambda p: 20,
                "heap_growth": lambda p: 0,
                "allocations": lambda p: 20,
                "bytes_allocated": lambda p: 20 * buffer * p,
            },
        }

    (statement,) = diagnose(plan(small=70_400, buffer=0)).statements
    others = diagnose(plan(small=0, buffer=70_400)).statements
    fine = diagnose(plan(small=0, buffer=0)).statements

    assert (statement.kind, statement.status, statement.callpath) == ("memory", "unclear", "app")
    assert (statement.metric, statement.exact) == ("heap_peak", False)
    assert statement.then == pytest.approx(70_400 * 65_536)
    assert [entry.metric for entry in others] == ["bytes_allocated"]
    assert not fine


def test_a_buffer_of_rank_0_is_named_with_its_rank_and_function() -> None:
    def peak(p: int) -> np.ndarray:
        return 4e6 + on_rank_0(64_000 * p, p)

    plan: Plan = {
        "app": {**HEALTHY["app"], "heap_peak": peak},
        "app->main->collect": {
            "visits": lambda p: 20,
            "heap_growth": lambda p: 0,
            "allocations": lambda p: 200,
            "bytes_allocated": lambda p: on_rank_0(20 * 64_000 * p, p),
        },
        "app->main->collect->note": {  # deeper, but what it allocates grows less than the peak
            "visits": lambda p: 20,
            "allocations": lambda p: 20,
            "bytes_allocated": lambda p: on_rank_0(9e6 + 30_000 * p, p),
        },
    }

    (statement,) = diagnose(plan).statements

    assert (statement.kind, statement.ranks) == ("memory", "rank 0")
    assert statement.callpath == "app->main->collect"
    assert statement.text.startswith("rank 0 holds about 64 kB * p")


def test_memory_of_mpi_alone_is_no_memory_of_the_program() -> None:
    peak = {"memory_rss_peak": lambda p: 54e6 + 0.3e6 * p, "heap_growth": lambda p: 10e6}

    result = diagnose({"app": {**HEALTHY["app"], **MPI_MEMORY, **peak}})

    assert not result.statements


def chain(p: int) -> tuple[list[int], list[int]]:
    """Messages received and sent by each rank that passes 20 messages on to the next."""
    return [0] + [20] * (p - 1), [20] * (p - 1) + [0]


def test_messages_passed_from_rank_to_rank_are_a_chain() -> None:
    plan: Plan = {
        "app->main->spread": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.01},
        "app->main->spread->MPI_Recv": {"messages_received": lambda p: chain(p)[0]},
        "app->main->spread->MPI_Send": {
            "messages_sent": lambda p: chain(p)[1],
            "bytes_sent": lambda p: np.array(chain(p)[1]) * 1e6,
        },
    }
    shifted = {path.replace("Send", "Isend"): values for path, values in plan.items()}

    (statement,) = diagnose(plan).statements
    others = diagnose(shifted).statements

    assert (statement.kind, statement.status, statement.ranks) == ("serial", "unclear", "last rank")
    assert statement.seconds == pytest.approx(65_535 * 1e-3, rel=0.01)
    assert ", at least 65.6 s at p = 65,536" in statement.text
    assert not others


def test_blocks_of_a_matrix_that_each_pair_of_ranks_exchanges_are_ever_smaller_messages() -> None:
    """Their sizes fall as 1 / p^2, which no law of a growing count describes."""
    plan: Plan = {
        "app->main->transpose->MPI_Sendrecv": {
            "messages_sent": lambda p: 6 * p,
            "bytes_sent": lambda p: 11_059_200 / p,
        }
    }

    found = diagnose(plan, scales=(1, 2, 4))

    assert not [entry for entry in found.statements if entry.kind == "bytes"]


def test_the_root_of_a_tree_has_two_neighbours_on_four_ranks_and_one_on_two() -> None:
    received = {1: 0, 2: 2, 4: 12, 8: 30}
    others = {1: 0, 2: 2, 4: 6, 8: 6}

    def plan(p: int) -> np.ndarray:
        return np.array([received[p], *[others[p]] * (p - 1)], dtype=float)

    tree: Plan = {"app->main->finish->MPI_Testall": {"messages_received": plan}}

    few = diagnose(tree, scales=(1, 2, 4))
    more = diagnose(tree, scales=(1, 2, 4, 8))

    assert not [entry for entry in few.statements if entry.kind == "serial"]
    (statement,) = [entry for entry in few.not_judged if entry.kind == "serial"]
    assert "neighbours in a grid look alike on so few ranks: run p = 8" in statement.text
    assert {entry.status for entry in more.statements if entry.kind == "serial"} == {"unclear"}


def test_chains_are_told_from_sweeps_through_a_grid_on_one_two_four_and_eight_ranks() -> None:
    grids: dict[int, tuple[list[int], list[int]]] = {
        **{p: chain(p) for p in (1, 2, 4)},  # of 2 x 2 ranks, each inner one has two neighbours
        8: ([0, 20, 20, 20, 20, 40, 40, 40], [40, 40, 40, 20, 20, 20, 20, 0]),  # of 4 x 2
    }

    def counted(counts: Callable[[int], tuple[list[int], list[int]]]) -> Plan:
        return {
            "app->main->spread": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.01},
            "app->main->spread->MPI_Recv": {"messages_received": lambda p: counts(p)[0]},
            "app->main->spread->MPI_Send": {
                "messages_sent": lambda p: counts(p)[1],
                "bytes_sent": lambda p: np.array(counts(p)[1]) * 1e6,
            },
        }

    (statement,) = diagnose(counted(chain), (1, 2, 4, 8)).statements
    of_grid = diagnose(counted(grids.__getitem__), (1, 2, 4, 8)).statements
    on_six = diagnose(counted(chain), (1, 2, 4, 6)).statements

    assert (statement.kind, statement.name) == ("serial", "spread")
    assert of_grid == on_six == ()


def sweep_plan(send: str) -> Plan:
    """Twenty messages to both neighbours in a row of ranks, of which the inner ranks have two."""

    def counts(p: int) -> np.ndarray:
        return np.array([20] + [40] * (p - 2) + [20])

    return {
        "app->main->sweep": {"visits": lambda p: 40, "time_exclusive": lambda p: 0.01},
        "app->main->sweep->MPI_Recv": {"messages_received": counts, "bytes_received": counts},
        f"app->main->sweep->{send}": {"messages_sent": counts, "bytes_sent": counts},
    }


def test_a_chain_there_and_back_is_told_from_an_exchange_by_its_length() -> None:
    plan = dict(sweep_plan("MPI_Send"))
    calls = plan["app->main->sweep->MPI_Recv"]
    chained = {**plan, "app->main->sweep->MPI_Recv": {**calls, "message_chain": lambda p: 40 * p}}
    healthy = {**plan, "app->main->sweep->MPI_Recv": {**calls, "message_chain": lambda p: 40}}

    (statement,) = diagnose(chained, crowded=True).statements
    others = diagnose(healthy, crowded=True).statements

    assert (statement.kind, statement.status, statement.ranks) == ("serial", "limit", "all")
    assert (statement.metric, statement.exact) == ("message_chain", True)
    assert statement.seconds == pytest.approx(65_536 * 40 * 1.5e-6, rel=0.01)
    assert ", at least 3.93 s at p = 65,536" in statement.text
    assert not others


@pytest.mark.parametrize(
    ("queued_s", "crowded", "between_s"),
    [
        (0.0, False, 0.01),
        (0.0, True, 0.0),  # not known how long ranks waited for cores
        (2.5, True, 0.0075),  # of 10 s
    ],
)
def test_the_work_between_the_messages_of_a_chain_adds_to_its_cost_without_waiting_for_cores(
    queued_s: float, crowded: bool, between_s: float
) -> None:
    plan = dict(sweep_plan("MPI_Send"))
    plan["app->main->sweep->MPI_Recv"] |= {
        "message_chain": lambda p: 40 * p,
        "message_chain_time": lambda p: 40 * p * (0.01 if p > 2 else 1.0),  # two ranks are no chain
    }
    base = {**HEALTHY, "app": {**HEALTHY["app"], "processor_wait": lambda p: queued_s}}

    found = diagnose(plan, crowded=crowded, base=base)

    (statement,) = [entry for entry in found.statements if entry.metric == "message_chain"]
    assert statement.seconds == pytest.approx(65_536 * 40 * (1.5e-6 + between_s), rel=0.01)
    assert ("each sent at least" in statement.text) == bool(between_s)


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


@pytest.mark.parametrize(("visits", "budget_s"), [(1, 1.0), (40, 0.5)])
def test_a_chain_in_a_function_that_runs_once_may_take_longer(visits, budget_s):
    """At least 1 s, or 5 % of the run time of 10 s in a function that runs again and again."""
    plan = dict(sweep_plan("MPI_Send"))
    plan["app->main->sweep"] = {"visits": lambda p: visits, "time_exclusive": lambda p: 0.01}
    plan["app->main->sweep->MPI_Recv"] |= {"message_chain": lambda p: 40 * p}

    (statement,) = diagnose(plan).statements

    assert statement.severity == pytest.approx(statement.seconds / budget_s, rel=1e-9)


@pytest.mark.parametrize(
    "call", ["MPI_File_write_ordered", "PMPI_File_write_ordered", "MPI_File_write_at_all"]
)
def test_ranks_that_write_in_the_order_of_their_numbers_wait_for_one_another(call: str) -> None:
    plan: Plan = {f"app->main->write_lines->{call}": {"visits": lambda p: 200}}

    statements = diagnose(plan, crowded=True).statements

    found = [(entry.kind, entry.status, entry.name, entry.law) for entry in statements]
    is_ordered = call.endswith("ordered")
    assert found == ([("serial", "unclear", "write_lines", "200 (p - 1)")] if is_ordered else [])


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


def test_memory_whose_steps_differ_too_much_is_no_amount_at_the_target() -> None:
    """miniVite 1.0: 4, 140 and 175 kB on 2, 4 and 8 ranks became 63 GB, if held at once."""
    heap = {1: 0.0, 2: 4_328.0, 4: 140_344.0, 8: 175_400.0}
    blocks = {1: 70, 2: 193, 4: 263, 8: 299}
    plan: Plan = {
        "app->main->fill": {
            "heap_growth": lambda p: heap[p],
            "allocations": lambda p: blocks[p],
            "bytes_allocated": lambda p: 10 * heap[p],
        }
    }

    diagnosis = diagnose(plan, (1, 2, 4, 8), crowded=True)

    assert [entry for entry in diagnosis.statements if entry.kind == "memory"] == []
    (open_question,) = [entry for entry in diagnosis.not_judged if entry.kind == "memory"]
    assert "its steps differ too much to extrapolate them: run p = 16" in open_question.text


def test_the_length_of_a_pipeline_over_many_blocks_counts_at_the_target() -> None:
    """60 blocks: a chain of 11 more messages on 12 ranks, and of 65,535 more at the target."""
    plan: Plan = {
        "app->main->pipeline->MPI_Recv": {
            "messages_received": lambda p: 60 * (np.arange(p) > 0),
            "bytes_received": lambda p: 480 * (np.arange(p) > 0),
            "message_chain": lambda p: p + 58,
            "message_chain_time": lambda p: (p + 58) * 1e-3,
        },
        "app->main->pipeline->MPI_Send": {"messages_sent": lambda p: 60 * (np.arange(p) < p - 1)},
    }

    near = diagnose(plan, target={"p": 50.0}).statements
    (far,) = diagnose(plan).statements

    assert near == ()
    assert (far.kind, far.status, far.law) == ("serial", "limit", "p + 58")
    assert far.seconds == pytest.approx((65_536 + 58) * (1e-3 + 1.5e-6), rel=0.01)


def test_the_work_between_the_messages_of_a_chain_shrinks_with_a_problem_of_fixed_size() -> None:
    plan: Plan = {
        **{path: its for path, its in HEALTHY.items() if "push" not in path},
        "app->main->push": {"visits": lambda p: 1000 / p, "time_exclusive": lambda p: 8.0 / p},
        "app->main": {"visits": lambda p: 1, "time": lambda p: 9.0, "time_exclusive": lambda p: 0},
        **sweep_plan("MPI_Send"),
        "app->main->sweep": {"visits": lambda p: 40 / p, "time_exclusive": lambda p: 0.01 / p},
    }
    plan["app->main->sweep->MPI_Recv"] |= {
        "message_chain": lambda p: 40 * p,
        "message_chain_time": lambda p: 40 * p * 0.12 / p,
    }

    found = diagnose({}, base=plan)

    (statement,) = [entry for entry in found.statements if entry.metric == "message_chain"]
    assert found.scaling == "strong"
    assert statement.seconds == pytest.approx(40 * (0.12 + 65_536 * 1.5e-6), rel=0.01)
    assert "each sent at least 10 ms after" in statement.text  # on 12 ranks


@pytest.mark.parametrize("length", [20, 0])
def test_objects_passed_around_a_ring_are_a_chain_that_the_matched_probe_measures(
    length: int,
) -> None:
    plan: Plan = {
        "app->main->ring": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.01},
        "app->main->ring->MPI_Mprobe": {"message_chain": lambda p: length * p or 20},
        "app->main->ring->MPI_Mrecv": {
            "messages_received": lambda p: 20,
            "bytes_received": lambda p: 100,
        },
        "app->main->ring->MPI_Send": {"messages_sent": lambda p: 20, "bytes_sent": lambda p: 100},
    }

    statements = diagnose(plan, crowded=True).statements

    found = [(entry.kind, entry.status, entry.metric, entry.law) for entry in statements]
    assert found == ([("serial", "limit", "message_chain", "20 p")] if length else [])


def test_a_token_in_iterations_that_converge_later_on_more_ranks_is_a_chain_of_p_minus_1() -> None:
    """SNAP with a token before each sweep: fewer on up to 6 ranks than on 8 and 12."""

    def passes(p: int) -> int:
        return 1800 if p < 8 else 1900

    plan: Plan = {
        "app->main->inner->MPI_Recv": {
            "visits": passes,
            "messages_received": lambda p: np.where(np.arange(p) > 0, passes(p), 0),
            "message_chain": lambda p: passes(p) * (p - 1),
        },
        "app->main->inner->MPI_Send": {
            "visits": passes,
            "messages_sent": lambda p: np.where(np.arange(p) < p - 1, passes(p), 0),
        },
    }

    found = diagnose(plan, (1, 2, 3, 4, 6, 8, 12), crowded=True, target={"p": 1024}).statements

    (statement,) = [entry for entry in found if entry.metric == "message_chain"]
    assert (statement.status, statement.law) == ("unclear", "1,900 (p - 1)")
    assert statement.text.startswith("each rank waits for 1,900 (p - 1) messages, each sent after")
    assert "if passes are as many as at p = 12" in statement.text


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


def test_the_axes_of_a_grid_make_no_growing_chain() -> None:
    axes = {2: 1, 4: 2, 8: 3, 16: 3}
    plan: Plan = {
        "app->main->halo->MPI_Sendrecv": {
            "messages_received": lambda p: 20 * axes[p],
            "messages_sent": lambda p: 20 * axes[p],
            "message_chain": lambda p: 40 * axes[p],
        }
    }

    assert not [
        entry
        for entry in diagnose(plan, scales=(2, 4, 8, 16)).statements
        if entry.metric == "message_chain"
    ]


def test_the_last_rank_that_has_the_remainder_is_named() -> None:
    plan: Plan = {
        "app->main->cell": {
            "visits": lambda p: [1000 // p] * (p - 1) + [1000 // p + 40],
            "time_exclusive": lambda p: np.array([1000 // p] * (p - 1) + [1000 // p + 40]) * 0.1,
        }
    }

    (statement,) = [
        entry for entry in diagnose(plan, crowded=True).statements if entry.kind == "imbalance"
    ]

    assert (statement.ranks, statement.metric) == ("last rank", "visits")


def test_a_rank_that_is_slowest_at_all_scales_is_named_with_doubt_where_cores_are_shared() -> None:
    def times(p: int) -> object:
        return [2.0 if rank == 1 else 0.5 for rank in range(p)]

    def turns(p: int) -> object:
        slowest = {2: 0, 3: 2, 4: 1, 6: 0, 8: 5, 12: 10}[p]
        return [2.0 if rank == slowest else 0.5 for rank in range(p)]

    slow = {"app->main->kernel": {"visits": lambda p: 20, "time_exclusive": times}}
    noisy = {"app->main->kernel": {"visits": lambda p: 20, "time_exclusive": turns}}
    quick = {"app->main->push": {"visits": lambda p: 100, "time_exclusive": lambda p: 0.4}}

    (statement,) = diagnose({**quick, **slow}, crowded=True).statements

    assert (statement.kind, statement.ranks) == ("imbalance", "rank 1")
    assert (statement.status, statement.run) == ("unclear", "p = 12 on as many cores")
    assert not diagnose({**quick, **noisy}, crowded=True).statements
    assert "warning" in {entry.status for entry in diagnose({**quick, **slow}).statements}


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (lambda p: p // 2, "rank 6 (p / 2)"),
        (lambda p: (p - 1) // 2, "rank 5 ((p - 1) / 2)"),
        (lambda p: p - 2, "rank 10 (p - 2)"),
        (lambda p: p * 7 // 10, "rank 8 (the one at 71 % of the ranks)"),
        (lambda p: {2: 1, 3: 0, 4: 0, 6: 3, 8: 2, 12: 7}[p], "rank 7 (2 at p = 8)"),
    ],
)
def test_a_rank_that_does_more_by_any_rule_is_named(rule, name) -> None:
    def visits(p: int) -> object:
        return [60 if rank == rule(p) else 20 for rank in range(p)]

    counted: Plan = {
        "app->main->force": {
            "visits": visits,
            "time_exclusive": lambda p: 0.1 * np.array(visits(p)),
        }
    }
    timed: Plan = {
        "app->main->force": {
            "visits": lambda p: 20,
            "time_exclusive": lambda p: 0.1 * np.array(visits(p)),
        }
    }

    found = [
        (entry.ranks, entry.metric, entry.status)
        for plan in (counted, timed)
        for entry in diagnose(plan, crowded=True).statements
        if entry.kind == "imbalance"
    ]

    times = [] if "at p" in name else [(name, "time_exclusive", "unclear")]
    assert found == [(name, "visits", "warning"), *times]


def test_the_imbalance_of_a_rank_whose_share_grows_is_carried_to_the_target() -> None:
    def visits(p: int) -> object:
        more = 10 * round(30 * math.sqrt(p))
        return [more if rank == p // 2 else 300 for rank in range(p)]

    plan: Plan = {
        "app->main->relax": {
            "visits": visits,
            "time_exclusive": lambda p: 1e-3 * np.array(visits(p)),
        }
    }

    def imbalance(scales: tuple[int, ...]) -> Statement:
        found = diagnose(plan, scales, crowded=True).statements
        (statement,) = [entry for entry in found if entry.kind == "imbalance"]
        return statement

    certain, few = imbalance((2, 4, 6, 8, 12, 16)), imbalance((4, 8, 12, 16))

    assert (certain.status, certain.ranks, certain.exact) == ("limit", "rank 8 (p / 2)", True)
    assert certain.law == "300 p^(1/2)"
    assert certain.text.startswith("rank 8 (p / 2) visits relax 300 p^(1/2) times, each other")
    assert (certain.now, certain.then) == (
        1200,
        pytest.approx(300 * 256, rel=2e-3),
    )  # visits are whole tens
    assert (certain.low, certain.high) == (certain.then, certain.then)
    assert (few.law, few.exact) == (None, False)  # boundaries of a grid may look alike


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


def test_the_owner_of_an_expensive_layer_is_named_although_its_neighbours_own_a_part_too() -> None:
    rows, layer = np.arange(96), (60, 72)

    def visits(p: int) -> object:
        cost = np.where((rows >= layer[0]) & (rows < layer[1]), 40, 5)
        return [int(part.sum()) for part in np.array_split(cost, p)]

    plan: Plan = {
        "app->main->trace": {
            "visits": visits,
            "time_exclusive": lambda p: 0.01 * np.array(visits(p)),
        }
    }

    (statement,) = [
        entry for entry in diagnose(plan, crowded=True).statements if entry.kind == "imbalance"
    ]

    assert statement.ranks == "rank 8 (the one at 71 % of the ranks)"
    assert statement.metric == "visits"


def test_calls_of_several_operations_in_one_loop_are_one_statement() -> None:
    plan: Plan = {
        f"app->main->groups->{name}": {"visits": lambda p: 100 * p, "comm_ranks": lambda p: p}
        for name in ("MPI_Comm_split", "MPI_Allreduce", "MPI_Comm_free")
    }

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.name) == ("messages", "groups")
    assert all(name in limit.text for name in ("Comm_split", "Allreduce", "Comm_free"))


def test_a_rank_that_waits_for_a_core_where_it_alone_writes_is_not_named() -> None:
    """A visit takes 2 ms at best; what it takes beyond that may be waiting."""
    plan: Plan = {
        "app->main->push": {"visits": lambda p: 100, "time_exclusive": lambda p: 0.4},
        "app->main->report": {
            "visits": lambda p: on_rank_0(5, p),
            "time_exclusive": lambda p: on_rank_0(0.005 * p, p),
        },
    }

    assert not diagnose(plan, crowded=True).statements


def test_locks_that_may_all_be_of_one_rank_are_not_fine() -> None:
    """Which ranks they lock is not known."""
    paths = ("app->main->ticket->MPI_Win_lock", "app->main->ticket->MPI_Win_unlock")
    plan: Plan = {
        path: {"visits": lambda p: 200, "time_exclusive": lambda p: 1.0} for path in paths
    }

    diagnosis = diagnose(plan)

    assert not diagnosis.limits
    assert "ticket" not in {entry.name for entry in diagnosis.fine}
    (unjudged,) = [entry for entry in diagnosis.not_judged if entry.name == "ticket"]
    assert "it serves 13.1 million calls, at least 19.7 s at p = 65,536" in unjudged.text
    assert (unjudged.kind, unjudged.unit) == ("serial", "1")
    assert not [entry for entry in diagnose(plan, target={"p": 16.0}).not_judged if entry.callpath]


@pytest.mark.parametrize("call", ["MPI_Fetch_and_op", "MPI_Win_lock", "MPI_Get"])
def test_one_sided_calls_that_all_ranks_address_to_one_are_a_limit(call: str) -> None:
    plan: Plan = {
        f"app->main->next_task->{call}": {
            "visits": lambda p: 300,
            "time_exclusive": lambda p: 1.0,
            "only_partner": lambda p: 0,
        }
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.ranks) == ("serial", "next_task", "rank 0")
    assert limit.law == "300 p"
    assert limit.exact
    assert f"rank 0 serves 300 p calls of {call}: 19.7 million of them, 29.5 s" in limit.text


def test_messages_to_two_servers_are_a_limit_of_the_function_that_receives_them() -> None:
    """No rank is alone, and the mean over ranks does not grow."""

    def clients(p: int) -> np.ndarray:
        return np.where(np.arange(p) % (p // 2) == 0, 0.0, 40.0)

    def servers(p: int) -> np.ndarray:
        return np.where(clients(p) == 0, 40.0 * (p // 2 - 1), 0.0)

    def server_of(p: int) -> np.ndarray:
        return np.where(clients(p) > 0, np.arange(p) // (p // 2) * (p // 2), np.nan)

    plan: Plan = {
        "app->main->deliver->MPI_Send": {
            "visits": clients,
            "messages_sent": clients,
            "bytes_sent": lambda p: 16_000 * clients(p),
            "only_partner": server_of,
        },
        "app->main->serve->MPI_Recv": {
            "visits": servers,
            "messages_received": servers,
            "bytes_received": lambda p: 16_000 * servers(p),
        },
    }

    diagnosis = diagnose(plan, (2, 4, 6, 8, 12), crowded=True)

    limit = only_limit(diagnosis)
    assert (limit.kind, limit.name, limit.ranks) == ("serial", "serve", "busiest rank")
    assert limit.exact
    assert "receives 20 p - 40 messages of ranks that send to no other" in limit.text
    assert "serve" not in {entry.name for entry in diagnosis.fine}


def test_the_root_of_a_tree_is_one_cause_if_it_collects_the_blocks_of_all() -> None:
    """It has log2(p) children, which send ever more to their only parent."""

    def parents(p: int) -> np.ndarray:
        return np.array([np.nan, *(rank & (rank - 1) for rank in range(1, p))])

    def received(p: int, values: np.ndarray) -> np.ndarray:
        return np.bincount(parents(p)[1:].astype(int), weights=values[1:], minlength=p)

    def blocks(p: int) -> np.ndarray:
        ranks = np.arange(p)
        return np.minimum(ranks & -ranks, p - ranks) * 480_000.0

    plan: Plan = {
        "app->main->collect->MPI_Send": {
            "visits": lambda p: np.where(np.arange(p) > 0, 60, 0),
            "messages_sent": lambda p: np.where(np.arange(p) > 0, 60, 0),
            "bytes_sent": blocks,
            "only_partner": parents,
        },
        "app->main->collect->MPI_Recv": {
            "visits": lambda p: received(p, np.full(p, 60.0)),
            "messages_received": lambda p: received(p, np.full(p, 60.0)),
            "bytes_received": lambda p: received(p, blocks(p)),
        },
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.law) == ("serial", "collect", "480 kB * (p - 1)")


def test_one_sided_calls_to_the_next_rank_are_fine() -> None:
    plan: Plan = {
        "app->main->next_task->MPI_Fetch_and_op": {
            "visits": lambda p: 300,
            "time_exclusive": lambda p: 1.0,
            "bytes_sent": lambda p: 2400,
            "only_partner": lambda p: (np.arange(p) + 1) % p,
        }
    }

    diagnosis = diagnose(plan)

    assert not diagnosis.statements
    assert "next_task" in {entry.name for entry in diagnosis.fine}


def test_the_chain_of_tasks_that_one_rank_hands_out_is_no_cause_of_its_own() -> None:
    def received(p: int) -> np.ndarray:
        more = {2: 0, 3: 1, 4: 2, 6: 2, 8: 4, 12: 7}[p]
        tasks = np.full(p, 31.0 - more / max(p - 2, 1))
        tasks[0], tasks[1] = 0, 31 + more
        return tasks

    chain = {2: 60, 3: 61, 4: 70, 6: 96, 8: 141, 12: 203}
    plan: Plan = {
        "app->main->work->MPI_Recv": {
            "messages_received": received,
            "visits": received,
            "message_chain": lambda p: chain[p],
        }
    }

    assert not diagnose(plan, crowded=True).statements


def test_the_slow_rank_of_a_function_whose_time_grows_is_named_too() -> None:
    def seconds(p: int) -> object:
        return [2.0 * p if rank == p // 2 else 0.2 * p for rank in range(p)]

    plan: Plan = {"app->main->kernel": {"visits": lambda p: 20, "time_exclusive": seconds}}

    statements = diagnose(plan, has_models=True).statements

    assert {"imbalance", "compute"} <= {entry.kind for entry in statements}


def test_a_rank_that_happened_to_do_most_of_the_shared_tasks_is_not_named() -> None:
    def visits(p: int) -> object:
        slowest = {2: 0, 3: 2, 4: 1, 6: 0, 8: 5, 12: 6}[p]
        return [20 + 3 * rank % 7 + (15 if rank == slowest else 0) for rank in range(p)]

    plan: Plan = {
        "app->main->task": {
            "visits": visits,
            "time_exclusive": lambda p: 0.1 * np.array(visits(p)),
        }
    }

    statements = diagnose(plan, crowded=True).statements

    assert [entry.ranks for entry in statements if entry.metric == "visits"] == ["rank 6"]
    assert "p / 2" not in statements[0].text  # it has most in the largest run, which is all


def visiting(visits: Vector) -> Plan:
    """A function of which each visit takes 2 ms."""
    return {
        "app->main->cell": {
            "visits": visits,
            "time_exclusive": lambda p: 0.002 * np.asarray(visits(p), dtype=float),
        }
    }


def grid_of(p: int) -> tuple[int, int]:
    rows = max(rows for rows in range(1, p + 1) if p % rows == 0 and rows * rows <= p)
    return p // rows, rows


def test_the_ranks_of_a_row_that_do_more_than_all_others_are_named() -> None:
    def visits(p: int) -> np.ndarray:
        _, columns = grid_of(p)
        return np.where(np.arange(p) < columns, 4_500.0, 1_500.0)

    (statement,) = diagnose(visiting(visits), (2, 4, 6, 8, 12), crowded=True).statements

    assert (statement.kind, statement.status, statement.name) == ("imbalance", "warning", "cell")
    assert statement.ranks == "3 of 12 ranks (0 to 2)"
    assert statement.text.startswith(
        "3 of 12 ranks (0 to 2) visit cell 2.0 times as often as the mean: load balance 50 %"
    )
    assert statement.text.endswith("3 times as often as the others at all 4 scales above two ranks")


def test_a_function_whose_visits_do_not_repeat_hides_no_row_that_does_more() -> None:
    def visits(p: int) -> np.ndarray:
        _, columns = grid_of(p)
        return np.where(np.arange(p) < columns, 4_500.0, 1_500.0)

    runs = []
    for p in (2, 4, 6, 8, 12):
        for repetition in (0, 1):
            polls: Plan = {"app->aaa_poll": {"visits": lambda p, more=repetition: 40.0 + 9 * more}}
            table = table_at({**HEALTHY, **polls, **visiting(visits)}, p)
            runs.append((RunKey.of({"p": p}, repetition), table))
    experiment = Experiment(("p",), tuple(runs), {key: 2 for key, _ in runs})

    found = diagnose_experiment(experiment, [], ModelSet(), program="app", target=TARGET)

    assert [entry.name for entry in found.statements if entry.kind == "imbalance"] == ["cell"]


@pytest.mark.parametrize(
    "scales", [(2, 4, 6, 8, 12, 16), (4, 9, 16, 25, 36), (16, 25, 36, 49), (8, 16, 32, 64)]
)
def test_ranks_inside_a_domain_are_no_group_that_does_more(scales: tuple[int, ...]) -> None:
    """The walls of a domain count ever less: its ranks inside grow from none to most."""

    def visits(p: int) -> np.ndarray:
        rows, columns = grid_of(p)
        row, column = np.divmod(np.arange(p), columns)
        along = (row > 0) * 1 + (row < rows - 1)
        return 1_500.0 * (along + (column > 0) + (column < columns - 1))

    statements = diagnose(visiting(visits), scales, crowded=True, target={"p": 64.0}).statements

    assert not [entry for entry in statements if "others" in entry.text]


def test_neighbours_of_ranks_inside_a_domain_are_no_imbalance() -> None:
    """Of 6, 8 and 10 ranks in two rows, 2, 4 and 6 have three neighbours: ever more."""

    def visits(p: int) -> np.ndarray:
        column = np.arange(p) // 2
        return 1_500.0 * (1.0 + (column > 0) + (column < p // 2 - 1))

    statements = diagnose(visiting(visits), (2, 4, 6, 8, 10), crowded=True).statements

    assert not [entry for entry in statements if entry.kind == "imbalance"]


def test_an_imbalance_of_several_call_paths_of_a_function_is_one_statement() -> None:
    def visits(p: int) -> np.ndarray:
        return np.where(np.arange(p) < 2, 4_500.0, 1_500.0)

    path, values = next(iter(visiting(visits).items()))
    larger = {**values, "time_exclusive": lambda p: 0.004 * visits(p)}
    plan: Plan = {path: values, "app->main->load->cell": larger, "app->main->save->cell": values}

    (statement,) = diagnose(plan, (2, 8), crowded=True).statements

    assert (statement.kind, statement.ranks) == ("imbalance", "2 of 8 ranks (0 to 1)")
    assert statement.callpath == "app->main->load->cell"
    assert statement.text.endswith("at p = 8, 3 s; the same for 2 more call paths")


def test_times_of_ranks_that_all_lacked_a_core_name_no_slow_rank() -> None:
    """Of 10 s, 9 are on a core, or 6: other programs may have slowed rank 0 then."""
    plan: Plan = {
        "app->main->entry": {
            "visits": lambda p: 100,
            "time_exclusive": lambda p: on_rank_0(3.0, p) + 1.0,
        }
    }
    for cpu_s, names in ((9.0, ["entry"]), (6.0, [])):
        base = {**HEALTHY, "app": {**HEALTHY["app"], "cpu_time": lambda p, cpu_s=cpu_s: cpu_s}}

        statements = diagnose(plan, (2,), base=base).statements

        assert [entry.name for entry in statements if entry.kind == "imbalance"] == names


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


def test_receives_posted_for_all_ranks_are_named_although_no_message_arrives() -> None:
    def expecting(name: str, of_timing: int = 0) -> Plan:
        return {
            f"app->main->expect->{name}": {
                "visits": lambda p: 30 * p + of_timing * (np.arange(p) % 2),
                "time_exclusive": lambda p: 30 * p * 1e-6,
            }
        }

    limit = only_limit(diagnose(expecting("MPI_Irecv")))

    assert (limit.kind, limit.callpath, limit.exact) == ("messages", "app->main->expect", True)
    assert "calls MPI_Irecv 30 p times" in limit.text
    assert not diagnose(expecting("MPI_Iprobe", of_timing=1)).statements


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


def test_messages_around_a_ring_are_certain_since_their_partners_stay_the_same() -> None:
    def passing(partners: Callable[[int], int]) -> Plan:
        values: dict[str, Vector] = {
            "visits": lambda p: 10 * (p - 1),
            "messages_sent": lambda p: 10 * (p - 1),
            "messages_received": lambda p: 10 * (p - 1),
            "partners": partners,
        }
        return {"app->main->pass_around->MPI_Sendrecv": values}

    scales = (2, 3, 4, 5, 6, 8)
    ring = diagnose(passing(lambda p: min(p - 1, 2)), scales=scales)
    all_to_all = diagnose(passing(lambda p: p - 1), scales=scales)

    assert only_limit(ring).kind == "messages"
    assert not all_to_all.limits


def test_noise_of_shared_cores_does_not_make_weak_scaling_strong() -> None:
    base = {"app": HEALTHY["app"]}

    def scaling(seconds: Vector) -> str:
        plan: Plan = {"app->main->cell": {"visits": lambda p: 6_000, "time_exclusive": seconds}}
        return diagnose(plan, base=base, crowded=True).scaling

    def busy(p: int) -> np.ndarray:
        return np.array([0.6 / p] * (p - 1) + [0.6])  # the more ranks, the luckier the luckiest

    assert scaling(busy) == "mixed"
    assert scaling(lambda p: 0.6) == "weak"
    assert scaling(lambda p: 0.6 / p) == "strong"


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


def test_runs_that_shared_cores_ask_for_cores_of_their_own():
    plan = {"app->main->step": {"visits": lambda p: 20, "time_exclusive": lambda p: 1.0}}

    diagnosis = diagnose(plan, (4, 6, 8, 12, 16), crowded=True)

    assert "no limit in counts up to 65,536 ranks" in diagnosis.verdict
    assert diagnosis.next_run == "p = 16 on as many free cores: times are judged only there"


@pytest.mark.parametrize("share", [1.0, 0.25, 0.01])
def test_memory_that_is_held_in_part_is_a_limit_in_proportion(share):
    p = np.array(SCALES, dtype=float)
    law = find_laws(p, 64 * p + 16)[0]
    growth = estimated_growth(law, p, low=1e6, high=4e6)
    owner = CallPath.parse("app->main->table")
    measured = SimpleNamespace(p=p)

    whole = _memory_limit(measured, owner, growth, 1.0, 65_536.0)
    limit = _memory_limit(measured, owner, growth, share, 65_536.0)

    for scale in (2.0, 12.0, 65_536.0):
        assert limit.growth.law.at(scale) == pytest.approx(share * (64 * scale + 16))
        assert limit.cost(scale) == pytest.approx(share * whole.cost(scale))
    for name in ("now", "low", "high"):
        assert getattr(limit.growth, name) == pytest.approx(share * getattr(whole.growth, name))


@pytest.mark.parametrize(("kept", "of_second"), [(1, "8 kB * p"), (2, "80 kB * p")])
def test_each_byte_that_a_caller_keeps_is_given_to_one_function(kept, of_second):
    one = {"visits": lambda p: 10, "heap_growth": lambda p: 80_000 * p}
    plan = {
        "app->main->build": {"visits": lambda p: 1, "heap_growth": lambda p: kept * 80_000 * p},
        "app->main->build->fill": one,
        "app->main->build->index": one,
    }

    statements = diagnose(plan, target={"p": 1e6}).all_statements()

    laws = {entry.name: entry.law for entry in statements if entry.kind == "memory"}
    assert laws == {"fill": "80 kB * p", "index": of_second}


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


@pytest.mark.parametrize(
    ("slowest", "others", "polls", "is_named"),
    [
        (1.6, 0.4, False, True),
        (0.5, 0.4, False, False),  # by as much as caches and chance explain
        (0.05, 0.01, False, False),  # too few samples
        (1.6, 0.4, True, False),  # a loop around MPI_Test, in which ranks wait
    ],
)
def test_a_rank_with_far_more_samples_at_both_largest_scales_is_named(
    slowest: float, others: float, polls: bool, is_named: bool
) -> None:
    def times(p: int) -> np.ndarray:
        vector = np.full(p, others)
        vector[3:4] = slowest  # on one and two ranks, there is no rank 3
        return vector

    plan: Plan = {
        "app": {"time": lambda p: 10.0, "time_exclusive": lambda p: 0.1},
        "app->main->smooth": {"time_exclusive": times},
        "app->main->smooth->norm": {"time_exclusive": lambda p: 0.3 * times(p)},
        "app->main->halo->MPI_Barrier": {"visits": lambda p: 100, "comm_ranks": lambda p: 100 * p},
    }
    if polls:
        plan = {**plan, "app->main->smooth->MPI_Testall": {"visits": lambda p: 900}}

    statements = diagnose(plan, (1, 2, 4, 8), crowded=True, base={}, sampling_s=0.01).statements

    found = [entry for entry in statements if entry.kind == "imbalance"]
    named = [(entry.ranks, entry.name) for entry in found]
    if polls:
        assert ("rank 3", "smooth") not in named
    else:
        assert named == ([("rank 3", "smooth")] if is_named else [])
    if is_named:
        assert "rank 3 has 160 samples of smooth, no other rank more than 40," in found[0].text


@pytest.mark.parametrize(("count", "is_named"), [(1, False), (2, False), (9, True)])
def test_single_samples_that_fall_on_the_same_rank_are_chance(count: int, is_named: bool) -> None:
    def times(p: int) -> np.ndarray:
        vector = np.full(p, 0.001)  # the mean of several repetitions
        vector[3:4] = 0.01 * count
        return vector

    plan: Plan = {
        "app": {"time": lambda p: 1.0, "time_exclusive": lambda p: 0.01},
        "app->main->smooth": {"time_exclusive": times},
        "app->main->halo->MPI_Barrier": {"visits": lambda p: 100, "comm_ranks": lambda p: 100 * p},
    }

    statements = diagnose(plan, (1, 2, 4, 6, 8), crowded=True, base={}, sampling_s=0.01).statements

    assert ("rank 3" in {entry.ranks for entry in statements}) == is_named


@pytest.mark.parametrize(("seconds", "is_named"), [(0.005, False), (0.5, True)])
def test_milliseconds_that_one_rank_does_more_at_every_scale_are_not_worth_a_line(
    seconds: float, is_named: bool
) -> None:
    """Such as a database that rank 0 creates; sqlite_log.py of tests/evaluation."""
    plan: Plan = {
        "app": {"visits": lambda p: 1, "time": lambda p: 0.3, "time_exclusive": lambda p: 0.2},
        "app->main": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.01},
        "app->main->create": {
            "visits": lambda p: on_rank_0(1, p),
            "time_exclusive": lambda p: on_rank_0(seconds, p),
        },
    }

    statements = diagnose(plan, crowded=True, base={}).statements

    assert bool(statements) == is_named


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


def test_a_function_that_one_rank_alone_visits_has_no_load_balance() -> None:
    plan: Plan = {
        "app->main->master": {
            "visits": lambda p: on_rank_0(1, p),
            "time_exclusive": lambda p: on_rank_0(4.0, p),
        }
    }

    statements = diagnose(plan, crowded=True).statements

    (statement,) = [entry for entry in statements if entry.name == "master"]
    assert statement.text.startswith("only rank 0 visits master: 3.67 s more than the mean at p =")
    assert "load balance" not in statement.text


def test_what_happens_in_no_visit_has_no_value_per_visit():
    """As where another tool has bytes of functions whose visits it did not count."""
    totals = RankSeries(((np.array([8.0, 6.0, np.nan]),),))
    visits = RankSeries(((np.array([2.0, 0.0, 1.0]),),))

    ((per_visit,),) = (totals / visits).vectors

    np.testing.assert_array_equal(per_visit, [4.0, 0.0, np.nan])


def test_functions_whose_messages_neighbours_may_explain_share_a_line() -> None:
    neighbours = {1: 0, 2: 10, 4: 35}
    plan: Plan = {
        f"app->main->{name}->MPI_Isend": {"messages_sent": lambda p: neighbours[p]}
        for name in ("pack", "halo", "edges", "faces")
    }

    found = diagnose(plan, scales=(1, 2, 4))

    texts = [entry.text for entry in found.not_judged if entry.kind == "messages"]
    assert len(texts) == 2
    assert "neighbours in a grid look alike on so few ranks: run p = 8" in texts[0]
    assert texts[1].startswith("growing messages of ")
    assert texts[1].endswith(", for the same reason")


def test_visits_of_functions_that_neighbours_may_explain_are_no_messages() -> None:
    statements = []
    for kind, names in (("compute", "abc"), ("messages", "def"), ("files", "ghi")):
        for name in names:
            text = f"{kind} of {name}; {NEIGHBOURS}: run p = 8"
            path, also = f"main->{name}", (f"bytes of {name}",)
            statements.append(Statement(kind, NOT_JUDGED, text, callpath=path, also=also))

    merged = merge_neighbours(statements)
    texts = [entry.text for entry in merged]

    b, c = statements[1:3]
    assert merged[1].also == (b.text, "bytes of b", c.text, "bytes of c")

    assert texts == [
        f"compute of a; {NEIGHBOURS}: run p = 8",
        "growing visits of b, c, for the same reason",
        f"messages of d; {NEIGHBOURS}: run p = 8",
        "growing messages of e, f, for the same reason",
        f"files of g; {NEIGHBOURS}: run p = 8",
        "growth of h, i, for the same reason",
    ]


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


def test_what_two_scales_and_no_heap_leave_open_is_not_judged():
    plan: Plan = {"app->main": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.1}}

    diagnosis = diagnose(plan, (2, 4), base={})

    open_questions = {entry.kind: entry for entry in diagnosis.not_judged}
    assert {entry.status for entry in open_questions.values()} == {"not judged"}
    assert open_questions["law"].text == "growth with p: 2 of 3 scales are measured"
    assert open_questions["law"].run == "p = 8"
    assert open_questions["memory"].text == "memory: the heap was not measured"
    assert open_questions["memory"].run == "a run with --heap on"


@pytest.mark.parametrize(
    ("function", "named"), [("hypre_MPI_Bcast", "share"), ("set_MPI_types", "set_MPI_types")]
)
def test_a_function_that_calls_mpi_for_others_counts_as_its_caller(function: str, named: str):
    calls: Mapping[str, Vector] = {"visits": lambda p: 2000 * p, "bytes_received": lambda p: 0}
    plan = {f"app->main->share->{function}->MPI_Bcast": calls}

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.law) == ("messages", named, "2,000 p")
