"""Numbers of ranks that a program accepts, and how they go on."""

import json

import numpy as np
import pytest

from insitu.campaign.store import open_store
from insitu.entities import CallPath
from insitu.modeling.rank_counts import (
    find_refused,
    list_rank_counts_between,
    next_accepted,
    next_rank_counts,
)
from insitu.workflows.advise import advise_runs
from insitu.workflows.import_ import import_measurements
from insitu.workflows.rank_levels import choose_rank_levels

PATH = CallPath.parse("main->exchange")


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ([8, 27, 64], [125, 216]),
        ([1, 8, 27], [64, 125]),
        ([8, 64, 512], [4096, 32768]),
        ([4, 9, 16, 25], [36, 49]),
        ([4, 16, 64], [256, 1024]),
        ([4, 16], [64, 256]),
        ([8, 64], [125, 216]),
        ([2, 4, 8], [16, 32]),
        ([3, 9, 27], [81, 243]),
        ([6, 12, 18], [36, 72]),
        ([10], [20, 40]),
        ([1], []),
    ],
)
def test_numbers_of_ranks_go_on_as_they_began(measured, expected):
    assert next_rank_counts(measured, 2, 1e6) == expected


@pytest.mark.parametrize(
    ("measured", "wanted", "expected"),
    [
        ([1, 2, 3, 4, 6, 8], 11, 12),
        ([1, 2, 3, 4, 6, 8], 12, 12),
        ([12, 24, 36], 50, 72),
        ([2, 3, 5], 7, 7),
        ([2, 4, 8], 12, 16),
        ([8, 27, 64], 96, 125),
    ],
)
def test_the_number_of_ranks_of_the_next_run_has_the_factors_of_the_measured_ones(
    measured, wanted, expected
):
    assert next_accepted(measured, wanted) == expected


def test_no_number_of_ranks_exceeds_the_end():
    assert next_rank_counts([8, 27, 64], 5, 300.0) == [125, 216]


@pytest.mark.parametrize(
    ("measured", "between"),
    [
        ([8, 64, 216], [27, 125]),
        ([8, 64, 512], []),
        ([2, 16], [4, 8]),
        ([4, 64], [16]),
        ([6, 30], []),
        ([8], []),
    ],
)
def test_numbers_of_ranks_that_were_left_out_have_the_property_of_the_others(measured, between):
    assert list_rank_counts_between(measured) == between


@pytest.mark.parametrize(
    ("measured", "refused"),
    [
        ([1, 8, 27], [2, 9, 16]),
        ([4, 16, 64], [2, 8, 27]),
        ([2, 4, 8], [9, 27]),
        ([6, 10], []),
        ([6, 12, 18], [2, 8, 9, 16, 27]),
        ([6, 10, 14], [9, 27]),
    ],
)
def test_numbers_without_the_property_of_all_measured_ones_are_refused(measured, refused):
    named = (1, 2, 8, 9, 16, 27)

    found = find_refused(measured, named)

    assert set(refused) <= set(found)
    assert 1 not in found
    assert not set(measured) & set(found)


def test_a_design_has_only_cubes_and_every_class_at_five_of_them(tmp_path):
    campaign = cube_campaign(tmp_path, (2, 3, 4))

    chosen = choose_rank_levels(campaign, (8.0, 16.0, 125.0))

    # Inner ranks and those on faces exist from 27 ranks on.
    assert chosen.refused == (16.0,)
    assert chosen.levels == (8.0, 125.0, 216.0, 343.0)
    assert list(chosen.added) == [216, 343]


def cube_campaign(folder, sides):
    """A campaign of k³ ranks whose corners, edges, faces and inner ranks differ."""
    campaign = str(folder / "cube.insitu")
    lines = []
    for k in sides:
        position = np.indices((k, k, k)).reshape(3, -1)
        partners = ((position == 0) | (position == k - 1)).sum(axis=0)
        for metric, unit, values in (
            ("visits", "1", 26 - 5 * partners),
            ("time", "s", 1 + 0.1 * partners),
            ("time_exclusive", "s", 1 + 0.1 * partners),
        ):
            row = {"callpath": str(PATH), "metric": metric, "unit": unit, "params": {"p": k**3}}
            lines.append(row | {"repetition": 0, "ranks": values.tolist()})
    source = folder / "cube.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in lines))
    import_measurements(campaign, str(source))
    return campaign


def test_advise_proposes_cubes_for_a_program_that_was_measured_on_cubes(tmp_path):
    campaign = cube_campaign(tmp_path, (2, 3, 4))

    proposals = advise_runs(campaign, count=4)

    assert [dict(run.point.values)["p"] for run in proposals.runs] == [125.0, 216.0, 343.0]
    with open_store(campaign) as store:
        assert {run.key.size for run in store.runs()} == {8, 27, 64}
