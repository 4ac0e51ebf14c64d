"""The journal: what was kept is read again, whatever happened to the file behind it."""

import os
import resource

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.errors import CampaignError, WireError
from insitu.server.journal import FILE, Journal
from tests.support.nodes import ModelNode


def keep(journal, run, messages):
    journal.append(run, messages)
    journal.sync()


def words(run):
    return ModelNode("n0", [0, 1], 2, run=run).messages()


def fill(campaign, *runs):
    with Journal(str(campaign)) as journal:
        list(journal.replay())
        for run in runs:
            keep(journal, run, words(run))


def read(campaign):
    with Journal(str(campaign)) as journal:
        return list(journal.replay())


A, B, C = ("0" * 31 + digit for digit in "abc")


def test_what_was_kept_is_read_again(tmp_path):
    fill(tmp_path, A, B)

    assert read(tmp_path) == [*words(A), *words(B)]


def test_more_can_be_kept_after_reading(tmp_path):
    fill(tmp_path, A)
    fill(tmp_path, B)

    assert read(tmp_path) == [*words(A), *words(B)]


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 4_000), garbage=st.binary(max_size=30))
def test_whole_records_before_a_torn_tail_are_read(tmp_path_factory, cut, garbage):
    campaign = tmp_path_factory.mktemp("journal")
    fill(campaign, A, B)
    path = campaign / FILE
    whole = path.read_bytes()
    torn = whole[: max(len(whole) - cut, 8)]
    path.write_bytes(torn + (garbage if cut else b""))

    found = read(campaign)

    expected = [*words(A), *words(B)]
    assert found == expected[: len(found)]
    assert cut or found == expected


def test_a_record_is_kept_after_a_torn_tail(tmp_path):
    fill(tmp_path, A)
    with open(tmp_path / FILE, "ab") as file:
        file.write(b"torn")
    fill(tmp_path, B)

    assert read(tmp_path) == [*words(A), *words(B)]


def test_a_damaged_byte_hides_what_is_behind_it(tmp_path):
    fill(tmp_path, A, B)
    path = tmp_path / FILE
    data = bytearray(path.read_bytes())
    data[len(data) // 2 + 40] ^= 1
    path.write_bytes(data)

    assert read(tmp_path) == words(A)


def test_the_journal_is_emptied_with_its_last_run(tmp_path):
    with Journal(str(tmp_path)) as journal:
        for run in (A, B):
            keep(journal, run, words(run))
        journal.forget(A)
        journal.forget(B)

        assert os.path.getsize(tmp_path / FILE) == 0
    assert not (tmp_path / FILE).exists()


def test_runs_that_are_needed_stay_when_others_are_dropped(tmp_path):
    with Journal(str(tmp_path)) as journal:
        for run in (A, B, C):
            keep(journal, run, words(run))
        before = os.path.getsize(tmp_path / FILE)
        journal.forget(A)
        journal.forget(C)
        keep(journal, A, words(A))

        assert os.path.getsize(tmp_path / FILE) < before
    assert read(tmp_path) == [*words(B), *words(A)]


def test_a_journal_of_another_version_is_not_touched(tmp_path):
    (tmp_path / FILE).write_bytes(b"INSJ0002 something newer")

    with pytest.raises(CampaignError, match="update insitu"):
        read(tmp_path)
    assert (tmp_path / FILE).read_bytes() == b"INSJ0002 something newer"


def test_what_cannot_be_kept_leaves_the_journal_as_it_was(tmp_path):
    fill(tmp_path, A)
    with Journal(str(tmp_path)) as journal:
        list(journal.replay())
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(tmp_path / FILE) + 50, hard))
        try:
            with pytest.raises(CampaignError, match="make room"):
                keep(journal, B, words(B))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        keep(journal, C, words(C))

    assert read(tmp_path) == [*words(A), *words(C)]


def test_a_message_that_cannot_be_written_is_refused(tmp_path):
    node = ModelNode("\udcff", [0], 1)
    with Journal(str(tmp_path)) as journal, pytest.raises(WireError):
        keep(journal, A, [node.hello()])
