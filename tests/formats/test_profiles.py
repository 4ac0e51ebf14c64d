"""Counters of compilers: what is read of them, and what is refused."""

import json

import pytest

from insitu.errors import UsageError
from insitu.formats.counts import read_counts

REGIONS = """\
:ir
# a comment
main
# Func Hash:
1160280
# Num Counters:
2
# Counter Values:
1
5

solver.c:sweep
# Func Hash:
4749112401
# Num Counters:
3
# Counter Values:
5
15
45
# Num Value Kinds:
1
# ValueKind = IPVK_IndirectCallTarget:
0
# NumValueSites:
1
2
edge:4
other.c;edge:1

solver.c;edge
18129
1
4
"""


def line(number, count, function="_Z5sweepi"):
    return {"line_number": number, "count": count, "function_name": function, "branches": []}


def gcov(lines):
    sweep = {"name": "_Z5sweepi", "demangled_name": "sweep(int)", "execution_count": 5}
    return json.dumps({"files": [{"file": "a.cc", "functions": [sweep], "lines": lines}]})


@pytest.mark.parametrize(
    ("demangled", "expected"),
    [
        ("Sweep::operator()(int, int) const", "Sweep::operator()"),
        ("(anonymous namespace)::fill(double*)", "(anonymous namespace)::fill"),
        ("std::vector<int, std::allocator<int> >::push_back(int&&)", "std::vector<int>::push_back"),
    ],
)
def test_functions_are_named_as_in_measured_runs(tmp_path, demangled, expected):
    function = {"name": "_Z5sweepi", "demangled_name": demangled, "execution_count": 5}
    source = {"file": "a.cc", "functions": [function], "lines": [line(3, 10)]}
    (tmp_path / "1.gcov").write_text(json.dumps({"files": [source]}) + "\n")

    assert {path for path, _ in read_counts(str(tmp_path))} == {expected}


def test_counts_of_lines_are_the_largest_of_all_ranks(tmp_path):
    (tmp_path / "1.gcov").write_text(gcov([line(3, 10), line(4, 7), line(9, 1, "gone")]) + "\n")
    (tmp_path / "2.gcov").write_text(gcov([line(3, 8), line(4, 9), line(4, 1)]) + "\n")
    found = read_counts(str(tmp_path))
    assert found["sweep", "visits"] == 5
    assert found["sweep", "loop:3"] == 10
    assert found["sweep", "loop:4"] == 10
    assert found["sweep", "entries:4"] == 5
    assert not [site for site in found if site[0] == "gone"]


def test_regions_of_functions(tmp_path):
    (tmp_path / "1.proftext").write_text(REGIONS)
    found = read_counts(str(tmp_path))
    assert found["sweep", "visits"] == 5
    assert found["sweep", "region:2"] == 45
    assert found["main", "region:1"] == 5
    assert found["main", "entries:1"] == 1
    assert found["edge", "visits"] == 4


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("1.gcov", "no json"),
        ("1.gcov", "[]"),
        ("1.gcov", '{"files": [{"functions": [{}], "lines": []}]}'),
        ("1.gcov", '{"files": [{"functions": [], "lines": 3}]}'),
        ("1.proftext", "main\n1\n2\n5\n"),
        ("1.proftext", "main\nx\ny\n"),
        ("1.proftext", "main\n"),
    ],
)
def test_other_files_are_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=r"not a file of `(gcov|llvm)"):
        read_counts(str(tmp_path))
