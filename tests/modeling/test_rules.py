"""Rules of the user about which ranks are which class."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.entities import TIME, CallPath, RunKey
from insitu.errors import UsageError
from insitu.modeling.classes.domain import Domain, dims_create
from insitu.modeling.classes.rules import Rules, assign, parse_rule
from insitu.modeling.measurement import Experiment, RunTable, SeriesKey
from insitu.modeling.pipeline import RefitOptions, remodel

FLUX = CallPath.parse("main->flux")
CORNER = "corner: x in (0, nx-1) and y in (0, ny-1)"
EDGE = "edge: x in (0, nx-1) or y in (0, ny-1)"


def test_the_first_rule_that_is_true_names_the_rank():
    rules = [parse_rule(CORNER), parse_rule(EDGE)]

    labels = assign(rules, RunKey.of({"p": 16}))

    assert labels.reshape(4, 4).tolist() == [[0, 1, 1, 0], [1, 2, 2, 1], [1, 2, 2, 1], [0, 1, 1, 0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: rank == 0", [0]),
        ("a: rank % 3 == p // 8", [1, 4, 7]),
        ("a: not rank < 6", [6, 7]),
        ("a: 2 <= rank < 4", [2, 3]),
        ("a: rank not in (0, 1, 2, 3, 4, 5)", [6, 7]),
        ("a: rank * n - 1 == -1 + 3 * n", [3]),
        ("a: x + y + z == 0", [0]),
        ("a: z == nz - 1", [1, 3, 5, 7]),
        ("a: True", list(range(8))),
        ("a: rank // 0 == 5", []),
        ("a: rank < " + 350 * "9", list(range(8))),
    ],
)
def test_an_expression_may_say(text, expected):
    labels = assign([parse_rule(text)], RunKey.of({"p": 8, "n": 100}))

    assert np.flatnonzero(labels == 0).tolist() == expected


@pytest.mark.parametrize(
    "text",
    [
        "corner",
        ": rank == 0",
        "a:",
        "a: rank ==",
        "a: __import__('os').system('true')",
        "a: rank.real",
        "a: rank ** 9 ** 9",
        "a: [r for r in (1, 2)]",
        "a: 'text' == rank",
        "a: rank in x",
        "a: (lambda: 0)()",
        "a: rank[0]",
        "a: " + "1+" * 500 + "1",
    ],
)
def test_anything_else_is_refused_when_it_is_read(text):
    with pytest.raises(UsageError, match="rule"):
        parse_rule(text)


@given(st.text(max_size=60))
def test_no_text_does_more_than_be_refused(text):
    try:
        rule = parse_rule(f"a: {text}")
        assign([rule], RunKey.of({"p": 4}))
    except UsageError:
        pass


def test_a_name_that_the_run_does_not_have_is_named():
    with pytest.raises(UsageError, match="no 'cells'; it has p, rank"):
        assign([parse_rule("a: rank < cells")], RunKey.of({"p": 4}))


@pytest.mark.parametrize(
    ("size", "dimensions", "expected"),
    [(12, 2, (4, 3)), (7, 2, (7, 1)), (1, 3, (1, 1, 1)), (16, 3, (4, 2, 2)), (64, 3, (4, 4, 4))],
)
def test_grids_are_those_of_mpi_dims_create(size, dimensions, expected):
    assert dims_create(size, dimensions) == expected


def test_classes_of_rules_are_modelled_under_their_names():
    runs = []
    for p in (4, 9, 16, 25, 36):
        values = np.where(assign([parse_rule(CORNER)], RunKey.of({"p": p})) == 0, 1.01, 1.0)
        runs.append((RunKey.of({"p": p}), RunTable((FLUX,), (TIME,), {"time": values[None]})))
    rules = Rules((parse_rule(CORNER), parse_rule(EDGE)), callpath="flux", metric="time")

    found = remodel(Experiment(("p",), tuple(runs)), RefitOptions(rules=[rules]))

    assert {model.key for model in found.models} == {
        SeriesKey(FLUX, "time", name) for name in ("corner", "edge", "other", "all")
    }
    assert found.clusters[0].names == ("corner",)


def test_another_threshold_holds_for_the_call_path_it_is_given_for():
    halo = CallPath.parse("main->halo")
    values = np.array([[1.0, 1.3], [1.0, 1.3]])
    runs = [
        (RunKey.of({"p": 2, "n": n}), RunTable((FLUX, halo), (TIME,), {"time": values}))
        for n in (1, 2, 3, 4)
    ]

    found = remodel(
        Experiment(("n",), tuple(runs)), RefitOptions(rules=[Rules(callpath="halo", threshold=0.5)])
    )

    by_path = {clusters.callpath: clusters.names for clusters in found.clusters}
    assert by_path == {FLUX: ("rank 0", "others"), halo: ("all",)}


def test_places_are_those_of_the_program_where_it_told_them():
    """Columns first, and a rank outside the grid."""
    at = np.array([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1], [-1, -1]])
    domain = Domain(at, (3, 2))

    labels = assign(
        [parse_rule("left: x == 0"), parse_rule("flat: z == nz - 1")],
        RunKey.of({"p": 7}),
        domain,
    )

    assert labels.tolist() == [0, 1, 1, 0, 1, 1, 2]


def test_what_the_user_calls_t_is_no_axis():
    assert assign([parse_rule("a: t == 5")], RunKey.of({"p": 2, "t": 5})).tolist() == [0, 0]
