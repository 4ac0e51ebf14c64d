"""insitu's own processes run without what changes how the program runs."""

from insitu.collectors.own_environment import own_environment


def test_what_changes_how_the_program_runs_is_not_for_insitu():
    of_program = ("PYTHONINSPECT", "LD_DEBUG", "LD_SHOW_AUXV", "LD_AUDIT", "MALLOC_TRACE")

    own = own_environment(dict.fromkeys(of_program, "1"))

    assert own == {}


def test_where_python_and_its_libraries_are_found_stays():
    environment = {"PATH": "/bin", "PYTHONHOME": "/opt", "LD_LIBRARY_PATH": "/opt/lib"}

    own = own_environment(environment)

    assert own == environment
