"""Names for display: short, and never without the function itself."""

import pytest

from insitu.analysis.callpaths import (
    callers_unlike,
    fitted_name,
    last_frames,
    mark_templates,
    short_name,
)
from insitu.entities import CallPath

FULL = "app::Field<std::vector<double> >::sum(int, double*) const"


def test_arguments_and_enclosing_functions_are_dropped_where_a_name_is_long():
    assert short_name(FULL) == "app::Field<std::vector<double> >::sum"
    assert short_name(f"plasma::{FULL}") == "plasma::app::Field::sum"
    assert short_name("Grid.read.<locals>.<listcomp>") == "<listcomp> in Grid.read"
    assert short_name("<lambda>") == "<lambda>"
    assert short_name("app::Field::operator bool() const") == "app::Field::operator bool() const"


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ("void app::read<int>(int)", "app::read<int>(int)"),
        ("exchange(int)", "exchange(int)"),
        ("(anonymous namespace)::solve(int)", "(anonymous namespace)::solve(int)"),
    ],
)
def test_a_short_name_tells_functions_of_one_name_apart(frame: str, name: str):
    assert short_name(frame) == name


def test_a_name_that_is_too_long_keeps_the_function():
    assert fitted_name(FULL, 12) == "Field::sum"
    assert fitted_name("a_function_with_a_long_name", 11) == "a_fun…_name"


def test_a_function_of_a_package_is_shortened_by_its_modules():
    collect = "gpaw.grid_descriptor.GridDescriptor.collect"

    assert fitted_name(collect, 60) == collect
    assert fitted_name(collect, 22) == "GridDescriptor.collect"
    assert fitted_name(collect, 18) == "collect"
    assert fitted_name("fem.spaces.VectorTransform.__call__", 18) == "VectorTr….__call__"
    assert fitted_name("fem.grid.find_domains.<locals>.position", 18) == "position"
    assert fitted_name("solve_heat_equation_again.py", 18) == "solve_he…_again.py"
    assert fitted_name("my.heat.equation.solver.py", 18) == "my.heat.…solver.py"


def test_a_function_without_a_name_keeps_its_address():
    assert fitted_name("nwchem.openmpi+0x28c9140", 18) == "nwchem.…+0x28c9140"
    assert fitted_name("libsolver.so+0x1a2b0", 8) == "l…x1a2b0"


def test_callers_are_shown_from_where_call_paths_differ():
    def path(*inner: str) -> CallPath:
        return CallPath(("app", "main", *inner, "back_up_file", "exists"))

    log = path("open_log", "open_file", "open_for_writing")
    others = [path("open_energies", "open_file", "open_for_writing"), path("write_state")]
    whole = "app->main->open_log->open_file->open_for_writing->back_up_file"

    assert callers_unlike(log, others, 80) == whole
    assert callers_unlike(log, others, 60) == whole.replace("app->main", "…")
    assert callers_unlike(log, others, 40) == "open_log->…->back_up_file"
    assert callers_unlike(path(), others, 40) == "app->main->back_up_file"


def test_a_lambda_keeps_the_function_around_it():
    assert fitted_name("io::Writer::start::{lambda(double)#1}", 18) == "start::{lambda#1}"
    assert fitted_name("main::{lambda()#2}", 18) == "main::{lambda()#2}"


def test_a_call_path_keeps_its_last_function():
    assert last_frames(f"main->{FULL}", 30).endswith("::sum")


def test_a_call_path_is_shortened_in_its_templates_before_its_frames():
    path = "app->fem::driver<fem::Box<int>, long>->fem::solve<fem::Matrix<double> >->MPI_Allreduce"

    assert last_frames(path, 56) == "app->fem::driver<…>->fem::solve<…>->MPI_Allreduce"
    assert last_frames(path, 40) == "…driver<…>->fem::solve<…>->MPI_Allreduce"


@pytest.mark.parametrize(
    "frame",
    [
        "run.<locals>.<listcomp>",
        "<module>",
        "app::operator<(app::Box, app::Box)",
        "std::operator<< <std::char_traits<char> >",
        "app::Pointer::operator->",
    ],
)
def test_what_is_no_template_stays(frame: str):
    assert mark_templates(frame) == frame
