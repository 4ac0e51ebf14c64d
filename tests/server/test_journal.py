"""The journal returns everything that was synced, even if the file is damaged after that."""

import os
import resource

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.campaign.layout import AGGREGATOR_JOURNAL
from insitu.errors import CampaignError, WireError
from insitu.server.journal import Journal
from tests.support.nodes import ModelNode


def append(journal, run, messages):
    journal.append(run, messages)
    journal.sync()


def messages_of(run):
    return ModelNode("n0", [0, 1], 2, run=run).messages()


def fill(campaign, *runs):
    with Journal(str(campaign)) as journal:
        list(journal.replay())
        for run in runs:
            append(journal, run, messages_of(run))


def read(campaign):
    with Journal(str(campaign)) as journal:
        return list(journal.replay())


A, B, C = ("0" * 31 + digit for digit in "abc")


def test_appended_messages_are_read_again(tmp_path):
    fill(tmp_path, A, B)

    assert read(tmp_path) == [*messages_of(A), *messages_of(B)]


def test_messages_can_be_appended_after_a_replay(tmp_path):
    fill(tmp_path, A)
    fill(tmp_path, B)

    assert read(tmp_path) == [*messages_of(A), *messages_of(B)]


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 4_000), garbage=st.binary(max_size=30))
def test_intact_records_before_a_torn_record_are_read(tmp_path_factory, cut, garbage):
    campaign = tmp_path_factory.mktemp("journal")
    path = campaign / AGGREGATOR_JOURNAL
    expected = [*messages_of(A), *messages_of(B)]
    ends = []  # of each record
    with Journal(str(campaign)) as journal:
        list(journal.replay())
        for i, message in enumerate(expected):
            append(journal, A if i < len(messages_of(A)) else B, [message])
            ends.append(path.stat().st_size)
    whole = path.read_bytes()
    torn = whole[: max(len(whole) - cut, 8)]
    path.write_bytes(torn + (garbage if cut else b""))

    messages = read(campaign)

    assert messages == expected[: sum(end <= len(torn) for end in ends)]


def test_a_torn_record_is_replaced_by_the_next(tmp_path):
    fill(tmp_path, A)
    with open(tmp_path / AGGREGATOR_JOURNAL, "ab") as file:
        file.write(b"torn")
    fill(tmp_path, B)

    assert read(tmp_path) == [*messages_of(A), *messages_of(B)]


def damage(campaign, position, bit=0):
    path = campaign / AGGREGATOR_JOURNAL
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)
    return bytes(data)


def test_the_replay_continues_behind_a_damaged_record_and_keeps_the_file(tmp_path):
    fill(tmp_path, A, B, C)
    size = os.path.getsize(tmp_path / AGGREGATOR_JOURNAL)
    data = damage(tmp_path, size // 2)

    with Journal(str(tmp_path)) as journal:
        messages = list(journal.replay())

        (copy,) = tmp_path.glob(f"{AGGREGATOR_JOURNAL}.damaged-*")
        assert copy.read_bytes() == data
        assert str(copy) in journal.damage

    of_b = messages_of(B)
    assert messages[: len(messages_of(A))] == messages_of(A)
    assert messages[-len(messages_of(C)) :] == messages_of(C)
    between = messages[len(messages_of(A)) : -len(messages_of(C))]
    assert between == of_b[: len(between)] and len(between) < len(of_b)
    assert read(tmp_path) == messages


def test_the_journal_is_emptied_when_its_last_run_is_dropped(tmp_path):
    with Journal(str(tmp_path)) as journal:
        for run in (A, B):
            append(journal, run, messages_of(run))
        journal.drop(A)
        journal.drop(B)

        assert os.path.getsize(tmp_path / AGGREGATOR_JOURNAL) == 0
    assert not (tmp_path / AGGREGATOR_JOURNAL).exists()


def test_the_other_runs_stay_when_a_run_is_dropped(tmp_path):
    with Journal(str(tmp_path)) as journal:
        for run in (A, B, C):
            append(journal, run, messages_of(run))
        before = os.path.getsize(tmp_path / AGGREGATOR_JOURNAL)
        journal.drop(A)
        journal.drop(C)
        append(journal, A, messages_of(A))

        assert os.path.getsize(tmp_path / AGGREGATOR_JOURNAL) < before
    assert read(tmp_path) == [*messages_of(B), *messages_of(A)]


def test_a_journal_of_another_version_is_left_unchanged(tmp_path):
    (tmp_path / AGGREGATOR_JOURNAL).write_bytes(b"INSJ0002 something newer")

    with pytest.raises(CampaignError, match="update insitu"):
        read(tmp_path)
    assert (tmp_path / AGGREGATOR_JOURNAL).read_bytes() == b"INSJ0002 something newer"


def test_a_failed_append_leaves_the_journal_unchanged(tmp_path):
    fill(tmp_path, A)
    with Journal(str(tmp_path)) as journal:
        list(journal.replay())
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (os.path.getsize(tmp_path / AGGREGATOR_JOURNAL) + 50, hard)
        )
        try:
            with pytest.raises(CampaignError, match="free some space"):
                append(journal, B, messages_of(B))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        append(journal, C, messages_of(C))

    assert read(tmp_path) == [*messages_of(A), *messages_of(C)]


def test_a_message_that_cannot_be_written_is_refused(tmp_path):
    node = ModelNode("\udcff", [0], 1)
    with Journal(str(tmp_path)) as journal, pytest.raises(WireError):
        append(journal, A, [node.hello()])


def test_after_a_failed_sync_the_same_messages_can_be_appended_again(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(28, "No space left on device")

    with Journal(str(tmp_path)) as journal:
        list(journal.replay())
        append(journal, A, messages_of(A))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(CampaignError, match="No space left"):
                append(journal, A, messages_of(A))
        append(journal, A, messages_of(A))

    assert read(tmp_path) == [*messages_of(A), *messages_of(A)]
