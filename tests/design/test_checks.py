"""Check points: interactions that no count shows, and no false alarms."""

from dataclasses import replace

import numpy as np
import pytest

from insitu.design.checks import MeasuredPoints, add_interaction, find_hidden_interactions
from insitu.design.deduce import deduce_design
from insitu.design.dependencies import Dependency, DependencyStatus, Nest, Structure

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


def test_parameters_that_no_call_path_shares_move_apart_only_at_two_check_points():
    assert DESIGN.confounded == (("vol", "cubes"),)
    assert len(DESIGN.checks) == 2


@pytest.mark.parametrize("seed", range(5))
def test_only_the_call_path_that_another_parameter_slows_is_reported(seed):
    (interaction,) = compared(slowed=0.1, seed=10 * seed)
    assert (interaction.callpath, interaction.pair) == ("coarse", ("cubes", "vol"))
    assert abs(interaction.excess) > 0.1
    finding = interaction.finding()
    assert (finding.code, finding.where) == ("hidden-interaction", "coarse")
    assert "cubes and vol act together" in finding.text


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_reported_without_a_hidden_interaction(seed):
    assert compared(slowed=0.0, seed=10 * seed) == []


def test_the_refitted_law_predicts_the_check_points():
    (interaction,) = compared(slowed=0.1, noise=0.005)
    checks = timed(DESIGN.checks, slowed=0.1, noise=0.0, seed=0)
    refitted = np.median(interaction.law.at(checks.points), axis=0)
    assert abs(interaction.excess) > 0.15
    assert refitted == pytest.approx(checks.values[1], rel=0.1)  # laws have two terms, this three


def test_nothing_is_reported_without_check_points():
    runs = timed(DESIGN.points, slowed=0.1, noise=0.02, seed=1)
    none = MeasuredPoints(runs.points[:0], runs.values[:, :0])
    assert find_hidden_interactions(runs, none, NAMES, DEPENDENCIES, DESIGN.confounded) == []


def test_three_parameters_that_move_together_all_move_apart_at_check_points():
    names = ("a", "b", "c")
    alone = Structure(names, tuple(Dependency(name, (Nest.of([name]),)) for name in names))
    design = deduce_design(alone, dict.fromkeys(names, (1.0, 2.0, 4.0, 8.0)))
    assert len(design.points) == 4
    assert len(design.confounded) == 3
    assert all(any(at[a] != at[b] for at in design.checks) for a, b in design.confounded)


def test_an_added_pair_leaves_the_rest_of_a_dependency():
    status = DependencyStatus.NONDETERMINISTIC
    extended = add_interaction(Dependency("f", (Nest.of(["a"]),), 0.25, status), ("a", "b"))
    assert (extended.callpath, extended.share, extended.status) == ("f", 0.25, status)


def test_an_added_pair_makes_a_design_with_its_full_grid():
    extended = add_interaction(DEPENDENCIES[1], ("cubes", "vol"))
    assert {nest.parameters for nest in extended.nests} == {
        frozenset({"cubes", "p"}),
        frozenset({"vol"}),
        frozenset({"cubes", "vol", "p"}),
    }
    structure = Structure(NAMES, (DEPENDENCIES[0], extended, DEPENDENCIES[2]), ranks="p")
    pairs = {(point["vol"], point["cubes"]) for point in deduce_design(structure, LEVELS).points}
    assert len(pairs) == 16


def test_an_interaction_is_described_as_longer_or_more_often():
    shown = replace(compared(slowed=0.1, seed=10)[0], at=(("cubes", 8.0), ("vol", 4.0)))

    longer, often = replace(shown, excess=0.12), replace(shown, excess=3.0)

    end = "cubes explains: cubes and vol act together;"
    assert longer.finding().text == (
        f"takes 12 % more at cubes=8, vol=4 than {end} no count shows this"
    )
    assert often.finding(is_counted=True).text == (
        f"is called 4 times as often at cubes=8, vol=4 as {end} the pilot runs did not show this"
    )
