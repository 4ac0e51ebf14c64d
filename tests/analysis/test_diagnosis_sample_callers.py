"""Diagnosis: growth of functions of which each rank has few samples."""

import numpy as np
import pytest

from tests.analysis.programs import Plan, diagnose


def of_samples(**plans):
    """A program whose functions have numbers of samples of 10 ms, functions of p."""
    plan: Plan = {
        "app": {"visits": lambda p: 1, "time": lambda p: 1.0, "time_exclusive": lambda p: 0.1},
        "app->main->MPI_Barrier": {"visits": lambda p: 1},
    }
    for path, samples in plans.items():
        name = "->".join(["app", "main", *path.split("__")]) if path != "main" else "app->main"
        plan[name] = {"time_exclusive": lambda p, of=samples: 0.01 * np.asarray(of(p), float)}
    return diagnose(
        plan, (2, 3, 4, 6, 8, 12), crowded=True, has_models=True, base={}, sampling_s=0.01
    )


def test_few_samples_are_those_of_the_next_caller_that_has_any():
    """contacts.c: of `find_slab`, called by `classify`, two ranks have too few samples."""
    own = {2: 0, 3: 6, 4: 5, 6: 11, 8: 11, 12: 15}
    found = of_samples(
        classify__find_slab=lambda p: np.where(p == 2, np.nan, own[p] + np.arange(p) % 3),
        main=lambda p: np.full(p, 3 if p == 2 else 0),
    )

    (statement,) = found.statements
    assert (statement.status, statement.name) == ("unclear", "find_slab")
    assert "with that of main, has grown from 30 ms to 160 ms" in statement.text


@pytest.mark.parametrize("scaling", ["weak", "strong"])
def test_the_mean_over_ranks_of_which_one_gives_out_work_is_no_growth(scaling):
    """sorted_results.c: rank 0 computes nothing, half of two ranks and a twelfth of twelve."""
    work = 12 if scaling == "weak" else 120
    found = of_samples(
        work__model=lambda p: np.where(
            np.arange(p) > 0, work / (1 if scaling == "weak" else p - 1), 0
        ),
    )

    assert found.statements == ()
