"""One process at a time makes the runs of a campaign."""

import os
import subprocess
import sys
import threading

import pytest

from insitu.campaign.lock import RunsLock, find_lock_holder
from insitu.errors import CampaignError


def test_second_one_is_told_who_has_the_turn(tmp_path):
    with RunsLock(str(tmp_path)) as turn:
        turn.say("p=4")

        with pytest.raises(CampaignError, match=rf"already \(pid {os.getpid()} .*: p=4\)"):
            RunsLock(str(tmp_path))
        assert find_lock_holder(str(tmp_path)).endswith("p=4")
    assert find_lock_holder(str(tmp_path)) == ""


def test_who_waits_gets_it_when_the_other_is_done(tmp_path):
    first, told = RunsLock(str(tmp_path)), threading.Event()

    def leave() -> None:
        told.wait()
        first.close()

    other = threading.Thread(target=leave)
    other.start()
    with RunsLock(str(tmp_path), waiting=lambda who: told.set()):
        assert told.is_set()
    other.join()


def test_run_that_outlives_who_began_it_keeps_the_turn(tmp_path):
    turn = RunsLock(str(tmp_path))
    wait = [sys.executable, "-c", "input()"]
    run = subprocess.Popen(wait, stdin=subprocess.PIPE, pass_fds=[turn.descriptor])
    os.close(turn.descriptor)

    assert find_lock_holder(str(tmp_path))
    run.communicate(b"\n")

    assert not find_lock_holder(str(tmp_path))
