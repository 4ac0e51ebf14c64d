"""The smallest experiments: the cases of the paper exactly, and smaller ones."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from insitu.design.deduce import deduce_design
from insitu.design.dependencies import Dependency, Nest, Structure
from insitu.design.factorial import Point, full_factorial, sparse_design
from insitu.errors import UsageError

FIVE = [1.0, 2.0, 3.0, 4.0, 5.0]
KRIPKE = {"procs": [8, 16, 32, 64, 128], "dirsets": [8, 16, 24, 32, 64], "iters": FIVE}
PACE3D = {
    "procs": [8, 16, 32, 64, 128],
    "vol": [1, 2, 3, 4, 5],
    "cubes": [10, 20, 30, 40, 50],
    "iters": FIVE,
}


def paths(*sets: str) -> tuple[Dependency, ...]:
    """Return a call path per text, with one nest over the parameters in it: `vol*procs`."""
    return tuple(
        Dependency(f"f{i}", (Nest.of(text.split("*")),) if text else ())
        for i, text in enumerate(sets)
    )


def sees_grid(points: tuple[Point, ...], names: list[str], levels: dict) -> bool:
    measured = {tuple(point[name] for name in names) for point in points}
    return measured == set(product(*(map(float, levels[name]) for name in names)))


# [DET §2.2]: two functions of one parameter each, without and with a main loop around them.
def test_without_main_loop_each_point_is_repeated():
    design = deduce_design(Structure(("x1", "x2"), paths("x1", "x2")), {"x1": FIVE, "x2": FIVE})
    assert (design.full_runs, design.runs, design.repetitions) == (125, 25, 5)


def test_main_loop_makes_repetitions_unnecessary():
    structure = Structure(("x1", "x2", "iters"), paths("x1*iters", "x2*iters"), iteration="iters")
    design = deduce_design(structure, {"x1": FIVE, "x2": FIVE, "iters": FIVE})
    assert (design.full, design.runs) == (125, 5)
    assert design.iterations >= 5


def test_running_example_of_figure_4():
    parameters = {"foo": "x1*iters", "bar": "x2*iters", "baz": "x2*iters", "preCalculate": ""}
    dependencies = tuple(
        Dependency(name, (Nest.of(text.split("*")),) if text else ())
        for name, text in parameters.items()
    )
    structure = Structure(("x1", "x2", "iters"), dependencies, iteration="iters")
    design = deduce_design(structure, {"x1": FIVE, "x2": FIVE, "iters": FIVE})
    assert (design.full, design.runs) == (125, 5)


# [DET §5.2, Fig. 5b]
def test_kripke_has_the_points_of_the_paper():
    structure = Structure(
        ("procs", "dirsets", "iters"),
        paths(*[""] * 19, *["dirsets*iters"] * 33, *["procs*iters"] * 2),
        iteration="iters",
        ranks="procs",
    )
    design = deduce_design(structure, KRIPKE)
    assert (design.full_runs, design.runs) == (625, 5)
    assert {(point["procs"], point["dirsets"]) for point in design.points} == {
        (8, 8),
        (16, 16),
        (32, 24),
        (64, 32),
        (128, 64),
    }


# [DET §5.1.1, Fig. 5a and 6]
@pytest.mark.parametrize("rule", ["paper", "additive"])
def test_pace3d_of_the_paper(rule):
    structure = Structure(
        ("procs", "vol", "cubes", "iters"),
        (
            *paths(
                *[""] * 12,
                *["vol"] * 2,
                *["cubes"] * 24,
                *["procs"] * 4,
                *["cubes*procs"] * 4,
                *["vol*procs"] * 18,
            ),
            Dependency("spaced", (Nest.of({"cubes": 1, "spacing": 1, "iters": 1}),)),
        ),
        derived=(("spacing", (("vol", Fraction(1)), ("cubes", Fraction(-1)))),),
        iteration="iters",
        ranks="procs",
    )
    design = deduce_design(structure, PACE3D, rule=rule)
    assert (design.full_runs, design.runs) == (3125, 25)
    assert sees_grid(design.points, ["vol", "procs"], PACE3D)
    assert sees_grid(design.points, ["cubes", "procs"], PACE3D)
    assert design.confounded == (("vol", "cubes"),)


def test_dependent_parameter_that_is_not_substituted_costs_a_grid():
    structure = Structure(
        ("procs", "vol", "cubes"), paths("vol*procs", "cubes*procs", "vol*cubes*procs")
    )
    levels = {name: PACE3D[name] for name in ("procs", "vol", "cubes")}
    assert len(deduce_design(structure, levels).points) == 125


def test_all_intertwined_saves_nothing():
    levels = {"a": FIVE, "b": FIVE, "c": FIVE}
    assert len(deduce_design(Structure(("a", "b", "c"), paths("a*b*c")), levels).points) == 125


@pytest.mark.parametrize(
    ("sets", "expected"),
    [(["x*y", "y*z", "x*z"], 25), (["a*b", "b*c", "c*d", "d*e", "e*a"], 25)],
    ids=["triangle", "cycle of five"],
)
def test_orthogonal_array_where_colouring_wastes_points(sets, expected):
    names = sorted({name for text in sets for name in text.split("*")})
    levels = dict.fromkeys(names, FIVE)
    design = deduce_design(Structure(tuple(names), paths(*sets)), levels)
    assert len(design.points) == expected
    assert all(sees_grid(design.points, text.split("*"), levels) for text in sets)


def test_array_with_a_number_of_levels_that_is_not_prime():
    levels = {"x": FIVE[:4], "y": FIVE[:4], "z": FIVE[:3]}
    sets = ["x*y", "y*z", "x*z"]
    design = deduce_design(Structure(("x", "y", "z"), paths(*sets)), levels)
    assert len(design.points) <= 25 < 48
    assert all(sees_grid(design.points, text.split("*"), levels) for text in sets)


def test_additive_terms_need_a_line_each():
    added = (Dependency("f", (Nest.of(["x"]), Nest.of(["y"]))),)
    levels = {"x": FIVE, "y": FIVE}
    assert len(deduce_design(Structure(("x", "y"), added), levels).points) == 9
    assert len(deduce_design(Structure(("x", "y"), added), levels, rule="paper").points) == 25


def test_pairing_by_cost():
    structure = Structure(
        ("procs", "dirsets", "iters"), paths("dirsets", "procs"), iteration="iters", ranks="procs"
    )

    def cost(point: Point) -> float:
        return point["procs"] * point["dirsets"]

    designs = {
        pairing: deduce_design(structure, KRIPKE, pairing=pairing, cost=cost).points
        for pairing in ("ascending", "mixed", "cheapest")
    }
    prices = {pairing: sum(map(cost, points)) for pairing, points in designs.items()}
    assert (prices["ascending"], prices["cheapest"]) == (11328, 3840)
    assert 3840 < prices["mixed"] < 6000
    ranks = [KRIPKE["procs"].index(point["procs"]) for point in designs["mixed"]]
    works = [KRIPKE["dirsets"].index(point["dirsets"]) for point in designs["mixed"]]
    assert abs(np.corrcoef(ranks, works)[0, 1]) <= 0.3


def test_confounded_parameters_move_apart_at_check_points():
    structure = Structure(("procs", "dirsets", "iters"), paths("dirsets", "procs"), (), "iters")
    design = deduce_design(structure, KRIPKE)
    assert design.confounded == (("procs", "dirsets"),)
    assert {(point["procs"], point["dirsets"]) for point in design.checks} == {(64, 8), (8, 32)}
    assert not set(design.checks) & set(design.points)


def test_levels_must_match_the_parameters():
    structure = Structure(("x", "y"), paths("x", "y"))
    with pytest.raises(UsageError, match="no levels of y"):
        deduce_design(structure, {"x": FIVE})
    with pytest.raises(UsageError, match="'z' is not an independent parameter"):
        deduce_design(structure, {"x": FIVE, "y": FIVE, "z": FIVE})


def test_call_path_with_an_undeclared_parameter_is_refused():
    with pytest.raises(UsageError, match="'q', which is not a parameter"):
        deduce_design(Structure(("x",), paths("q")), {"x": FIVE})


def test_classical_designs():
    levels = {"a": FIVE, "b": FIVE, "c": FIVE}
    assert full_factorial(levels).runs == 625
    assert len(sparse_design(levels).points) == 16
    assert len(sparse_design({"a": FIVE, "b": FIVE}).points) == 10
