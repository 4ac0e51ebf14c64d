"""The smallest experiments; those of [DET] are in tests/papers."""

from itertools import combinations

import numpy as np
import pytest

from insitu.design.deduce import deduce_design
from insitu.design.dependencies import Dependency, Nest, Structure
from insitu.design.factorial import Point, core_seconds, full_factorial, sparse_design
from insitu.errors import UsageError
from tests.support.structures import FIVE, KRIPKE, PACE3D, paths, sees_grid


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


@pytest.mark.parametrize("count", [4, 6, 9])
def test_each_two_parameters_of_an_array_have_all_pairs_of_values(count):
    """Whatever the number of levels, which may be a square or a product."""
    levels = dict.fromkeys("wxyz", tuple(float(2**i) for i in range(count)))
    pairs = list(combinations("wxyz", 2))

    design = deduce_design(Structure(tuple("wxyz"), paths(*map("*".join, pairs))), levels)

    assert len(design.points) < count**3
    for pair in pairs:
        assert len({tuple(point[name] for name in pair) for point in design.points}) == count**2


def test_an_array_over_five_values_has_room_for_six_parameters():
    """Bush's construction has one more column than values [orthogonal arrays]."""
    sizes = {}
    for names in ("abcdef", "abcdefg"):
        structure = Structure(tuple(names), paths(*map("*".join, combinations(names, 2))))
        design = deduce_design(structure, dict.fromkeys(names, FIVE))
        sizes[len(names)] = len(design.points)
        assert all(
            sees_grid(design.points, pair, dict.fromkeys(names, FIVE))
            for pair in combinations(names, 2)
        )

    assert sizes == {6: 25, 7: 125}


def test_many_levels_are_paired_so_that_each_occurs_once():
    """There are too many permutations to try them all."""
    levels = dict.fromkeys("xy", tuple(float(i) for i in range(1, 10)))

    design = deduce_design(Structure(tuple("xy"), paths("x", "y")), levels, pairing="mixed")

    pairs = sorted((point["x"], point["y"]) for point in design.points)
    assert [x for x, _ in pairs] == sorted(y for _, y in pairs) == list(levels["x"])
    assert abs(np.corrcoef(np.array(pairs).T)[0, 1]) <= 0.3


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


def test_two_parameters_that_are_varied_together_are_named_and_the_cheapest_run_is_first():
    design = deduce_design(
        Structure(("x", "p"), paths("x", "p"), ranks="p"), {"x": FIVE, "p": FIVE}
    )

    assert "x and p influence different call paths: they are varied together" in design.insights
    costs = [core_seconds("p")(point) for point in design.points]
    assert costs == sorted(costs)

    design = deduce_design(
        Structure(("x", "p"), paths("x", "p"), ranks="p"),
        {"x": FIVE, "p": FIVE},
        pairing="cheapest",
    )
    costs = [core_seconds("p")(point) for point in design.points]
    assert costs == sorted(costs)


def test_repetitions_make_up_for_a_main_loop_that_is_missing():
    levels = {"x": FIVE, "y": FIVE}
    loop = deduce_design(Structure(("x", "y", "i"), paths("x", "y"), (), "i"), {**levels})
    alone = deduce_design(Structure(("x", "y"), paths("x", "y")), levels)

    assert (loop.repetitions, loop.iterations >= 5, loop.full) == (1, True, 25)
    assert (alone.repetitions, alone.iterations, alone.full) == (5, 0, 25)


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
    assert (sparse_design(levels).runs, sparse_design(levels).full) == (80, 125)
    assert len(sparse_design({"a": FIVE, "b": FIVE}).points) == 10
