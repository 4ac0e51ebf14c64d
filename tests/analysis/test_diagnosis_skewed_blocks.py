"""Diagnosis: work in one part of a domain that is divided into blocks of equal size."""

import numpy as np
import pytest

from tests.analysis.programs import SCALES, diagnose


def block_work(p):
    """Seconds of each rank: nearly all work is in the middle of the domain."""
    edges = np.linspace(0, 1, p + 1)
    work = np.clip(edges[1:], 0.38, 0.62) - np.clip(edges[:-1], 0.38, 0.62)
    return 30.0 * work / work.sum() + 0.01


def taken_as_they_have_time(p):
    """The same work, of which a few ranks get most, others at each scale."""
    work = np.full(p, 0.2)
    work[np.random.default_rng(p).permutation(p)[: max(p // 3, 1)]] = 5.0
    return work


def render(seconds):
    return {"app->main->render": {"visits": lambda p: 10, "time_exclusive": seconds}}


def imbalances(plan, scales, *, crowded):
    entries = diagnose(plan, scales, crowded=crowded).statements
    return [entry for entry in entries if entry.kind == "imbalance" and entry.name == "render"]


@pytest.mark.parametrize("scales", [SCALES, (1, 2, 4, 8)])
def test_work_in_the_same_blocks_at_all_scales_is_named_on_shared_cores(scales):
    (statement,) = imbalances(render(block_work), scales, crowded=True)

    assert statement.status == "unclear"  # times on shared cores
    assert "the same part of the ranks has it at p = " in statement.text


def test_the_ranks_that_have_most_of_the_work_are_listed():
    (statement,) = imbalances(render(block_work), (1, 2, 4, 8), crowded=True)

    assert statement.ranks == "ranks 3, 4"
    assert statement.text.startswith("ranks 3, 4 have ")


def test_work_that_ranks_take_as_they_have_time_is_none():
    assert imbalances(render(taken_as_they_have_time), SCALES, crowded=True) == []


def test_functions_that_balance_each_other_are_none():
    plan = render(block_work) | {
        "app->main->fill": {
            "visits": lambda p: 10,
            "time_exclusive": lambda p: block_work(p).max() - block_work(p) + 1.0,
        }
    }

    assert imbalances(plan, SCALES, crowded=True) == []


def test_work_of_a_single_rank_is_left_to_the_rules_about_one_rank():
    plan = render(lambda p: np.where(np.arange(p) == p // 3, 30.0, 0.01))

    texts = [entry.text for entry in imbalances(plan, SCALES, crowded=True)]
    assert [text for text in texts if "the same part of the ranks" in text] == []


def test_milliseconds_are_noise():
    plan = {path: dict(values) for path, values in render(block_work).items()}
    plan["app->main->render"]["time_exclusive"] = lambda p: 1e-3 * block_work(p)
    base = {"app": {"visits": lambda p: 1, "time": lambda p: 1.0}}

    entries = diagnose(plan, SCALES, crowded=True, base=base).statements
    assert [entry for entry in entries if entry.kind == "imbalance"] == []


@pytest.mark.parametrize(("scales", "status"), [((3, 4, 6, 8), "warning"), ((4, 6, 8), "unclear")])
def test_two_pairs_of_runs_that_agree_are_certain_on_free_cores(scales, status):
    """3 and 6 ranks, and 4 and 8."""
    found = imbalances(render(block_work), scales, crowded=False)

    (statement,) = [entry for entry in found if "the same part of the ranks" in entry.text]
    assert statement.status == status
    assert statement.run == (None if status == "warning" else "p = 16")
