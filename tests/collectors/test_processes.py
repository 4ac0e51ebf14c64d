"""The kernel tells of the end of processes."""

import select
import subprocess
import sys

from insitu.collectors.processes import Processes


def test_the_end_of_a_process_is_reported_once_however_it_ends():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    processes = Processes()
    processes.watch([child.pid, child.pid, 1 << 30])
    (file,) = processes.descriptors()
    poll = select.poll()
    poll.register(file, select.POLLIN)
    before = poll.poll(0)

    child.kill()
    after = [ready for ready, _ in poll.poll(20_000)]
    processes.forget(after)
    processes.watch([child.pid])

    assert (before, after, processes.descriptors()) == ([], [file], [])
    child.communicate()
