"""A diagnosis as lines of JSON: the names that others read."""

import pytest

from insitu.analysis.diagnosis.packages import package_of
from insitu.analysis.diagnosis.rows import statement_row, summary_row
from insitu.analysis.diagnosis.statements import Cause, Statement
from insitu.entities import CallPath
from tests.analysis.programs import diagnose

LOOP = {
    "app->main->to_all->MPI_Bcast": {
        "visits": lambda p: 50 * p,
        "bytes_received": lambda p: 400 * p,
        "comm_ranks": lambda p: p,
    }
}


def test_the_first_line_is_the_summary():
    row = summary_row(diagnose(LOOP, crowded=True))

    assert row["kind"] == "summary" and row["program"] == "app"
    assert {"verdict", "target", "machine", "scaling", "totals", "next_run"} <= row.keys()
    assert (row["limits"], row["is_scaling_given"]) == (1, False)


def test_a_statement_has_all_that_is_known_of_it():
    (limit,) = diagnose(LOOP, crowded=True).limits

    row = statement_row(1, limit)

    told = ("rank", "kind", "callpath", "ranks", "status", "metric", "law", "exact", "unit")
    assert {name: row[name] for name in told} == {
        "rank": 1,
        "kind": "messages",
        "callpath": "app->main->to_all",
        "ranks": "all",
        "status": "limit",
        "metric": "visits",
        "law": "50 p",
        "exact": True,
        "unit": "1",
    }
    numbers = ("now", "then", "low", "high")
    assert [row[name] for name in numbers] == [600.0, *[50.0 * 65_536] * 3]
    assert row["points"] == "6 of 6 points"
    for name in ("where", "inlined", "run"):
        assert row[name] is None
    for name in ("breaks_at", "seconds", "severity", "text"):
        assert row[name] == getattr(limit, name)


def test_ranks_that_cause_waiting_are_listed():
    statement = Statement(
        "waiting", "warning", "text", also=("more",), causes=(Cause("main->solve", 0.6, (0, 3)),)
    )

    row = statement_row(2, statement)

    assert row["also"] == ["more"]
    assert row["causes"] == [{"callpath": "main->solve", "share": 0.6, "ranks": [0, 3]}]


def test_the_profile_has_the_mean_time_of_a_rank():
    (_, push, *_) = diagnose({}, (2,)).profile

    assert (push.kind, push.status, push.metric) == ("profile", "fine", "time_exclusive")
    assert push.now == pytest.approx(8.0 if push.name == "push" else 0.5)


@pytest.mark.parametrize(
    ("name", "file", "package"),
    [
        ("numpy.linalg.solve", "/usr/lib/python3/site-packages/numpy/linalg/linalg.py", "numpy"),
        ("Solver.step", "/home/u/app.py", ""),
        ("solve", "/usr/lib/python3/site-packages/numpy/linalg/linalg.py", ""),
    ],
)
def test_a_package_is_that_of_an_installed_file(name: str, file: str, package: str):
    path = CallPath(("app", name))

    assert package_of(path, {path: (file, 3)}) == package
