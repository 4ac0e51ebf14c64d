"""How a rank ended, and what is reported about it, from single fields of its header."""

import itertools

import pytest

from insitu.collectors import rank_end as module
from insitu.collectors.rank_end import find_outside_mpi, find_problems, rank_end
from insitu.collectors.table import (
    ABORTED,
    ENDED,
    MPI_FINALISED,
    MPI_INITIALISED,
    MPI_NONE,
    REPLACED,
    RUNNING,
    Row,
)
from insitu.collectors.table_header import EMPTY_HEADER
from insitu.entities import STATUS_UNKNOWN
from insitu.wire.messages import RankEnd
from tests.collectors.built_table import Thread, build_table

CLEAN = EMPTY_HEADER._replace(state=ENDED)


def problems(**header):
    head = CLEAN._replace(**header)
    return find_problems(head, rank_end(0, head))


@pytest.mark.parametrize("hook", [b"python", b"preload", b"isolated"])
def test_only_a_rank_whose_end_was_seen_or_that_finalised_mpi_is_complete(hook):
    for state, mpi_state, status in itertools.product(
        (RUNNING, ENDED, ABORTED, REPLACED), (MPI_NONE, MPI_INITIALISED, MPI_FINALISED), (0, 5)
    ):
        head = EMPTY_HEADER._replace(
            state=state, mpi_state=mpi_state, exit_status=status, hook=hook.ljust(24, b"\0")
        )

        if state in (RUNNING, REPLACED):
            expected = (0, True) if mpi_state == MPI_FINALISED else (STATUS_UNKNOWN, False)
        else:
            is_compiled = hook != b"python"
            exits_early = is_compiled and status and mpi_state == MPI_INITIALISED
            expected = (status, state == ENDED and not exits_early)
        assert rank_end(3, head) == RankEnd(3, *expected)


@pytest.mark.parametrize(("status", "code"), [(-1, 255), (300, 44), (337_265_936, 16), (0, 0)])
def test_an_exit_status_is_what_the_system_keeps_of_it(status, code):
    """A negative one would be that of a signal."""
    assert rank_end(0, CLEAN._replace(exit_status=status)) == RankEnd(0, code, True)


DEFECTS = [
    (
        {"rows_refused": 3, "frames_refused": 4},
        "rows-truncated",
        "7 call paths or frames did not",
    ),
    ({"threads_refused": 1, "thread_capacity": 64}, "threads-truncated", "1 thread more than"),
    ({"threads_refused": 2, "thread_capacity": 64}, "threads-truncated", "2 threads more than"),
    ({"partners_refused": 1}, "partners-truncated", "there was no room for all ranks"),
    ({"stacks_unread": 1}, "stacks-unread", "the callers of 1 MPI call are unknown, because"),
    ({"stacks_unread": 2}, "stacks-unread", "the callers of 2 MPI calls are unknown, because"),
    (
        {"stacks_unread": 2, "unread_object": b"libf.so\0\0"},
        "stacks-unread",
        "the callers of 2 MPI calls are unknown, because functions of libf.so have no unwind",
    ),
    (
        {"stopped": b"it forked\0\0"},
        "measuring-stopped",
        "the program was measured until it forked; what",
    ),
    (
        {"sampling_refused": b"no p\xffrf\0\0"},
        "sampling-refused",
        "functions were not sampled: no p\ufffdrf",
    ),
    (
        {"device_refused": b"no CUPTI\0\0"},
        "gpu-refused",
        "GPUs were not measured: no CUPTI",
    ),
    ({"device_dropped": 5}, "gpu-records-lost", "5 kernels or copies of GPUs are missing"),
    ({"device_unattributed": 6}, "gpu-launches-unknown", "6 kernels or copies of GPUs count"),
    ({"codes_refused": 1}, "functions-truncated", "the program has more functions than the 24"),
    ({"calls_misplaced": 9}, "greenlets-untraced", "9 calls ended below other open calls"),
    ({"exits_unmatched": 8}, "stacks-switched", "8 compiled functions ended that were not"),
    (
        {"unread": 5, "unread_error": 13},
        "process-unread",
        "at its end, the process could not open files of /proc/self (Permission denied), as in a"
        " sandbox (Landlock), under another root or without free descriptors; not measured: memory"
        " of the rank at its end, the time that it waited for a processor",
    ),
    ({"evaluator_replaced": 1}, "evaluator-replaced", "at the end, Python ran functions without"),
    ({"subinterpreters": 1}, "subinterpreters", "the program created 1 subinterpreter: only"),
    ({"subinterpreters": 2}, "subinterpreters", "the program created 2 subinterpreters: only"),
    ({"state": ABORTED, "exit_status": 7}, "rank-aborted", "the rank ended the job with"),
    ({"hook": b"isolated\0\0"}, "python-isolated", "Python was started with -I, -E or -S"),
    ({"state": REPLACED}, "rank-replaced", "the program replaced itself by another one"),
    ({"mpi_unseen": 1}, "mpi-unseen", "MPI was initialised, but by no call"),
    ({"mpi_unseen": 2}, "mpi-unseen", "an MPI library is loaded in a namespace of its own"),
    ({"mpi_size": 1, "size": 2}, "mpi-singletons", "MPI reports 1 rank, the launcher 2: each"),
]


