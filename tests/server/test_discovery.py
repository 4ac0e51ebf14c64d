"""Agents find the aggregator, and other users cannot pretend to be it."""

import errno
import fcntl
import os
import socket
import stat
import subprocess
import tempfile

import pytest

from insitu.errors import CampaignError
from insitu.private_files import write_private_file
from insitu.server.discovery import (
    MAX_SOCKET_PATH,
    WriterLock,
    load_token,
    make_private_directory,
    read_private_file,
    socket_directory,
    socket_paths,
)


def test_one_process_holds_the_lock(tmp_path):
    with (
        WriterLock(str(tmp_path)),
        pytest.raises(CampaignError, match=rf"another aggregator \(pid {os.getpid()} on host"),
    ):
        WriterLock(str(tmp_path))


def test_a_released_lock_can_be_acquired_again(tmp_path):
    with WriterLock(str(tmp_path)):
        pass

    WriterLock(str(tmp_path)).close()


def test_a_full_disk_does_not_hide_behind_the_lock(tmp_path, monkeypatch):
    """The file only names its holder; what is written next says that the disk is full."""

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", fail)

    with (
        WriterLock(str(tmp_path)),
        pytest.raises(CampaignError, match=r"another aggregator \(just starting\)"),
    ):
        WriterLock(str(tmp_path))


def test_without_locks_a_full_disk_is_an_error_that_says_so(tmp_path, monkeypatch):
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", fail)
    monkeypatch.setattr(WriterLock, "_lock", lambda _: None)

    with pytest.raises(CampaignError, match=r"cannot be changed \(aggregator.lock: No space left"):
        WriterLock(str(tmp_path))


def test_the_token_is_the_same_at_every_start(tmp_path):
    token = load_token(str(tmp_path))

    assert len(token) == 64
    assert load_token(str(tmp_path)) == token


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_secret_that_others_can_read_is_refused(tmp_path, mode):
    path = str(tmp_path / "secret")
    write_private_file(path, "word")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    os.chmod(path, mode)

    with pytest.raises(CampaignError, match="mode 0600"):
        read_private_file(path)


def test_a_secret_behind_a_link_is_refused(tmp_path):
    write_private_file(str(tmp_path / "secret"), "word")
    os.symlink(tmp_path / "secret", tmp_path / "link")

    with pytest.raises(CampaignError):
        read_private_file(str(tmp_path / "link"))


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_directory_that_others_can_enter_is_refused(tmp_path, mode):
    directory = tmp_path / "sockets"
    directory.mkdir()
    directory.chmod(mode)

    with pytest.raises(CampaignError, match="mode 0700"):
        make_private_directory(str(directory))


def test_a_link_instead_of_a_directory_is_refused(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with pytest.raises(CampaignError, match="mode 0700"):
        make_private_directory(str(tmp_path / "link"))


def test_sockets_are_in_the_runtime_directory():
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        assert socket_directory({"XDG_RUNTIME_DIR": short}) == f"{short}/insitu"


def test_sockets_are_in_tmp_if_the_runtime_directory_is_too_long_or_absent(tmp_path):
    deep = tmp_path / ("x" * 100)
    deep.mkdir()

    for environment in ({"XDG_RUNTIME_DIR": str(deep)}, {"XDG_RUNTIME_DIR": "/nowhere"}, {}):
        assert socket_directory(environment) == f"/tmp/insitu-{os.getuid()}"


def test_a_name_that_somebody_else_took_is_replaced_by_another(tmp_path, monkeypatch):
    user = 2_000_000 + os.getpid()
    monkeypatch.setattr(os, "getuid", lambda: user)
    taken = f"/tmp/insitu-{user}"
    os.symlink(tmp_path, taken)

    try:
        directory = socket_directory({})
    finally:
        os.remove(taken)

    assert directory.startswith(f"{taken}-")
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    os.rmdir(directory)


def test_every_path_to_a_campaign_gives_the_same_sockets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    directory = "/run/user/1000/insitu"

    paths = socket_paths("a", directory)

    assert socket_paths(str(tmp_path / "b"), directory) == paths
    assert socket_paths("c", directory) != paths
    assert max(map(len, paths)) <= MAX_SOCKET_PATH


def test_without_locks_a_living_process_keeps_its_claim_and_a_dead_one_does_not(
    tmp_path, monkeypatch
):
    def flock(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = tmp_path / "aggregator.lock"
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        lock.write_text(f"pid {sleeper.pid} on host {socket.gethostname()}\n")
        with pytest.raises(CampaignError, match=f"pid {sleeper.pid}"):
            WriterLock(str(tmp_path))
    finally:
        sleeper.kill()
        sleeper.wait()

    WriterLock(str(tmp_path)).close()
