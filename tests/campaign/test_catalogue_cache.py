"""Lists of runs are read once per state of the file, and the values of runs are dropped again."""

from pathlib import Path

import pytest

from insitu.campaign import catalogue, checksums
from insitu.campaign.load import TableCache
from insitu.campaign.store import open_store
from insitu.entities import Finding
from tests.support.campaigns import heat_run


def test_runs_are_read_again_when_any_process_has_changed_them(tmp_path: Path) -> None:
    path = str(tmp_path / "c.insitu")
    with open_store(path, create=True) as ours, open_store(path) as theirs:
        ours.add_run(*heat_run(2))
        (first,) = ours.runs()
        assert ours.runs()[0] is first

        theirs.add_run(*heat_run(4))
        assert len(ours.runs()) == 2
        ours.add_findings(first.id, [Finding("a", "b")])
        assert [finding.code for finding in ours.runs()[0].findings] == ["a"]
        assert [finding.code for finding in theirs.runs()[0].findings] == ["a"]


def test_of_own_changes_only_the_changed_runs_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[object] = []

    def is_intact(values: list[object], checksum: bytes | None) -> bool:
        checked.append(values[0])
        return checksums.is_intact(values, checksum)

    monkeypatch.setattr(catalogue, "is_intact", is_intact)
    with open_store(str(tmp_path / "c.insitu"), create=True) as store:
        for repetition in range(3):
            store.add_run(*heat_run(2, repetition))
        before = store.runs()
        checked.clear()

        store.add_run(*heat_run(4))
        store.add_findings(before[1].id, [Finding("a", "b")])
        checked.clear()
        after = store.runs()

    assert checked == [before[1].id, after[3].id]
    assert (after[0], after[2]) == (before[0], before[2])
    assert [finding.code for finding in after[1].findings] == ["a"]


def test_a_change_that_was_undone_is_not_seen(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "c.insitu"), create=True) as store:
        store.add_run(*heat_run(2))

        with pytest.raises(RuntimeError), store._writing() as connection:
            connection.execute("DELETE FROM run")
            connection.execute("DELETE FROM checksum")
            assert store.runs() == []
            raise RuntimeError

        assert len(store.runs()) == 1


def test_runs_have_their_common_values_in_memory_once(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "c.insitu"), create=True) as store:
        for repetition in range(2):
            store.add_run(*heat_run(2, repetition))
        first, second = store.runs()

    assert first.configuration is second.configuration
    assert first.exit_status is second.exit_status
    assert first.key.parameters is second.key.parameters


def test_values_that_no_refit_needs_again_make_room(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "c.insitu"), create=True) as store:
        runs = []
        for p in (2, 4):
            record, table = heat_run(p)
            store.add_run(record, table)
            runs.append(record.id)
        cache = TableCache(store, store.table_bytes(runs[1]))

        kept = cache.load(runs[1])
        on_disk = cache.load(runs[0])
        cache.drop_others({runs[1]})
        assert cache.load(runs[1]) is kept
        assert kept.size == 4
        cache.drop_others(())

        assert cache.load(runs[0]) is cache.load(runs[0])
        assert type(next(iter(on_disk.values.values()))) is not type(
            next(iter(cache.load(runs[0]).values.values()))
        )
