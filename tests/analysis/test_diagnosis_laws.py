"""Diagnosis: exact laws and quantities as text."""

import numpy as np
import pytest

from insitu.analysis.diagnosis.growth import CountGrowth, find_growth
from insitu.analysis.diagnosis.laws import TERMS, ExactLaw, LawFactor, bytes_text, find_laws
from insitu.analysis.diagnosis.measurements import RankSeries
from tests.analysis.programs import (
    SCALES,
    Plan,
    diagnose,
    only_limit,
)


def test_a_product_of_laws_has_each_factor_in_parentheses():
    linear = TERMS[0]
    law = ExactLaw((LawFactor(1.0, 2.0, linear), LawFactor(3.0, 4.0, linear)), 5, 5)

    assert law.text("1") == "(2 p + 1) * (4 p + 3)"
    assert law.text("B", "n") == "(2 B * n + 1 B) * (4 n + 3)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999.4, "999 B"),
        (999.5, "1 kB"),
        (999.5e3, "1 MB"),
        (999.5e6, "1 GB"),
        (999.5e9, "1 TB"),
        (-2e12, "-2 TB"),
    ],
)
def test_bytes_have_the_next_prefix_from_where_three_digits_round_up(value: float, text: str):
    assert bytes_text(value) == text


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


def test_two_counts_after_zeros_follow_no_law() -> None:
    """As the messages of some ranks of a grid, (rows - 1) (columns - 1); with three, it shows."""
    few, more = np.array([2.0, 3.0, 4.0, 6.0]), np.array([2.0, 3.0, 4.0, 6.0, 8.0])

    assert find_laws(few, np.array([0.0, 0.0, 1.0, 2.0])) == []
    assert [law.text("1") for law in find_laws(more, np.array([0.0, 0.0, 1.0, 2.0, 3.0]))] == [
        "floor(p/2) - 1"
    ]


@pytest.mark.parametrize(
    ("scales", "counts", "law"),
    [
        ((2, 3, 4), (1, 1, 2), None),  # columns of a grid, floor(log2(p)) or floor(p/2)
        ((2, 3, 4), (10, 20, 20), None),  # ceil(log2(p)) or ceil(p/2)
        ((2, 3, 4, 6), (1, 1, 2, 3), "floor(p/2)"),
        ((2, 4, 8), (10, 20, 30), "10 log2(p)"),
        ((2, 3, 4, 8), (10, 20, 20, 30), "10 ceil(log2(p))"),
        ((2, 3, 4, 6, 8, 12), (10, 10, 20, 20, 30, 30), "10 floor(log2(p))"),
        ((1, 2, 3, 4, 6, 8), (0, 10, 10, 20, 20, 30), "10 floor(log2(p))"),
    ],
)
def test_two_levels_of_a_count_follow_no_law_of_steps(scales, counts, law) -> None:
    """As the messages in columns of a grid of ScaLAPACK."""
    laws = find_laws(np.array(scales, dtype=float), np.array(counts, dtype=float))

    assert {law.text("1") for law in laws} & {law} == ({law} if law else set())
    assert law or not laws


def test_a_tree_of_messages_by_hand_is_fine():
    """Ranks send for each 1 in their binary number, as mpi4py does to reduce objects, or to the
    ranks below them in a binary heap."""

    def sent(p):
        return np.array([300.0 * rank.bit_count() for rank in range(p)])

    plan = {
        "app->main->total->MPI_Send": {
            "visits": sent,
            "messages_sent": sent,
            "bytes_sent": lambda p: 8 * sent(p),
        },
        "app->main->spread->MPI_Recv": {
            "message_chain": lambda p: 80.0 * int(np.log2(p)),
            "message_chain_time": lambda p: 1e-3 * int(np.log2(p)),
            "messages_received": lambda p: 80.0 * (np.arange(p) > 0),
            "messages_sent": lambda p: 80.0 * (np.arange(p) < p // 2),
        },
    }

    diagnosis = diagnose(plan, (2, 3, 4, 6, 8, 12), crowded=True)

    assert diagnosis.statements == ()
    assert not any(entry.name in ("total", "spread") for entry in diagnosis.not_judged)


def test_faces_of_blocks_in_a_torus_are_no_certain_logarithm():
    """Grids of 2, 3, 2 x 2, 3 x 2, 2 x 2 x 2 and 3 x 2 x 2 ranks have 1, 1, 2, 2, 3 and 3
    dimensions. healthy_torus.c of tests/evaluation."""

    def sent(p):
        return 30_000.0 * int(np.log2(p))

    plan = {
        "app->main->exchange->MPI_Sendrecv": {
            "visits": sent,
            "messages_sent": sent,
            "messages_received": sent,
        }
    }

    diagnosis = diagnose(plan, (2, 3, 4, 6, 8, 12), crowded=True)

    assert diagnosis.statements == ()
    assert any(entry.name == "exchange" for entry in diagnosis.not_judged)


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


def test_small_counts_follow_no_law_by_rounding():
    """As those of the broadcasts in which Scotch saves an ordering."""
    p = np.array([1.0, 2.0, 4.0, 8.0])

    assert find_laws(p, np.array([1.0, 3.0, 10.0, 29.0])) == []  # not 1.21 p log2(p)
    (law,) = find_laws(p, np.array([40.0, 56.0, 80.0, 113.0]))
    assert law.term is not None and law.term.name == "p^(1/2)"


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


@pytest.mark.parametrize(
    ("values_of", "text", "points"),
    [
        (lambda p: 1.5 * p * (p + 1), "1.5 (p^2 + p)", 5),  # of all pairs, and of each with itself
        (lambda p: 128 * p * p + 2816 * p, "128 (p^2 + 22 p)", 5),  # p times a header of all
        (lambda p: 4 * (p - 1) * (p + 6), "4 (p^2 + 5 p - 6)", 5),
        (lambda p: (p - 1) * (p + 1), "p^2 - 1", 5),  # a term like any other with a constant
    ],
)
def test_parts_that_each_grow_follow_a_law_on_five_scales(values_of, text, points):
    p = np.array([2.0, 4.0, 8.0, 16.0, 32.0])

    (law,) = find_laws(p, values_of(p))

    assert (law.text("1"), law.points) == (text, points)
    if "p^2 +" in text:
        assert law.term.order == "p^2"
        assert law.term.is_of_pairs
        assert find_laws(p[:4], values_of(p[:4])) == []


def test_bytes_of_a_header_that_rank_0_writes_for_each_block_have_a_law():
    def header(p: int) -> list[float]:
        return [2816.0 * p + 128.0 * p * p, *([0.0] * (p - 1))]

    p = np.array([2.0, 4.0, 8.0, 16.0, 32.0])
    series = RankSeries(tuple((np.array(header(int(each))),) for each in p))

    growth = find_growth(p, series, target=4096.0)

    assert growth.law is not None
    assert growth.law.text("B") == "128 B * (p^2 + 22 p)"
    assert growth.single == 0
