"""Diagnosis: communicators that are created again and again."""

from tests.analysis.programs import Plan, diagnose


def test_what_splitting_communicators_costs_is_a_lower_bound_under_a_condition():
    plan: Plan = {
        "app->main->step->MPI_Comm_split": {"visits": lambda p: 100, "comm_ranks": lambda p: p}
    }

    found = [entry for entry in diagnose(plan).all_statements() if entry.name == "step"]

    (statement,) = [entry for entry in found if entry.kind == "messages"]
    assert "receives 100 p colours and keys" in statement.text
    assert "at least" in statement.text
    assert "if the library gathers those of all ranks" in statement.text
