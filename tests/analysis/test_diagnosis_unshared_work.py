"""Diagnosis: input and output of a fixed size, which one rank does while arrays are shared."""

import numpy as np
import pytest

from insitu.analysis.diagnosis.gather import gather
from insitu.analysis.diagnosis.unshared_work import _is_shared
from insitu.entities import CallPath, RunKey
from insitu.modeling.measurement import Experiment
from tests.analysis.programs import diagnose, on_rank_0, table_at

SCALES = (1, 2, 4, 8)


def heat(p_of_input=lambda p: 1.0):
    """800 x 800 points in rows, which rank 0 reads; a visit of `evolve` allocates its rows."""

    def uneven(p):  # on a busy machine, most ranks take six times as long as the fastest
        least = {1: 3.5, 2: 0.9, 4: 0.35, 8: 0.15}[p]
        return np.where(np.arange(p) == 0, least, 6 * least)

    def rows(p):
        return 4.2e9 * (1 / p + 0.002)

    return {
        "app->main->iterate->evolve": {
            "visits": lambda p: 200,
            "time_exclusive": uneven,
            "bytes_allocated": rows,
        },
        "app->main->read": {
            "visits": lambda p: on_rank_0(1, p),
            "time_exclusive": lambda p: on_rank_0(1.0, p),
            "bytes_allocated": lambda p: on_rank_0(5.3e7 * p_of_input(p), p),
        },
    }


def base(total):
    """The program itself, with what it allocates."""
    return {
        "app": {
            "visits": lambda p: 1,
            "time": lambda p: 5.0,
            "time_exclusive": lambda p: 0.01,
            "bytes_allocated": total,
        },
        "app->main": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.01},
    }


def serial(plan):
    """The statements about one rank's work, and the diagnosis."""
    whole = base(lambda p: 4.2e9 * (1 / p + 0.002))
    diagnosis = diagnose(plan, SCALES, crowded=True, base=whole)
    return [entry for entry in diagnosis.statements if entry.kind == "serial"], diagnosis


@pytest.mark.parametrize("opens", [0, 1])
def test_one_rank_that_reads_the_input_while_arrays_are_shared_is_named(opens):
    files = {"files_opened": lambda p: on_rank_0(opens, p) if opens else np.nan}
    (statement,), diagnosis = serial(heat() | {"app->main->read->open": files})

    assert (statement.status, statement.name, statement.ranks) == ("warning", "read", "rank 0")
    assert "that more ranks do not save" in statement.text
    assert diagnosis.scaling == "strong"


@pytest.mark.parametrize("growth", [lambda p: 1 / p, lambda p: 1e-3])
def test_input_that_shrinks_or_is_small_is_none(growth):
    statements, _ = serial(heat(growth))

    assert statements == []


@pytest.mark.parametrize(("same", "opens", "named"), [(1, 0, True), (0, 0, False), (1, 40, False)])
def test_a_few_visits_of_each_rank_about_the_same_arrays_are_named(same, opens, named):
    """A decomposition of a whole matrix on each rank; imports of modules open files."""
    plan = heat() | {
        "app->main->decompose": {
            "visits": lambda p: 3,
            "time_exclusive": lambda p: 0.4 * (1 if same else 1 / p),
            "bytes_allocated": lambda p: 2e7 * (1 if same else 1 / p),
        },
        "app->main->decompose->open": {"files_opened": lambda p: opens or np.nan},
    }
    whole = base(lambda p: 4.2e9 * (1 / p + 0.002))

    statements = diagnose(plan, SCALES, crowded=True, base=whole).statements

    found = [entry for entry in statements if entry.name == "decompose"]
    assert [entry.status for entry in found] == (["warning"] if named else [])
    if named:
        assert found[0].text.startswith("each rank visits decompose 3 times at every p, while")


def test_arrays_that_shrink_besides_a_fixed_part_are_shared_and_no_weak_scaling():
    """modes.py of tests/evaluation: each rank projects its rows on modes that it finds itself.

    On shared cores, the visits of `project` take ever longer.
    """
    plan = {
        "app->main->project": {
            "visits": lambda p: 8,
            "time_exclusive": lambda p: 0.3 * p**0.5,
            "bytes_allocated": lambda p: 1.966e8 / p + 8.39e6,
        },
        "app->main->find_modes": {
            "visits": lambda p: 1,
            "time_exclusive": lambda p: 0.3,
            "bytes_allocated": lambda p: 3.4e7,
        },
    }
    whole = base(lambda p: 1.966e8 / p + 4.24e7)

    found = diagnose(plan, (2, 3, 4, 6, 8, 12), crowded=True, base=whole)

    assert found.scaling == "mixed"
    (statement,) = found.statements
    assert (statement.status, statement.name) == ("warning", "find_modes")
    assert statement.text.startswith("each rank visits find_modes once at every p, while other")


@pytest.mark.parametrize(("scaling", "named"), [("strong", ["build"]), ("", []), ("weak", [])])
def test_repeated_work_is_named_where_the_user_says_that_the_rest_is_shared(scaling, named):
    """`advance` is shared by the size of its loops alone, which no count shows."""
    plan = {
        "app->main->advance": {
            "visits": lambda p: 200,
            "time_exclusive": lambda p: 0.4 if p > 2 else 0.4 / p,  # where ranks lack cores
        },
        "app->main->build": {
            "visits": lambda p: 10,
            "time_exclusive": lambda p: 0.1,
            "bytes_allocated": lambda p: 4.1e6,
        },
    }
    whole = base(lambda p: 4e7 / p + 7e6)

    found = diagnose(plan, SCALES, crowded=True, base=whole, scaling=scaling).statements

    assert [entry.name for entry in found if "every p, while" in entry.text] == named


@pytest.mark.parametrize(("is_shared", "named"), [(True, []), (False, ["transform"])])
def test_visits_whose_arrays_are_ever_smaller_are_no_repeated_work(is_shared, named):
    """As the transforms of a spectral method: on shared cores, short ones take as long."""
    transform = {
        "visits": lambda p: 120,
        "time_exclusive": lambda p: {1: 0.2, 2: 0.08}.get(p, 0.06),
        "bytes_allocated": lambda p: 1.1e9 / p if is_shared else 1.1e9,
    }
    whole = base(lambda p: 4.2e9 * (1 / p + 0.002))

    found = diagnose(heat() | {"app->main->transform": transform}, SCALES, base=whole).statements

    assert [entry.name for entry in found if entry.text.startswith("each rank visits")] == named


@pytest.mark.parametrize(
    ("scales", "is_shared"),
    [
        ((4, 5, 6), True),  # two thirds of the visits of the smallest scale
        ((5, 6), False),  # five sixths
        ((6, 8), True),  # three quarters
    ],
)
def test_visits_are_shared_if_ranks_make_three_quarters_of_the_first_or_fewer(scales, is_shared):
    path = CallPath.parse("app->work")
    runs = []
    for p in scales:
        table = table_at({"app->work": {"visits": lambda p: 1200 / p}}, p)
        runs.append((RunKey.of({"p": p}), table))
    measurements = gather(Experiment(("p",), tuple(runs)), {}, {})

    assert _is_shared(measurements, path, 1200 / measurements.p) == is_shared
