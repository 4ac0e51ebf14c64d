"""One process at a time makes the runs of a campaign."""

import os
import re
import socket
import stat
import subprocess
import sys
import threading

import pytest

from insitu.campaign.layout import RUNS_LOCK
from insitu.campaign.lock import RunsLock, find_lock_holder, peek_activity
from insitu.errors import CampaignError


def test_a_second_process_learns_who_holds_the_lock(tmp_path):
    with RunsLock(str(tmp_path)) as lock:
        lock.describe("p=4")

        with pytest.raises(
            CampaignError, match=rf"process \(pid {os.getpid()} .*: p=4\) is already"
        ):
            RunsLock(str(tmp_path))
        assert find_lock_holder(str(tmp_path)).endswith("p=4")
    assert find_lock_holder(str(tmp_path)) == ""


def test_a_waiting_process_gets_the_lock_when_it_is_released(tmp_path):
    first, is_waiting = RunsLock(str(tmp_path)), threading.Event()

    def leave() -> None:
        is_waiting.wait()
        first.close()

    other = threading.Thread(target=leave)
    other.start()
    with RunsLock(str(tmp_path), waiting=lambda holder: is_waiting.set()):
        assert is_waiting.is_set()
    other.join()


def test_a_run_that_outlives_its_starter_keeps_the_lock(tmp_path):
    lock = RunsLock(str(tmp_path))
    wait = [sys.executable, "-c", "input()"]
    run = subprocess.Popen(wait, stdin=subprocess.PIPE, pass_fds=[lock.descriptor])
    os.close(lock.descriptor)

    assert find_lock_holder(str(tmp_path))
    run.communicate(b"\n")

    assert not find_lock_holder(str(tmp_path))


def test_a_new_campaign_and_its_lock_belong_to_the_owner_alone(tmp_path):
    campaign = tmp_path / "new.insitu"

    with RunsLock(str(campaign)):
        assert stat.S_IMODE(campaign.stat().st_mode) == 0o700
        assert stat.S_IMODE((campaign / RUNS_LOCK).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("content", "shown"), [(b"p\xff4\n", "p\ufffd4"), (b" \n", "just starting")]
)
def test_a_damaged_or_empty_lock_still_has_a_holder(tmp_path, content, shown):
    with RunsLock(str(tmp_path)) as lock:
        os.ftruncate(lock.descriptor, 0)
        os.pwrite(lock.descriptor, content, 0)

        assert find_lock_holder(str(tmp_path)) == shown
        with pytest.raises(CampaignError, match=re.escape(f"another process ({shown})")):
            RunsLock(str(tmp_path))


def test_the_activity_is_what_the_holder_has_written_as_long_as_it_lives(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    host = socket.gethostname()
    activities = {
        f"pid {os.getpid()} on host {host}: p=4, n: 2\n": "p=4, n: 2",
        f"pid {os.getpid()} on host {host}\n": "",
        f"pid {gone.pid} on host {host}: p=4\n": "",
        f"pid {gone.pid} on host x{host}: p=4\n": "p=4",  # nobody here knows
        "": "",
    }

    assert peek_activity(str(tmp_path)) == ""
    for text, activity in activities.items():
        (tmp_path / RUNS_LOCK).write_text(text)
        assert peek_activity(str(tmp_path)) == activity
    (tmp_path / RUNS_LOCK).write_bytes(b"pid 1 on host elsewhere: p\xff")
    assert peek_activity(str(tmp_path)) == "p\ufffd"