@pytest.mark.parametrize(
    ("header", "code", "text"),
    DEFECTS,
    ids=[f"{code}-{number}" for number, (_, code, _) in enumerate(DEFECTS)],
)
def test_each_defect_is_one_finding(header, code, text):
    ((found_code, found_text),) = problems(**header)

    assert found_code == code
    assert found_text.startswith(text)
    assert "\0" not in found_text


def test_a_clean_end_is_no_finding():
    assert problems() == []
    assert problems(mpi_size=1, size=1) == []
    assert problems(mpi_size=2, size=2) == []


def test_the_phase_of_an_abnormal_end_is_named():
    marked = {"marks": 3, "latest_mark": b"solve\0\0"}

    assert problems(state=ABORTED, exit_status=7, **marked) == [
        ("rank-aborted", "the rank ended the job with status 7, in phase solve")
    ]
    assert problems(state=RUNNING, **marked) == [
        ("rank-lost", "the rank ended abnormally, without an exit status, in phase solve")
    ]
    assert problems(state=RUNNING) == []
    assert problems(state=ABORTED, latest_mark=b"solve\0\0") == [
        ("rank-aborted", "the rank ended the job with status 0")
    ]


@pytest.mark.parametrize(
    ("hook", "samples", "unread", "is_finding"),
    [
        (b"preload", 100, 3, True),
        (b"isolated", 100, 3, True),
        (b"preload", 100, 2, False),  # not more than 2 %
        (b"preload", 99, 99, False),  # less than a second
        (b"python", 100, 3, False),
    ],
)
def test_samples_whose_callers_are_unknown_matter_in_compiled_programs(
    hook, samples, unread, is_finding
):
    found = dict(problems(hook=hook, samples=samples, samples_unread=unread))

    assert ("samples-unread" in found) == is_finding
    if is_finding:
        assert found["samples-unread"].startswith("3.0% of the samples hit functions whose")


@pytest.mark.parametrize(
    ("hits", "samples", "low", "high"),
    [
        (0, 100, 0.0, 0.0370),
        (5, 100, 0.0215, 0.1118),
        (50, 100, 0.4038, 0.5962),
        (10, 10, 0.7225, 1),
    ],
)
def test_the_interval_of_a_share_is_that_of_wilson(hits, samples, low, high):
    """Values of `statsmodels.stats.proportion.proportion_confint(method="wilson")`."""
    assert module._interval_of_share(hits, samples) == pytest.approx((low, high), abs=1e-4)


def test_the_interval_of_a_share_is_that_of_its_complement_reversed():
    for hits in range(41):
        low, high = module._interval_of_share(hits, 40)
        other_low, other_high = module._interval_of_share(40 - hits, 40)

        assert low <= hits / 40 <= high
        assert (1 - other_high, 1 - other_low) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize(("samples", "is_finding"), [(99, False), (100, True)])
def test_less_than_a_second_of_timing_is_not_judged(samples, is_finding):
    found = dict(problems(samples_taken=samples, samples_timing=samples))

    assert ("timing-costly" in found) == is_finding


def lost_ranks(folder, *is_in_mpi, mpi_states=None, ends=None):
    tables = [
        build_table(
            folder,
            [Row(0, 0, "app", "", 0)],
            threads=[Thread(is_in_mpi=inside)],
            name=f"rank-{rank}.table",
            mpi_state=(mpi_states or {}).get(rank, MPI_INITIALISED),
        )
        for rank, inside in enumerate(is_in_mpi)
    ]
    statuses = dict.fromkeys(range(len(tables)), STATUS_UNKNOWN) | (ends or {})
    return find_outside_mpi(
        tables, [RankEnd(rank, status, False) for rank, status in statuses.items()]
    )


def test_the_only_lost_rank_outside_of_mpi_is_named(tmp_path):
    ((code, text, where),) = lost_ranks(tmp_path, True, False, True)

    assert (code, where) == ("rank-lost", "rank 1")
    assert text.startswith("the rank ended abnormally outside of MPI; all others")


def test_no_rank_is_named_if_several_may_have_crashed_first(tmp_path):
    assert lost_ranks(tmp_path, True, True) == []
    assert lost_ranks(tmp_path, False, False) == []
    assert lost_ranks(tmp_path, False) == []
    assert lost_ranks(tmp_path, False, True, mpi_states={1: MPI_FINALISED}) == []
    assert lost_ranks(tmp_path, False, True, ends={1: 0}) == []
    assert len(lost_ranks(tmp_path, False, True, True, ends={2: 0})) == 1
