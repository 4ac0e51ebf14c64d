"""Check points: interactions that no count shows, and none where there is none."""

import numpy as np
import pytest

from insitu.design.checks import MeasuredPoints, add_interaction, find_hidden_interactions
from insitu.design.deduce import deduce_design
from insitu.design.dependencies import Dependency, Nest, Structure

LEVELS = {"p": (2.0, 4.0, 8.0), "vol": (1e3, 2e3, 4e3, 8e3), "cubes": (10.0, 20.0, 40.0, 80.0)}
NAMES = tuple(LEVELS)
DEPENDENCIES = (
    Dependency("smooth", (Nest.of(["p", "vol"]),)),
    Dependency("coarse", (Nest.of(["cubes", "p"]),)),
    Dependency("reduce", (Nest.of(["p"]),)),
)
STRUCTURE = Structure(NAMES, DEPENDENCIES, ranks="p")
DESIGN = deduce_design(STRUCTURE, LEVELS)


def timed(points, *, slowed: float, noise: float, seed: int) -> MeasuredPoints:
    at = np.array([[value for _, value in point.values] for point in points])
    p, vol, cubes = at.T
    slower = 1 + slowed * np.log2(vol / 1e3)
    exact = np.stack([1 + 0.01 * vol / p, (1 + 0.2 * cubes / p) * slower, 0.1 + 0.3 * np.log2(p)])
    random = np.random.default_rng(seed)
    return MeasuredPoints(at, exact * (1 + noise * random.standard_normal(exact.shape)))


def compared(*, slowed: float, noise: float = 0.02, seed: int = 1):
    runs, checks = (
        timed(points, slowed=slowed, noise=noise, seed=seed + i)
        for i, points in enumerate((DESIGN.points, DESIGN.checks))
    )
    return find_hidden_interactions(
        runs, checks, NAMES, DEPENDENCIES, DESIGN.confounded, noise=noise
    )


def test_design_moves_what_no_call_path_shares_together_but_for_two_check_points():
    assert DESIGN.confounded == (("vol", "cubes"),)
    assert len(DESIGN.checks) == 2


@pytest.mark.parametrize("seed", range(5))
def test_call_path_that_another_parameter_slows_is_named_and_no_other(seed):
    (found,) = compared(slowed=0.1, seed=10 * seed)
    assert (found.callpath, found.pair) == ("coarse", ("cubes", "vol"))
    assert abs(found.excess) > 0.1
    note = found.finding()
    assert (note.code, note.where) == ("hidden-interaction", "coarse")
    assert "cubes and vol act together" in note.text


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_named_where_nothing_is_hidden(seed):
    assert compared(slowed=0.0, seed=10 * seed) == []


def test_what_is_refitted_comes_nearer_to_the_check_points():
    (found,) = compared(slowed=0.1, noise=0.005)
    checks = timed(DESIGN.checks, slowed=0.1, noise=0.0, seed=0)
    refitted = np.median(found.law.at(checks.points), axis=0)
    assert abs(found.excess) > 0.15
    assert refitted == pytest.approx(checks.values[1], rel=0.1)  # laws have two terms, this three


def test_nothing_is_told_without_check_points():
    runs = timed(DESIGN.points, slowed=0.1, noise=0.02, seed=1)
    none = MeasuredPoints(runs.points[:0], runs.values[:, :0])
    assert find_hidden_interactions(runs, none, NAMES, DEPENDENCIES, DESIGN.confounded) == []


def test_three_that_move_together_are_all_parted():
    names = ("a", "b", "c")
    alone = Structure(names, tuple(Dependency(name, (Nest.of([name]),)) for name in names))
    design = deduce_design(alone, dict.fromkeys(names, (1.0, 2.0, 4.0, 8.0)))
    assert len(design.points) == 4
    assert len(design.confounded) == 3
    assert all(any(at[a] != at[b] for at in design.checks) for a, b in design.confounded)


def test_allowed_pair_makes_a_design_that_shows_it():
    allowed = add_interaction(DEPENDENCIES[1], ("cubes", "vol"))
    assert {nest.parameters for nest in allowed.nests} == {
        frozenset({"cubes", "p"}),
        frozenset({"vol"}),
        frozenset({"cubes", "vol", "p"}),
    }
    structure = Structure(NAMES, (DEPENDENCIES[0], allowed, DEPENDENCIES[2]), ranks="p")
    pairs = {(point["vol"], point["cubes"]) for point in deduce_design(structure, LEVELS).points}
    assert len(pairs) == 16
