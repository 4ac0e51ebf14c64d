"""The length of a tick, on machines that interrupt a program at any time."""

import shutil
import subprocess
import sys

import pytest

from tests.collectors.measured import measure

# Each fifth reading of the clock loses its core, as it may on a machine with other programs.
INTERRUPTED = r"""
    #define _GNU_SOURCE
    #include <stdlib.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>
    static int readings;
    int clock_gettime(clockid_t clock, struct timespec *now) {
      const struct timespec pause = {0, 2000000};
      const char *first = getenv("FIRST_PAUSE");
      if (clock == CLOCK_MONOTONIC && first && readings++ % 5 == atoi(first))
        nanosleep(&pause, NULL);
      return (int)syscall(SYS_clock_gettime, clock, now);
    }
"""
PROGRAM = """
    import time
    time.sleep(0.3)
    print("ended")
"""


@pytest.mark.native
def test_ticks_have_one_length_wherever_a_program_is_interrupted(tmp_path, shared, monkeypatch):
    (tmp_path / "interrupted.c").write_text(INTERRUPTED)
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    library = tmp_path / "interrupted.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, tmp_path / "interrupted.c"], check=True
    )
    monkeypatch.setenv("LD_PRELOAD", str(library))
    lengths = []
    for first in range(5):
        monkeypatch.setenv("FIRST_PAUSE", str(first))
        table = measure(tmp_path, sys.executable, PROGRAM, shared)
        if not table.header.is_tsc:
            pytest.skip("Linux does not use the time stamp counter as its clock here")
        lengths.append(table.tick_s())
    assert max(lengths) < 1.002 * min(lengths)
