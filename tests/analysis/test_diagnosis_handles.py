"""Diagnosis: MPI objects that ranks create and do not free."""

import pytest

from tests.analysis.programs import SCALES, diagnose


def leaks(plan, scales=SCALES):
    """The statements about such objects, as function and text."""
    entries = diagnose(plan, scales, crowded=True).statements
    return [(entry.name, entry.text) for entry in entries if entry.kind == "handles"]


def calls(function, call, visits):
    """A function that makes so many calls in a run."""
    values = {"visits": visits if callable(visits) else lambda p: visits}
    return {f"app->main->{function}->{call}": values}


@pytest.mark.parametrize("scales", [SCALES, (1, 2, 4, 8), (2,)])
@pytest.mark.parametrize(
    ("call", "noun"),
    [
        ("MPI_Type_vector", "datatypes"),
        ("MPI_Comm_dup", "communicators"),
        ("MPI_Send_init", "persistent requests"),
        ("MPI_Win_create", "windows"),
        ("MPI_Group_incl", "groups"),
    ],
)
def test_objects_that_nobody_frees_are_named_with_the_function(call, noun, scales):
    ((name, text),) = leaks(calls("prepare", call, 200), scales)

    assert name == "prepare"
    assert text.startswith(f"each rank creates 200 {noun} by {call} and frees none of them;")


def test_objects_that_another_function_frees_are_none():
    plan = calls("prepare", "MPI_Type_vector", 200) | calls("clean", "MPI_Type_free", 200)

    assert leaks(plan) == []


def test_a_set_of_types_for_all_neighbours_is_none():
    assert leaks(calls("prepare", "MPI_Type_create_subarray", 26)) == []


def test_communicators_that_are_freed_with_those_of_the_program_are_none():
    """mpi4py attaches one of its own to each, and frees it where nothing is counted."""
    plan = calls("step", "MPI_Comm_dup", 200) | calls("clean", "MPI_Comm_free", 100)

    assert leaks(plan) == []


def test_a_law_of_the_objects_is_given():
    ((_, text),) = leaks(calls("prepare", "MPI_Type_indexed", lambda p: 50 * p))

    assert text.startswith("each rank creates 50 p datatypes")


@pytest.mark.parametrize("scales", [(1, 2), (1, 2, 4, 8)])
def test_one_rank_has_nobody_to_create_types_for(scales):
    ((name, _),) = leaks(
        calls("prepare", "MPI_Type_vector", lambda p: 0 if p == 1 else 200), scales
    )

    assert name == "prepare"


def test_the_line_of_the_function_is_given():
    plan = calls("prepare", "MPI_Type_vector", 200)

    found = diagnose(plan, crowded=True, sites={"app->main->prepare": ("/home/u/app.py", 21)})

    (entry,) = (entry for entry in found.statements if entry.kind == "handles")
    assert (entry.where, entry.metric) == ("app.py:21", "visits")


@pytest.mark.parametrize(
    ("created", "freed", "are_named"), [(50, 0, 1), (49, 0, 0), (100, 50, 1), (101, 51, 0)]
)
def test_fifty_objects_or_more_are_named_of_which_half_are_not_freed(created, freed, are_named):
    plan = calls("prepare", "MPI_Type_vector", created) | calls("clean", "MPI_Type_free", freed)

    assert len(leaks(plan)) == are_named
