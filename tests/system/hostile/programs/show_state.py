"""Print the state of a process: `show_state.py PID`, or `self` for this one, which is a child."""

import os
import re
import sys
from pathlib import Path

STATUS = ("Umask", "SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Seccomp", "Cpus_allowed")
# Different in any two runs, or set by the launcher with numbers of its own.
CHANGING = re.compile(rb"(PMI|PMIX|HYDRA|HYDI|MPI|OMPI|PRTE|INSITU_|SHLVL|_=|OLDPWD)")

who = sys.argv[1]
folder = Path("/proc") / who
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
for number in sorted(os.listdir(folder / "fd"), key=int):
    try:
        target = os.readlink(folder / "fd" / number)
    except OSError:
        continue
    # The names of segments, sockets and pipes are different each time.
    print(number, re.sub(r"/dev/shm/.*|\d+", "N", target))
