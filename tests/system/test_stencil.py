"""The example stencil2d.py: each class of ranks visits and sends what its docstring derives."""

import math
from collections import Counter
from pathlib import Path

import pytest

from insitu.entities import RunState
from tests.support.parameters import plain_and_full

pytestmark = pytest.mark.mpi

STENCIL = Path(__file__).resolve().parents[2] / "examples" / "stencil2d.py"
STEP = "stencil2d.py->main->step"
CELLS, STEPS, CHECK = 12, 7, 3
SIDES = ("top", "bottom", "left", "right")


def grid(p: int) -> tuple[int, int]:
    """a ≥ b with a b = p, as near to each other as they come."""
    b = next(b for b in range(math.isqrt(p), 0, -1) if p % b == 0)
    return p // b, b


def walls(p: int) -> list[dict[str, bool]]:
    """For each rank, which walls of the plate it owns."""
    a, b = grid(p)
    places = [divmod(rank, b) for rank in range(p)]
    owned = [(row == 0, row == a - 1, column == 0, column == b - 1) for row, column in places]
    return [dict(zip(SIDES, sides, strict=True)) for sides in owned]


def rows_and_columns(p: int, *, is_strong: bool) -> list[tuple[int, int]]:
    """The cells of each rank."""
    if not is_strong:
        return [(CELLS, CELLS)] * p
    a, b = grid(p)

    def share(at: int, of: int) -> int:
        return CELLS * (at + 1) // of - CELLS * at // of

    return [(share(rank // b, a), share(rank % b, b)) for rank in range(p)]


def measure(bench, p, *more):
    words = ["--cells", CELLS, "--steps", STEPS, "--check", CHECK, *more]
    outcome = bench.measure("-n", p, "--", STENCIL, *words)
    assert outcome.code == 0, outcome.err
    assert bench.records()[0].state is RunState.COMPLETE, bench.records()[0]


def exactly(bench, callpath, metric, expected):
    """Every rank has this value; a rank or a row that is not there counts as 0."""
    table = bench.table()
    names = [str(path) for path in table.callpaths]
    if callpath not in names:
        return not any(expected)
    values = table.values[metric][names.index(callpath)]
    return [0 if math.isnan(value) else value for value in values] == list(expected)


@plain_and_full("p", [3, 1, 9])
def test_each_class_of_ranks_counts_what_the_docstring_says(bench, p):
    measure(bench, p)

    owned = [sum(sides.values()) for sides in walls(p)]
    neighbours = [4 - w for w in owned]
    exchanged = [8 * CELLS * k * STEPS for k in neighbours]
    assert exactly(bench, STEP, "visits", [STEPS] * p)
    assert exactly(bench, f"{STEP}->inner", "visits", [STEPS] * p)
    assert exactly(bench, f"{STEP}->exchange", "visits", [STEPS] * p)
    assert exactly(bench, f"{STEP}->boundary", "visits", [STEPS * w for w in owned])
    sendrecv = f"{STEP}->exchange->MPI_Sendrecv"
    assert exactly(bench, sendrecv, "visits", [STEPS * k for k in neighbours])
    assert exactly(bench, sendrecv, "bytes_sent", exchanged)
    assert exactly(bench, sendrecv, "bytes_received", exchanged)
    allreduce = "stencil2d.py->main->residual->MPI_Allreduce"
    assert exactly(bench, allreduce, "visits", [STEPS // CHECK] * p)
    assert exactly(bench, allreduce, "bytes_sent", [8 * (STEPS // CHECK)] * p)
    for side in SIDES:
        visits = [STEPS * sides[side] for sides in walls(p)]
        assert exactly(bench, f"{STEP}->boundary->boundary_{side}", "visits", visits)
        assert exactly(bench, f"{STEP}->boundary->boundary_{side}->radiate", "visits", visits)


@pytest.mark.full
def test_both_mpis_count_the_same_with_a_plate_of_fixed_size(each_mpi):
    p = 6
    measure(each_mpi, p, "--strong")

    expected = [
        8
        * STEPS
        * (
            columns * (2 - sides["top"] - sides["bottom"])
            + rows * (2 - sides["left"] - sides["right"])
        )
        for (rows, columns), sides in zip(
            rows_and_columns(p, is_strong=True), walls(p), strict=True
        )
    ]
    assert exactly(each_mpi, f"{STEP}->exchange->MPI_Sendrecv", "bytes_sent", expected)


@pytest.mark.full
def test_with_a_rim_the_work_at_walls_grows_with_the_plate(bench):
    measure(bench, 6, "--rim")

    owned = [sum(sides.values()) for sides in walls(6)]
    expected = [STEPS * (4 - w + w * sum(grid(6))) for w in owned]
    assert exactly(bench, f"{STEP}->flux", "visits", expected)


@pytest.mark.parametrize(
    ("p", "corner", "edge", "inner"), [(4, 4, 0, 0), (12, 4, 6, 2), (20, 4, 10, 6)]
)
def test_the_test_knows_corner_edge_and_inner_ranks(p, corner, edge, inner):
    classes = Counter(sum(sides.values()) for sides in walls(p))

    assert (classes[2], classes[1], classes[0]) == (corner, edge, inner)
