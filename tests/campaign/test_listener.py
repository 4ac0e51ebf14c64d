"""The address of a listener, and whose word is believed."""

import errno
import fcntl
import json

import pytest

from insitu.campaign.listener import (
    ListenerAddress,
    LockState,
    find_address,
    load_address,
    lock_state,
    peek_address,
    remove_stale_address,
)

ADDRESS = ListenerAddress(endpoint="ipc:///run/a", token="t", boards="ipc:///run/b", pid=7)


def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_what_is_saved_is_loaded(tmp_path):
    path = str(tmp_path / "aggregator.json")

    ADDRESS.save(path)

    assert load_address(path) == find_address(path) == ADDRESS


def test_endpoint_and_token_are_enough_and_unknown_fields_are_ignored(tmp_path):
    text = json.dumps({"endpoint": "ipc://x", "token": "t", "curve": None, "newer": 1})

    path = write(tmp_path / "aggregator.json", text)

    assert load_address(path) == ListenerAddress("ipc://x", "t")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"endpoint": "x"}', '{"token": "x"}'])
def test_other_content_is_no_address(tmp_path, text):
    path = write(tmp_path / "aggregator.json", text)

    assert find_address(path) is None
    with pytest.raises(ValueError):
        load_address(path)


@pytest.mark.parametrize("mode", [0o660, 0o644, 0o606])
def test_an_address_that_others_can_access_is_not_trusted(tmp_path, mode):
    path = write(tmp_path / "aggregator.json", '{"endpoint": "x", "token": "t"}', mode)

    assert find_address(path) is None
    with pytest.raises(PermissionError, match="mode 0600"):
        load_address(path)


def test_a_link_is_not_followed(tmp_path):
    write(tmp_path / "real", '{"endpoint": "x", "token": "t"}')
    (tmp_path / "aggregator.json").symlink_to("real")

    assert find_address(str(tmp_path / "aggregator.json")) is None


def test_no_file_is_no_address(tmp_path):
    assert find_address(str(tmp_path / "aggregator.json")) is None


def test_only_a_free_lock_proves_that_an_address_is_stale(tmp_path):
    path, lock_path = str(tmp_path / "a.json"), str(tmp_path / "a.lock")
    ADDRESS.save(path)

    assert not remove_stale_address(path, lock_path, ADDRESS)  # no lock file: nothing is proven
    with open(lock_path, "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert lock_state(lock_path) is LockState.HELD
        assert not remove_stale_address(path, lock_path, ADDRESS)

    assert lock_state(lock_path) is LockState.FREE
    assert not remove_stale_address(path, lock_path, ListenerAddress("ipc:///run/c", "t"))
    assert remove_stale_address(path, lock_path, ADDRESS)
    assert find_address(path) is None


def test_a_file_system_without_locks_proves_nothing(tmp_path, monkeypatch):
    path, lock_path = str(tmp_path / "a.json"), str(tmp_path / "a.lock")
    ADDRESS.save(path)
    open(lock_path, "w", encoding="ascii").close()

    def flock(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)

    assert lock_state(lock_path) is LockState.UNSUPPORTED
    assert not remove_stale_address(path, lock_path, ADDRESS)


def test_whoever_only_looks_reads_an_address_that_is_not_private(tmp_path):
    path = tmp_path / "aggregator.json"
    assert peek_address(str(path)) is None

    ADDRESS.save(str(path))
    path.chmod(0o644)
    assert (peek_address(str(path)), find_address(str(path))) == (ADDRESS, None)

    path.write_text("{")
    assert peek_address(str(path)) is None
