"""Dependencies as users and other tools write them, and dependent parameters."""

import json
from fractions import Fraction

import pytest

from insitu.design.dependencies import (
    Dependency,
    DependencyStatus,
    Nest,
    Structure,
    add_labels,
    at_callpaths,
)
from insitu.design.dependency_file import (
    load_products,
    load_structure,
    parse_derived,
    read_structure,
    relevant_patterns,
)
from insitu.design.levels import parse_levels
from insitu.design.pilot import changed_parameters, far_configurations, pilot_configurations
from insitu.entities import CallPath
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
    assert str(Nest.of({"n": 2, "m": -2})) == "n^2 / m^2"
    assert str(Nest.of({})) == "1"


def test_structure_reads_back_from_its_json():
    structure = Structure(
        ("procs", "vol", "iters"),
        (
            Dependency("a", (Nest.of({"vol": 1, "procs": -1}), Nest.of(["procs"])), 0.5),
            Dependency("b", (), 0.1, DependencyStatus.NONDETERMINISTIC),
            Dependency("c", (), 0.1, labelled=("vol",), refuted=("procs", "iters")),
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
    assert important.status is constant.status is DependencyStatus.LABELLED


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


MAIN, SOLVE, HALO, TIMED = (
    CallPath.parse(text) for text in ("main", "main->solve", "main->MPI_Send", "main->timed")
)
DETECTED = Structure(
    ("p", "n", "k"),
    (
        Dependency("main", ()),
        Dependency("main->solve", tuple(map(Nest.of, (["n", "p"], ["p"], ["p", "n", "k"])))),
        Dependency("main->MPI_Send", (Nest.of(["p"]),)),
        Dependency("main->timed", (Nest.of(["p"]),), 0.0, DependencyStatus.NONDETERMINISTIC),
    ),
    iteration="k",
)


def test_products_are_those_of_the_parameters_that_the_runs_vary(tmp_path):
    path = tmp_path / "detected.json"
    path.write_text(DETECTED.to_json())
    callpaths = [MAIN, SOLVE, HALO, TIMED, CallPath.parse("main->other")]

    assert load_structure(str(path)) == DETECTED
    assert load_products(str(path), callpaths, ("p", "n")) == {
        MAIN: (),
        SOLVE: (("p", "n"), ("p",)),
    }
    assert load_products(str(path), iter(callpaths), ("k",)) == {MAIN: (), SOLVE: (("k",),)}
    assert load_products(str(path), callpaths, ("p", "other")) == {}
    assert load_products("", callpaths, ("p",)) == {}


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file or directory"), (b"\xff", "not text")]
)
def test_a_file_that_cannot_be_read_is_refused_with_what_to_do(tmp_path, content, reason):
    path = tmp_path / "detected.json"
    if content:
        path.write_bytes(content)

    with pytest.raises(UsageError) as caught:
        load_structure(str(path))
    assert str(caught.value) == (
        f"{path}: cannot be read: {reason}; create it with `insitu detect`"
    )


def test_only_functions_that_depend_on_something_and_their_callers_are_measured():
    labelled = Dependency("main->io->read[*]", (), labelled=("n",))
    constant = Dependency("main->setup->init", ())
    odd = Dependency("a/b.py->x\ny->PMPI_Send->", (Nest.of(["p"]),))
    structure = Structure(("p", "n"), (*DETECTED.dependencies, constant, labelled, odd))

    assert relevant_patterns(structure) == ("main", "solve", "timed", "io", "read[[][*]]")
    assert relevant_patterns(Structure(("p",), (constant,))) == ()


def test_labels_that_counts_do_not_show_are_added_and_those_that_were_tried_refuted():
    labels = {"main->solve": {"n", "m", "a", "q"}, "main->unknown": {"n"}}

    structure = add_labels(DETECTED, labels, tried={"m", "n"})

    main, solve, *_ = structure.dependencies
    assert (solve.labelled, solve.refuted) == (("a", "q"), ("m",))
    assert (main.labelled, main.refuted) == ((), ())
    assert structure.parameters == DETECTED.parameters
    assert add_labels(DETECTED, {}) == DETECTED


LEVELS = {"p": (2, 4, 8), "n": (10, 20, 40), "k": (1, 2, 3)}


def test_pilot_runs_are_the_base_each_parameter_each_pair_and_all_with_both_ends_twice():
    runs = pilot_configurations(LEVELS)

    base, second = {"p": 2.0, "n": 10.0, "k": 1.0}, {"p": 4.0, "n": 20.0, "k": 2.0}
    assert len(runs) == 13
    assert runs[:2] == [base, base] and runs[-2:] == [second, second]
    n_changed = [len(changed_parameters(base, run)) for run in runs]
    assert n_changed == [0] * 2 + [1] * 6 + [2] * 3 + [3] * 2
    assert len({tuple(run.values()) for run in runs}) == 11
    assert [run["p"] for run in runs[2:4]] == [4.0, 8.0]
    assert len(pilot_configurations({"p": (1, 2, 3), "n": (1, 2, 3)})) == 2 + 4 + 1 + 1


@pytest.mark.parametrize("values", [(1, 2), (1, 2, 2), (1, 2, 3, 4), (1, 2, 3, 3)])
def test_pilot_runs_need_three_different_values(values):
    with pytest.raises(UsageError, match="--param n: pilot runs need 3 different values"):
        pilot_configurations({"p": (1, 2, 3), "n": values})


def test_pilot_runs_take_at_most_eight_parameters():
    levels = {f"x{i}": (1, 2, 3) for i in range(9)}

    with pytest.raises(UsageError, match="take 1 to 8 parameters, not 9"):
        pilot_configurations(levels)
    with pytest.raises(UsageError, match="not 0"):
        pilot_configurations({})
    del levels["x0"]
    assert len(pilot_configurations(levels)) == 2 + 16 + 28 + 2


def test_far_runs_have_the_far_value_alone_and_with_each_other_parameter():
    runs = far_configurations(LEVELS, {"n": 640.0, "k": 9.0})

    assert runs == [
        {"p": 2.0, "n": 640.0, "k": 1.0},
        {"p": 4.0, "n": 640.0, "k": 1.0},
        {"p": 2.0, "n": 640.0, "k": 2.0},
        {"p": 2.0, "n": 10.0, "k": 9.0},
        {"p": 4.0, "n": 10.0, "k": 9.0},
        {"p": 2.0, "n": 20.0, "k": 9.0},
    ]
    assert far_configurations(LEVELS, {}) == []
    with pytest.raises(UsageError, match="--far m: no such parameter; the parameters are p, n, k"):
        far_configurations(LEVELS, {"m": 4.0})
    for value in (10.0, 40.0):
        with pytest.raises(UsageError, match=f"--far n={value:g}: the pilot runs have this value"):
            far_configurations(LEVELS, {"n": value})


def test_a_file_without_a_main_loop_names_none():
    data = json.loads(DETECTED.to_json())
    data.pop("iteration", None)

    assert read_structure(json.dumps(data), "here").iteration == ""
