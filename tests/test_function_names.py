"""Names of functions are split without loss, and what belongs to a name stays in it."""

import pytest

from insitu.function_names import split_function_name, without_arguments


@pytest.mark.parametrize(
    "parts",
    [
        ("", "solve", "(double*, int)", " const", ""),
        ("", "visit", "(void (*)(int), char)", "", ""),
        ("", "sim::Jacobi::step", "(int)", " const [clone .part.0]", ""),
        ("", "solve", "", " [clone .isra.0]", ""),
        ("", "Field::value", "()", " const &", ""),
        ("void ", "app::read<int>", "(int)", "", ""),
        ("std::vector<int, a<int> > const& ", "app::read<int>", "(int)", "", ""),
        ("std::ostream& ", "operator<< <int>", "(std::ostream&, int)", "", ""),
        ("", "app::Field::operator bool", "()", " const", ""),
        ("", "operator()", "", "", ""),
        ("", "app::Less::operator()", "(int, int)", " const", ""),
        ("", "app::Field::operator&", "", "", ""),
        ("", "myoperator", "()", "", ""),
        ("", "Grid::step(int) const::{lambda(int)#1}::operator()", "(int)", " const", ""),
        ("", "(anonymous namespace)::solve", "(int)", "", ""),
        ("", "init", "", "", " (solver.c)"),
        ("", "exchange", "(int)", "", " (grid.cpp)"),
        ("", "(import)", "", "", ""),
        ("", "Grid.advance", "", "", ""),
        ("", "time loop", "", "", ""),
        ("", "time loop (of a (b))", "", "", ""),
    ],
)
def test_a_name_is_split_into_its_parts(parts):
    assert split_function_name("".join(parts)) == parts


def test_a_name_without_arguments_keeps_its_file():
    assert without_arguments("void solve<int>(int) const (grid.cpp)") == "solve<int> (grid.cpp)"
