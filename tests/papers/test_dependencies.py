"""Claims of paper 004 on cost-effective experiments from program dependencies [DET]."""

from fractions import Fraction

import numpy as np
import pytest

from insitu.design.deduce import deduce_design
from insitu.design.dependencies import Dependency, Nest, Structure
from insitu.design.dependency_file import relevant_patterns
from insitu.design.factorial import full_factorial, sparse_design
from insitu.design.mainloop import judge_loop
from tests.support.structures import FIVE, KRIPKE, PACE3D, paths, sees_grid


def test_without_main_loop_each_point_is_repeated():
    """Two functions of one parameter each [DET §2.2]."""
    design = deduce_design(Structure(("x1", "x2"), paths("x1", "x2")), {"x1": FIVE, "x2": FIVE})
    assert (design.full_runs, design.runs, design.repetitions) == (125, 25, 5)


def test_main_loop_makes_repetitions_unnecessary():
    """The same functions with a main loop around them [DET §2.2]."""
    structure = Structure(("x1", "x2", "iters"), paths("x1*iters", "x2*iters"), iteration="iters")
    design = deduce_design(structure, {"x1": FIVE, "x2": FIVE, "iters": FIVE})
    assert (design.full, design.runs) == (125, 5)
    assert design.iterations >= 5


def test_running_example_of_figure_4():
    """[DET Fig. 4]."""
    parameters = {"foo": "x1*iters", "bar": "x2*iters", "baz": "x2*iters", "preCalculate": ""}
    dependencies = tuple(
        Dependency(name, (Nest.of(text.split("*")),) if text else ())
        for name, text in parameters.items()
    )
    structure = Structure(("x1", "x2", "iters"), dependencies, iteration="iters")
    design = deduce_design(structure, {"x1": FIVE, "x2": FIVE, "iters": FIVE})
    assert (design.full, design.runs) == (125, 5)


def test_functions_without_a_dependency_are_not_instrumented():
    """[DET §3.3]: "Performance-Detective disregards the constant function preCalculate"."""
    structure = Structure(
        ("x1", "x2"),
        (
            Dependency("main->foo", (Nest.of(["x1"]),)),
            Dependency("main->foo->bar", (Nest.of(["x2"]),)),
            Dependency("main->foo->baz", (Nest.of(["x2"]),)),
            Dependency("main->foo->baz->preCalculate"),
            Dependency("main->foo->MPI_Bcast", (Nest.of(["x2"]),)),
        ),
    )

    assert relevant_patterns(structure) == ("main", "foo", "bar", "baz")


def test_kripke_has_the_points_of_the_paper():
    """[DET §5.2, Fig. 5b]."""
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


@pytest.mark.parametrize("rule", ["paper", "additive"])
def test_pace3d_of_the_paper(rule):
    """[DET §5.1.1, Fig. 5a and 6]."""
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


@pytest.mark.parametrize(
    ("levels", "points", "full", "sparse"),
    [(KRIPKE, 25, 125, 50), (PACE3D, 125, 625, 80)],
    ids=["Kripke", "Pace3D"],
)
def test_conventional_designs_have_the_runs_of_table_3(levels, points, full, sparse):
    """[DET Table 3, §6.3]: with the main loop excluded, five repetitions each."""
    varied = {name: values for name, values in levels.items() if name != "iters"}

    assert len(full_factorial(varied).points) == points
    assert full_factorial(varied).runs == full
    assert sparse_design(varied).runs == sparse


@pytest.mark.parametrize(
    ("variation", "iterations"), [(0.05, 100), (0.0067, 10)], ids=["Pace3D", "Kripke"]
)
def test_main_loops_that_vary_as_in_the_paper_are_linear(variation, iterations):
    """[DET §5.1]; five iterations should be enough for their mean [DET §6.2]."""
    rng = np.random.default_rng(3)

    verdict = judge_loop(1 + variation * rng.standard_normal(iterations))

    assert verdict.is_linear
    assert verdict.iterations == 5
