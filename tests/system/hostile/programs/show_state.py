"""Print the state of a process: `show_state.py PID`, or `self` for this one, which is a child."""

import os
import re
import sys
import time
from pathlib import Path

STATUS = ("Umask", "SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Seccomp", "Cpus_allowed")
# Different in any two runs, or set by the launcher with numbers of its own.
CHANGING = re.compile(rb"(PMI|PMIX|HYDRA|HYDI|MPI|OMPI|PRTE|INSITU_|SHLVL|_=|OLDPWD)")

who = sys.argv[1]
folder = Path("/proc") / who
# The program that starts this one blocks signals and holds a pipe until it waits: "S", sleeping.
deadline = time.monotonic() + 10
while who != "self" and time.monotonic() < deadline:
    if "\nState:\tS" in (folder / "status").read_text():
        break
    time.sleep(0.001)
for line in (folder / "status").read_text().splitlines():
    name, _, value = line.partition(":")
    if name in STATUS:
        print(who == "self", name, value.strip())
print((folder / "limits").read_text())
print((folder / "personality").read_text())
print(os.readlink(folder / "cwd"))
if who == "self":
    for name, value in sorted(os.environb.items()):
        is_ours = name.startswith(b"INSITU_") and name != b"INSITU_TABLES"
        if is_ours or not CHANGING.match(name):
            print(name, value)
    print([name for name in sys.modules if "insitu" in name and "editable" not in name])


def open_files() -> set[tuple[int, str]]:
    files = set()
    for number in os.listdir(folder / "fd"):
        try:
            files.add((int(number), os.readlink(folder / "fd" / number)))
        except OSError:
            continue
    return files


# A thread that starts reads the map of its memory: files that stay are those of two moments.
staying = open_files()
time.sleep(0.1)
for number, target in sorted(staying & open_files()):
    # The names of segments, sockets and pipes are different each time.
    print(number, re.sub(r"/dev/shm/.*|\d+", "N", target))
