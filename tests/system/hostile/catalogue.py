"""The list of hostile programs: ends, interpreters, stacks, processes and their surroundings."""

from tests.system.hostile import corners, habits, kernel, narrow, ranks, surroundings, unusual
from tests.system.hostile.program import SHELL, Program


def _endings() -> list[Program]:
    """Every end of a Python program."""
    programs = []
    words = "0 4 raise interrupt text thread daemon broken c-exit abort"
    for how in [*words.split(), "SIGTERM", "SIGKILL", "SIGSEGV", "SIGINT"]:
        programs.append(
            Program(
                f"end {how}",
                "die.py",
                ("{python}", "{script}", how),
                ranks=0,
                is_fast=how in ("4", "c-exit"),
            )
        )
    for how in ("raise", "4", "SIGKILL"):
        programs.append(
            Program(
                f"end {how} under mpiexec",
                "die.py",
                ("{python}", "{script}", how),
                differs=r"PID|pid|HOST|host|=====|YOUR APPLICATION|CLEANUP|EXIT CODE|RANK|rank|prterun|^-+$",
            )
        )
    return programs


def _interpreters() -> list[Program]:
    """Options and surroundings of the interpreter."""
    look = ("{python}", "{script}")
    return [
        Program("looks around", "looks_around.py", look, is_fast=True),
        Program(
            "-X dev -W error -bb",
            "generators.py",
            ("{python}", "-X", "dev", "-W", "error", "-bb", "{script}"),
        ),
        Program("-O -S -I", "looks_around.py", ("{python}", "-O", "-I", "{script}")),
        Program(
            "-c", "", ("{python}", "-c", "def f(): return 1\nprint(sum(f() for _ in range(9)))")
        ),
        Program(
            "from standard input",
            "looks_around.py",
            (*SHELL, "{python} - < {programs}/generators.py"),
            ranks=0,
        ),
        Program("PYTHONMALLOC=debug", "generators.py", environment={"PYTHONMALLOC": "debug"}),
        Program(
            "PYTHONPROFILEIMPORTTIME",
            "own_site.py",
            environment={"PYTHONPROFILEIMPORTTIME": "1"},
            differs="import time",
        ),
        Program(
            "own sitecustomize",
            "own_site.py",
            environment={"PYTHONPATH": "{programs}/stub_site:{repository}"},
            is_fast=True,
        ),
        Program(
            "pytest -W error",
            "test_passes.py",
            ("{python}", "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "{script}"),
            ranks=0,
            packages=("pytest",),
            differs=r"in [\d.]+s",
            is_fast=True,
        ),
        Program(
            "unittest",
            "",
            ("{python}", "-m", "unittest", "-v", "test.test_bisect"),
            ranks=0,
            differs=r"Ran \d+ tests in",
            packages=("test.test_bisect",),
        ),
        Program(
            "cProfile",
            "generators.py",
            ("{python}", "-m", "cProfile", "-o", "{folder}/profile", "{script}"),
            ranks=1,
        ),
        Program("other tools inside", "other_tools.py"),
        Program("subinterpreters", "interpreters.py", versions=("3.11", "3.12", "3.13")),
        *_old_interpreters(),
    ]


def _old_interpreters() -> list[Program]:
    """Interpreters that insitu does not serve, which wrappers and helpers are written for."""
    programs = []
    for version in ("2.7", "3.6", "3.8", "3.10"):
        python = f"{{pyenv}}/{version}"
        code = "import sys; sys.stdout.write(str(sum(range(10))))"
        programs.append(
            Program(
                f"Python {version}",
                "",
                (python, "-c", code),
                ranks=0,
                tools=(python,),
                versions=("3.11",),
                has_witness=False,
                is_fast=version == "3.6",
            )
        )
    return programs


def _stacks() -> list[Program]:
    """Programs that change the stack inside a call, and many threads."""
    return [
        Program(
            "asyncio",
            "tasks_asyncio.py",
            counts={"branch": 40, "leaf": 81, "stream": 1},
        ),
        Program("trio", "tasks_trio.py", packages=("trio",), counts={"branch": 40, "leaf": 80}),
        Program(
            "gevent", "tasks_gevent.py", packages=("gevent",), counts={"task": 50, "inner": 250}
        ),
        Program(
            "greenlet",
            "tasks_greenlet.py",
            packages=("greenlet",),
            counts={"worker": 2, "step": 15, "drive": 2},
        ),
        Program("generators", "generators.py", counts={"pairs": 3}),
        Program("400 threads", "many_threads.py"),
        Program("timer signals in Python", "itimer.py", is_fast=True),
        Program("signals in Python", "signals.py"),
        Program(
            "timer signals in C", "timer_signals.c", flags=("-finstrument-functions",), is_fast=True
        ),
        Program(
            "small stacks in C",
            "small_stacks.c",
            flags=("-finstrument-functions", "-pthread"),
            counts={"leaf": 150},
        ),
        Program(
            "coroutines in C",
            "coroutines.c",
            flags=("-finstrument-functions",),
            counts={"leaf": 18},
            is_fast=True,
        ),
        Program(
            "ends of threads in C",
            "thread_ends.c",
            flags=("-finstrument-functions", "-pthread"),
            ranks=1,
        ),
        Program(
            "all keys taken",
            "keys_taken.c",
            flags=("-pthread",),
            ranks=1,
            mpis=("mpich",),  # Open MPI ends with SIGSEGV when no key is left
            is_fast=True,
        ),
        Program("OpenMP", "openmp.c", flags=("-fopenmp",)),
    ]


def _processes() -> list[Program]:
    """Children of every kind."""
    programs = []
    for method in ("fork", "spawn", "forkserver"):
        programs.append(
            Program(
                f"multiprocessing {method}",
                "pool.py",
                ("{python}", "{script}", method),
                ranks=1,
            )
        )
    return [
        *programs,
        Program("executors", "executors.py", ranks=1),
        Program("children of Python", "children.py", is_fast=True),
        Program(
            "children of C", "forks.c", flags=("-finstrument-functions", "-pthread"), is_fast=True
        ),
        Program("a daemon stays", "leaves_daemon.py"),
        Program("MPI_Comm_spawn", "spawn.py", ranks=1, mpis=("mpich",), is_fast=True),
        Program(
            "wrapper script",
            "generators.py",
            (*SHELL, "{python} -c 'print(1)'; exec {python} {script}"),
        ),
        Program(
            "nested wrapper",
            "generators.py",
            (*SHELL, "env A=1 nice -n 1 sh -c '{python} {script}; echo $?'"),
        ),
        Program(
            "a web server that reloads",
            "reloading.py",
            ("{python}", "{script}", "{folder}"),
            ranks=0,
            packages=("uvicorn",),
        ),
        Program(
            "a notebook kernel",
            "notebook.py",
            ranks=0,
            packages=("nbclient", "ipykernel"),
            # The pipes and the epoll of asyncio, numbered after the sockets that ZeroMQ has open.
            differs=r"file \d\d ",
        ),
        Program(
            "setuid helper",
            "",
            (
                "{python}",
                "-c",
                "import os; print(os.waitstatus_to_exitcode(os.system('{build}/privileged')), flush=True)",
            ),
            ranks=1,
        ),
        Program(
            "a program of another user",
            "generators.py",
            (*SHELL, "setpriv --reuid 65534 --clear-groups {python} -c 'print(1)'"),
            ranks=0,
            tools=("setpriv",),
        ),
    ]


PROGRAMS = [
    *_endings(),
    *_interpreters(),
    *_stacks(),
    *_processes(),
    *surroundings.limits(),
    *surroundings.mpi(),
    *surroundings.libraries(),
    *surroundings.tools(),
    *corners.compiled(),
    *corners.interpreted(),
    *habits.compiled(),
    *habits.interpreted(),
    *kernel.compiled(),
    *kernel.interpreted(),
    *ranks.compiled(),
    *ranks.interpreted(),
    *narrow.compiled(),
    *narrow.interpreted(),
    *unusual.compiled(),
    *unusual.interpreted(),
]
