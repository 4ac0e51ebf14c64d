"""Diagnosis: work that more ranks cannot share evenly."""

import numpy as np
import pytest

from insitu.analysis.diagnosis.statements import Statement
from insitu.modeling.grid_shape import even_grid
from tests.analysis.programs import HEALTHY, Plan, Vector, diagnose

TARGET = {"p": 768.0}
BASE = {path: values for path, values in HEALTHY.items() if "push" not in path}


def shared_evenly(chunks: int, each: int) -> Vector:
    return lambda p: each * (chunks // p + (np.arange(p) < chunks % p))


def all_but_the_last(chunks: int, each: int) -> Vector:
    """The last rank has what the others leave."""
    return lambda p: each * np.diff(np.minimum(np.arange(p + 1) * -(-chunks // p), chunks))


def with_remainder(chunks: int, each: int, at: int) -> Vector:
    def visits(p: int) -> np.ndarray:
        vector = np.full(p, chunks // p)
        vector[at] += chunks % p
        return each * vector

    return visits


def imbalances(
    visits: Vector, scales: tuple[int, ...] = (2, 3, 4, 6, 8, 12), *, step_s: float = 1e-6
) -> list[Statement]:
    """What is said of the work of a cell, besides that of a step that every rank does."""
    plan: Plan = {
        "app->main": {"visits": lambda p: 1, "time": lambda p: 9.0, "time_exclusive": lambda p: 0},
        "app->main->step": {"visits": lambda p: 10, "time_exclusive": lambda p: step_s},
        "app->main->sweep": {"visits": lambda p: 10, "time_exclusive": lambda p: 1e-9 / p},
        "app->main->sweep->cell": {
            "visits": visits,
            "time_exclusive": lambda p: np.asarray(visits(p)) * 1e-3,
        },
    }
    found = diagnose(plan, scales, base=BASE, crowded=True, target=TARGET).statements
    return [entry for entry in found if entry.law is not None and "/ p)" in entry.law]


@pytest.mark.parametrize(
    ("at", "who", "words"),
    [(-1, "last rank", "at p = 768 the last rank has 236"), (0, "rank 0", "768 rank 0 has 236")],
)
def test_the_rank_with_the_remainder_is_named_with_what_it_does_at_the_target(
    at: int, who: str, words: str
) -> None:
    (statement,) = imbalances(with_remainder(1003, 8, at))

    assert (statement.kind, statement.ranks, statement.exact) == ("imbalance", who, True)
    assert statement.law == "8 (1003 - (p - 1) floor(1003 / p))"
    assert (statement.now, statement.then) == (8 * (83 + 7), 8 * 236)
    assert f"{words} with the remainder" in statement.text
    assert statement.status == "limit"  # 1.9 s, of which 10 ms are those of a mean rank


def test_the_scale_is_named_from_which_whole_chunks_are_too_large() -> None:
    (statement,) = imbalances(shared_evenly(1700, 4))

    assert (statement.law, statement.then) == ("4 ceil(1700 / p)", 12)
    assert "some ranks have 3, the mean is 2.21" in statement.text
    assert "beyond p = 1,700 some have none" in statement.text
    # 188: the mean is 9.04, and some ranks have 10.
    assert statement.breaks_at == next(p for p in range(2, 768) if -(-1700 // p) >= 1.1 * 1700 / p)


@pytest.mark.parametrize(("idle", "is_named"), [((0,), True), ((0, 1), False)])
def test_tasks_that_one_rank_gives_out_are_shared_by_all_others(
    idle: tuple[int, ...], is_named: bool
) -> None:
    """handout.py of tests/evaluation: a few ranks without tasks may do other work."""

    def visits(p: int) -> np.ndarray:
        workers = p - len(idle)
        return np.concatenate([np.zeros(len(idle)), shared_evenly(240, 2)(workers)])

    plan: Plan = {
        "app->main": {"visits": lambda p: 1, "time": lambda p: 9.0, "time_exclusive": lambda p: 0},
        "app->main->work->integrate": {
            "visits": visits,
            "time_exclusive": lambda p: visits(p) * 1e-3,
        },
    }

    found = diagnose(plan, (3, 4, 6, 8, 12), base={}, crowded=True, target=TARGET).statements

    laws = [(its.name, its.law) for its in found if its.kind == "imbalance" and its.exact]
    assert laws == [("integrate", "2 ceil(240 / (p - 1))")] * is_named
    for its in found if is_named else ():
        assert "shared by all ranks but one: at p = 768 some ranks have 1" in its.text
        assert "beyond p = 241 some have none" in its.text


def test_of_functions_that_call_each_other_the_first_is_named() -> None:
    cells = shared_evenly(1700, 4)
    plan: Plan = {
        "app->main": {"visits": lambda p: 1, "time": lambda p: 9.0, "time_exclusive": lambda p: 0},
        "app->main->sweep": {"visits": lambda p: 10, "time_exclusive": lambda p: 1e-9 / p},
        "app->main->sweep->cell": {
            "visits": cells,
            "time_exclusive": lambda p: np.asarray(cells(p)) * 1e-3,
        },
        "app->main->sweep->cell->flux": {
            "visits": lambda p: 2 * np.asarray(cells(p)),
            "time_exclusive": lambda p: np.asarray(cells(p)) * 1e-3,
        },
    }

    found = diagnose(plan, base=BASE, crowded=True, target=TARGET).statements

    assert [entry.law for entry in found if entry.kind == "imbalance"] == ["4 ceil(1700 / p)"]


def test_many_chunks_are_shared_evenly_enough() -> None:
    assert not imbalances(shared_evenly(1_000_003, 1))


@pytest.mark.parametrize(
    ("visits", "scales"),
    [
        (shared_evenly(1680, 4), (1, 2, 4, 8)),  # 210 rows of 32 visits, or any divisor of them
        (shared_evenly(35, 10), (4, 5, 7, 9)),  # 70 chunks of 5 visits have the same counts
        (shared_evenly(4, 1), (2, 3, 4, 6, 8, 12)),  # a few ranks may do it for all others
        (shared_evenly(1001, 1), (1, 2, 4, 5)),  # some rank may do the remainder of one chunk
        (lambda p: 1003 // p * np.ones(p), (2, 3, 4, 6)),  # together they make fewer
        (lambda p: 100 + 10 * (np.arange(p) % 2), (2, 4, 6, 8)),  # weak scaling
    ],
)
def test_nothing_is_said_where_the_size_of_a_chunk_is_not_certain(
    visits: Vector, scales: tuple[int, ...]
) -> None:
    assert not imbalances(visits, scales)


def test_nothing_is_said_where_the_shared_work_is_a_small_share_of_the_program() -> None:
    assert not imbalances(shared_evenly(1700, 4), step_s=10.0)


def test_chunks_that_are_fewer_than_ranks_leave_some_ranks_without_any() -> None:
    """Six chunks of 192 visits; chunked.py of tests/evaluation/plants/held_out."""
    (statement,) = imbalances(shared_evenly(6, 192), (2, 4, 8, 16))

    assert statement.text.startswith("6 chunks of work (192 visits of cell each) are shared")
    assert statement.text.endswith("beyond p = 6 some have none")


def test_blocks_of_a_grid_that_look_like_chunks_are_not_judged() -> None:
    """3 x 2 x 2 ranks have at most 67 of 200 cells on one side, as 12 ranks have of 800 chunks."""

    def cells_of_block(p: int) -> np.ndarray:
        sides = [np.full(side, 200 // side) for side in even_grid(p, 3)]
        for side in sides:
            side[: 200 % len(side)] += 1
        return np.einsum("i,j,k->ijk", *sides).ravel()

    scales = (1, 2, 4, 6, 8, 12, 16)
    for p in scales:
        assert max(cells_of_block(p)) == max(shared_evenly(800, 10_000)(p))

    assert imbalances(cells_of_block, scales) == []
    assert imbalances(shared_evenly(800, 10_000), scales) != []
    assert imbalances(all_but_the_last(800, 10_000), scales) == []
    assert imbalances(all_but_the_last(805, 10_000), scales) != []


def test_single_visits_are_shared_as_chunks_of_one():
    (statement,) = imbalances(shared_evenly(1003, 1))

    assert statement.law == "ceil(1003 / p)"
    assert statement.text.startswith(
        "1,003 visits of cell are shared: at p = 768 some ranks have 2, the mean is 1.31"
    )
