"""Diagnosis: memory that ranks hold, and what they allocate."""

from types import SimpleNamespace

import numpy as np
import pytest

from insitu.analysis.diagnosis.diagnose import (
    Diagnosis,
)
from insitu.analysis.diagnosis.growth import estimated_growth
from insitu.analysis.diagnosis.laws import find_laws
from insitu.analysis.diagnosis.memory import _memory_limit
from insitu.entities import (
    CallPath,
)
from tests.analysis.programs import (
    HEALTHY,
    LISTS,
    MPI_MEMORY,
    SCALES,
    Plan,
    diagnose,
    on_rank_0,
    only_limit,
)


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


def test_small_python_objects_are_found_in_the_peak_of_the_process() -> None:
    result = diagnose(LISTS)

    (statement,) = [entry for entry in result.statements if entry.kind == "memory"]
    assert statement.callpath == "app->main->register"
    assert statement.status == "unclear"
    assert statement.then == pytest.approx(185_000 * 65_536, rel=0.1)


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


@pytest.mark.parametrize(("peak", "is_held"), [(64_000, True), (20_000, False)])
def test_what_a_large_peak_has_no_room_for_as_it_grows_was_not_held(peak: int, is_held: bool):
    """A gigabyte of other data stays, and the peak never falls."""
    grown = {"visits": lambda p: 60, "heap_growth": lambda p: 60 * 64_000 * p}
    plan: Plan = {
        "app": {**HEALTHY["app"], "heap_peak": lambda p: 1e9 + 60 * peak * p},
        "app->main": {**HEALTHY["app->main"], "heap_growth": grown["heap_growth"]},
        "app->main->partition": grown,
    }

    laws = [entry.law for entry in diagnose(plan).statements if entry.kind == "memory"]

    assert laws == (["3.84 MB * p"] if is_held else ["64 kB * p"])


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


def test_what_two_scales_and_no_heap_leave_open_is_not_judged():
    plan: Plan = {"app->main": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.1}}

    diagnosis = diagnose(plan, (2, 4), base={})

    open_questions = {entry.kind: entry for entry in diagnosis.not_judged}
    assert {entry.status for entry in open_questions.values()} == {"not judged"}
    assert open_questions["law"].text == "growth with p: 2 of 3 scales are measured"
    assert open_questions["law"].run == "p = 8"
    assert open_questions["memory"].text == "memory: the heap was not measured"
    assert open_questions["memory"].run == "a run with --heap on"


@pytest.mark.parametrize(("blocks", "is_judged"), [(1.0, False), (10.0, True)])
def test_small_blocks_without_a_law_are_not_carried_to_terabytes(blocks: float, is_judged: bool):
    """As of numpy, which keeps blocks of up to a kilobyte: 25 sums on each of log2(p) levels."""
    heap = {2: 728.0, 4: 1528.0, 8: 3080.0, 16: 80_264.0, 32: 234_280.0}
    plan = {
        "app->main": {"visits": lambda p: 1, "heap_growth": lambda p: 5_000},
        "app->main->sum_level": {
            "visits": lambda p: 25 * (np.log2(p) + 1),
            "heap_growth": lambda p: blocks * heap[p],
        },
    }

    diagnosis = diagnose(plan, tuple(heap))

    assert [statement.kind for statement in diagnosis.statements] == ["memory"] * is_judged
    reasons = [entry.text for entry in diagnosis.not_judged if entry.name == "sum_level"]
    assert any("its steps differ too much" in reason for reason in reasons) != is_judged
