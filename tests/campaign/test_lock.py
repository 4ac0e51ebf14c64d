"""One process at a time makes the runs of a campaign."""

import os
import subprocess
import sys
import threading

import pytest

from insitu.campaign.lock import RunsLock, find_lock_holder
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
