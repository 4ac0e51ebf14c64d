"""Dependencies as users and other tools write them, and dependent parameters."""

from fractions import Fraction

import pytest

from insitu.design.dependencies import Dependency, DependencyStatus, Nest, Structure, at_callpaths
from insitu.design.dependency_file import parse_derived, read_structure
from insitu.design.levels import parse_levels
from insitu.errors import UsageError

SPACING = {"spacing": {"vol": Fraction(1), "cubes": Fraction(-1)}}


def test_dependent_parameter_cancels():
    assert Nest.of({"cubes": 1, "spacing": 1}).substitute(SPACING) == Nest.of({"vol": 1})


def test_name_without_exponent_depends_on_everything_it_consists_of():
    nest = Nest.of(["spacing"]).substitute(SPACING)
    assert nest.parameters == {"vol", "cubes"}


def test_parameter_defined_by_itself():
    with pytest.raises(UsageError, match="defined by itself"):
        Nest.of(["a"]).substitute({"a": {"b": Fraction(1)}, "b": {"a": Fraction(1)}})


def test_nest_prints_as_a_product():
    assert str(Nest.of({"vol": 1, "procs": -1, "n": Fraction(3, 2)})) == "n^(3/2) * vol / procs"
    assert str(Nest.of(["n"])) == "f(n)"
    assert str(Nest.of({})) == "1"


def test_structure_reads_back_from_its_json():
    structure = Structure(
        ("procs", "vol", "iters"),
        (
            Dependency("a", (Nest.of({"vol": 1, "procs": -1}), Nest.of(["procs"])), 0.5),
            Dependency("b", (), 0.1, DependencyStatus.NONDETERMINISTIC),
        ),
        derived=(("spacing", (("vol", Fraction(1)),)),),
        iteration="iters",
        ranks="procs",
    )
    assert read_structure(structure.to_json(), "here") == structure


@pytest.mark.parametrize(
    ("measured", "counted"),
    [
        ("a.py->main->Tree.walk", {"walk"}),
        ("a.py->main->main.<locals>.<listcomp>->Tree.walk", {"walk"}),
        ("a.py->main->Tree.walk->Tree.kids->Tree.walk", {"walk"}),
        ("a.py->main->Tree.walk->Tree.kids->Tree.walk->Tree.kids", {"kids"}),
        ("a.py->main->other", None),
    ],
)
def test_comprehensions_count_in_the_frame_above_and_recursion_at_the_first_call(measured, counted):
    paths = ("a.py->main->Tree.walk", "a.py->main->Tree.walk->Tree.kids")
    dependencies = tuple(Dependency(path, (Nest.of([path[-4:]]),)) for path in paths)

    resolved = at_callpaths(Structure(("walk", "kids"), dependencies), [measured])

    assert {path: found.parameters for path, found in resolved.items()} == (
        {measured: counted} if counted else {}
    )


def test_profile_of_a_taint_analysis():
    profile = """{"params": ["x", "y"], "functions": {
        "important": {"loops": ["x", ["x", "y"]], "MPI": null},
        "constant": {"loops": [], "MPI": null}}}"""
    structure = read_structure(profile, "profile.json")
    important, constant = structure.dependencies
    assert important.nests == (Nest.of(["x"]), Nest.of(["x", "y"]))
    assert constant.nests == ()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"parameters": ["p"]}', '{"parameters": ["p"], "callpaths": [{"x": 1}]}',
     '{"parameters": ["p"], "callpaths": [{"callpath": "a", "nests": [{"p": "1e99"}]}]}',
     '{"params": 3, "functions": {"a": {"loops": 1}}}'],
)  # fmt: skip
def test_file_of_another_form_is_refused(text):
    with pytest.raises(UsageError, match=r"^heat\.json: "):
        read_structure(text, "heat.json")


def test_derived_parameters_as_users_write_them():
    assert parse_derived("spacing=vol/cubes") == (
        "spacing",
        (("cubes", Fraction(-1)), ("vol", Fraction(1))),
    )
    assert parse_derived("cells = n*n*m")[1] == (("m", Fraction(1)), ("n", Fraction(2)))
    for wrong in ("spacing", "=a", "s=", "s=a+b", "s=2*a"):
        with pytest.raises(UsageError):
            parse_derived(wrong)


def test_levels_as_users_write_them():
    assert parse_levels("p=8..128:5") == ("p", (8, 16, 32, 64, 128))
    assert parse_levels("n=96,32,32") == ("n", (32, 96))
    assert parse_levels("x=0.5..2:3") == ("x", (0.5, 1.0, 2.0))
    for wrong in ("p", "p=", "p=a", "p=-1", "p=8..4:3", "p=1..2:1", "p=1..1e400:5", "p=nan"):
        with pytest.raises(UsageError):
            parse_levels(wrong)
