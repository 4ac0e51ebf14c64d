"""What a disk damages is reported; models are fitted again, and no value changes silently."""

import os
import sqlite3

import numpy as np
import pytest

from insitu.campaign import vectors
from insitu.campaign.checksums import checksum_of
from insitu.campaign.model_tables import read_classes
from insitu.campaign.store import open_store
from insitu.errors import CampaignError
from insitu.workflows.integrity import check_campaign
from insitu.workflows.refit import refit_campaign
from insitu.workflows.runs import list_runs
from tests.stress.bit_flips import flip_bits, flip_journal_bits, make_campaign
from tests.support.campaigns import heat_campaign, heat_run


@pytest.fixture
def campaign(tmp_path):
    return make_campaign(tmp_path)


def change(campaign, statement):
    with sqlite3.connect(campaign / "campaign.db") as connection:
        connection.execute(statement)


def states(campaign):
    return {check.name: check.state for check in check_campaign(str(campaign))}


def test_no_flipped_bit_changes_a_value_or_ends_in_a_traceback(campaign):
    outcomes = flip_bits(campaign, 60, 3)

    assert outcomes["CHANGED"] == 0
    assert outcomes.total() == 60


def test_no_flipped_bit_of_the_journal_is_silent(tmp_path):
    outcomes = flip_journal_bits(tmp_path, 100, 3)

    assert outcomes["CHANGED"] == 0
    assert outcomes.total() == 100


def test_a_damaged_model_counts_as_absent_until_it_is_fitted_again(campaign):
    with open_store(str(campaign)) as store:
        before = store.models()
    change(campaign, "UPDATE model SET body = substr(body, 2) WHERE rowid = 3")
    change(campaign, "UPDATE model SET unit = 'ms' WHERE metric = 'time'")

    with open_store(str(campaign)) as store:
        after = store.models()
        assert 0 < len(after.models) < len(before.models)
        assert [finding.code for finding in after.findings][-1] == "models-damaged"
    assert states(campaign)["models"] == "limited"

    refit_campaign(str(campaign))
    with open_store(str(campaign)) as store:
        assert len(store.models().models) == len(before.models)
    assert set(states(campaign).values()) == {"ok"}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE class_mean SET means = zeroblob(8) WHERE rowid = 2",
        "DELETE FROM class_series WHERE metric = 'time'",
        "UPDATE campaign SET value = '[]' WHERE name = 'class basis'",
    ],
)
def test_damaged_class_means_are_reported_and_made_again(campaign, statement):
    change(campaign, statement)
    assert states(campaign)["models"] == "limited"

    refit_campaign(str(campaign))

    assert set(states(campaign).values()) == {"ok"}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE run SET parameters = replace(parameters, '16.0', '17.0')",
        "DELETE FROM run WHERE ordinal = 2",
        "UPDATE run SET state = 'partial' WHERE ordinal = 2",
    ],
)
def test_a_damaged_or_missing_run_is_reported(campaign, statement):
    change(campaign, statement)

    with open_store(str(campaign)) as store, pytest.raises(CampaignError, match="damaged"):
        store.runs()
    assert states(campaign)["runs"] == "missing"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM vec WHERE run = 2 AND metric = 1",
        "UPDATE callpath SET text = 'main->salve' WHERE text = 'main->solve'",
        "UPDATE metric SET unit = 'ms' WHERE name = 'time'",
    ],
)
def test_damaged_values_are_reported(campaign, statement):
    change(campaign, statement)

    with open_store(str(campaign)) as store, pytest.raises(CampaignError, match="damaged"):
        for run in store.runs():
            store.table(run.id)
    assert "missing" in states(campaign).values()


def test_runs_are_listed_where_values_are_damaged(tmp_path):
    campaign = tmp_path / "heat.insitu"
    with heat_campaign(str(campaign), 1, (4, 8)) as store:
        store.add_run(*heat_run(16, queued=0.4))
    assert [run.findings for run in list_runs(str(campaign))][-1]
    change(campaign, "UPDATE vec SET blob = x'00'")

    assert [run.row.size for run in list_runs(str(campaign))] == [4, 8, 16]


def test_looking_changes_nothing(campaign):
    before = (campaign / "campaign.db").read_bytes()

    check_campaign(str(campaign))

    assert (campaign / "campaign.db").read_bytes() == before
    assert not os.path.exists(campaign / "aggregator.journal")


def test_damaged_classes_of_the_second_format_are_left_out_and_counted(campaign):
    row = (
        "main",
        "time",
        '[["p", 4.0]]',
        0,
        '["a", "b"]',
        vectors.pack_labels(np.array([0, 1, 1, 0])),
    )
    with open_store(str(campaign)) as store, store._writing() as connection:
        connection.execute("DELETE FROM cluster")
        before, n_damaged = read_classes(connection, "[]")
        insert = "INSERT OR REPLACE INTO cluster VALUES (?, ?, ?, ?, ?, ?, ?)"
        connection.execute(insert, (*row, checksum_of(row)))
        intact, _ = read_classes(connection, "[]")
        connection.execute(insert, (*row, checksum_of(row[1:])))

        assert read_classes(connection, "[]") == (before, n_damaged + 1)
    (classes,) = set(map(str, intact)) - set(map(str, before))
    assert "'time'" in classes and "('a', 'b')" in classes
