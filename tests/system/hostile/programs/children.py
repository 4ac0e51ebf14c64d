"""Children of every kind, and what they find in their environment."""

import os, subprocess, sys
from mpi4py import MPI

CODE = """
import os, sys
print(sorted(k for k in os.environ if k.startswith("INSITU_") and k != "INSITU_TABLES"))
print([k for k in sys.modules if k.startswith("insitu")], len(os.listdir("/proc/self/fd")))
def child(): return 1
for i in range(3): child()
"""
if MPI.COMM_WORLD.rank == 0:

    def show(what, text):
        print(what, text.strip(), flush=True)

    show("run", subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True).stdout)
    show(
        "kept",
        subprocess.run(
            [sys.executable, "-c", CODE], capture_output=True, text=True, close_fds=False
        ).stdout,
    )
    show(
        "empty",
        subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env={}).stdout,
    )
    show(
        "shell",
        subprocess.run(
            "echo $$ | wc -l; ulimit -n; umask", shell=True, capture_output=True, text=True
        ).stdout,
    )
    show("system", str(os.system("exit 7")))
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "raise SystemExit(5)"], os.environ)
    show("spawn", str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
    for ending in (
        "os._exit(3)",
        "os._exit(4)",
        "os.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(6)'])",
    ):
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            exec(ending)
        show("fork", str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
MPI.COMM_WORLD.Barrier()
