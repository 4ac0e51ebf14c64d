"""Diagnosis: growth of a function and of those that it calls is one statement; imbalance, too."""

from dataclasses import replace

import numpy as np
import pytest

from insitu.analysis.diagnosis.chains_of_callers import merge_chains
from insitu.analysis.diagnosis.measurements import Measurements
from insitu.analysis.diagnosis.statements import UNCLEAR, WARNING, Statement
from tests.analysis.programs import Plan, diagnose


def sweeps(p: int) -> np.ndarray:
    """Rank r makes r + 1 rounds of sweeps, as the predictor of a method parallel in time."""
    return 8.0 * (np.arange(p) + 1) + 4


def visited(count: float, visit_s: float):
    return {
        "visits": lambda p: count * sweeps(p),
        "time_exclusive": lambda p: visit_s * count * sweeps(p),
    }


def timed(seconds: float, power: float):
    return {"visits": lambda p: 10, "time_exclusive": lambda p: seconds * p**power}


def test_times_of_functions_that_are_visited_more_often_are_told_with_their_visits():
    plan: Plan = {
        "app->main->burnin": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.001},
        "app->main->burnin->sweep": visited(1, 1e-3),
        "app->main->burnin->sweep->solve": visited(3, 1e-3),
        "app->main->burnin->MPI_Send": {
            "visits": lambda p: 1.0 * np.arange(p),
            "messages_sent": lambda p: 1.0 * np.arange(p),
            "bytes_sent": lambda p: 800.0 * np.arange(p),
        },
    }

    (statement,) = diagnose(plan, has_models=True).statements

    assert statement.name == "burnin"
    assert "with the visits of sweep, solve" in statement.text
    assert [text.split(":")[0] for text in statement.also] == ["solve", "sweep"]


def test_a_time_that_grows_faster_than_the_visits_is_told_besides_them():
    plan: Plan = {
        "app->main->outer": {
            "visits": lambda p: p,
            "time_exclusive": lambda p: 0.002 * p * p,
        },
    }

    statements = diagnose(plan, has_models=True).statements

    assert sorted(entry.name for entry in statements) == ["main", "outer"]


def test_times_that_grow_alike_in_a_chain_of_calls_are_told_once():
    plan: Plan = {
        "app->main->outer": timed(0.01, 1),
        "app->main->outer->middle": timed(0.02, 1),
        "app->main->outer->middle->inner": timed(0.1, 1),
    }

    (statement,) = diagnose(plan, has_models=True).statements

    assert statement.name == "inner"
    assert statement.text.endswith("; likewise middle, outer, in one chain of calls")
    assert [text.split(":")[0] for text in statement.also] == ["middle", "outer"]
    assert not {"middle", "outer"} & {entry.name for entry in diagnose(plan, has_models=True).fine}


def test_times_that_grow_otherwise_or_beside_one_another_are_told_each():
    plan: Plan = {
        "app->main->outer": timed(0.01, 1),
        "app->main->outer->inner": timed(0.1, 2),
        "app->main->beside": timed(0.1, 1),
    }

    statements = diagnose(plan, has_models=True).statements

    assert sorted(entry.name for entry in statements) == ["beside", "inner", "outer"]
    assert not any("likewise" in entry.text for entry in statements)


@pytest.mark.parametrize("is_swapped", [False, True])
def test_ranks_that_are_longer_in_a_function_are_told_once(is_swapped):
    last = Statement("imbalance", UNCLEAR, "2.0 times the mean", "app->wait", ranks="last rank")
    half = Statement("imbalance", UNCLEAR, "have 86 %", "app->wait", ranks="ranks 5, 6, 7, 8")
    other = Statement("imbalance", UNCLEAR, "1.5 times the mean", "app->solve", ranks="rank 0")
    certain = Statement("imbalance", WARNING, "only rank 0", "app->wait", ranks="rank 0")
    twice = [half, last] if is_swapped else [last, half]

    merged = merge_chains([certain, *twice, other], [], Measurements(np.array([]), ()))

    assert merged == [certain, replace(half, also=(last.text,)), other]
