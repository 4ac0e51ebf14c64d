"""Hostile programs: little room, rare corners of MPI, other libraries and tools."""

from tests.system.hostile.program import SHELL, Program

BIG = {f"BIG{i}": "x" * 120_000 for i in range(8)}  # a string may have 128 KiB
# An in-situ code of the user's may have such variables, also with the names of insitu's.
OWN = {"INSITU_MODE": "fast", "INSITU_HOME": "/opt/mine", "INSITU_RUN": "7", "INSITU_X": ""}
FILE_BLOCKS = 20_000  # of 512 bytes: MPI starts with that, a table is longer
ALLOCATORS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}


def limits() -> list[Program]:
    """Little room."""
    limits = {
        "-n 40": "files",
        "-s 512": "stack",
        "-v 8000000": "memory",
        "-c 0": "core",
    }
    programs = []
    for limit, name in limits.items():
        programs.append(
            Program(
                f"ulimit {name}",
                "generators.py",
                (*SHELL, f"ulimit {limit}; exec {{python}} {{script}}"),
            )
        )
    programs += [
        Program(
            "ulimit file size",
            "generators.py",
            (*SHELL, f"ulimit -f {FILE_BLOCKS}; exec {{python}} {{script}}"),
        ),
        Program(
            "ulimit file size in C",
            "ring.c",
            (*SHELL, f"ulimit -f {FILE_BLOCKS}; exec {{program}}"),
            mpis=("mpich",),  # Open MPI needs more
            is_fast=True,
        ),
    ]
    return [
        *programs,
        Program(
            "no standard streams",
            "generators.py",
            (*SHELL, "exec {python} {script} <&- 2>&-"),
            ranks=0,
        ),
        Program("closes every file", "closes_all.py"),
        Program(
            "a reader that ends",
            "pipes.py",
            (*SHELL, "{python} {script} < /dev/null | head -n 2; echo end"),
            ranks=0,
        ),
        Program(
            "a C program and a reader that ends",
            "ring.c",
            (*SHELL, "yes | head -n 1; {program}"),
            ranks=1,
        ),
        Program("big environment", "sizes.py", environment=BIG, ranks=1, is_fast=True),
        Program("odd names", "sizes.py"),
        Program("own variables in Python", "looks_around.py", environment=OWN, is_fast=True),
        Program("own variables in C", "ring.c", environment=OWN, is_fast=True),
        Program(
            "no home",
            "generators.py",
            ("env", "-u", "HOME", "-u", "TMPDIR", "{python}", "{script}"),
            mpis=("mpich",),  # Open MPI does not start without a home
        ),
        Program(
            "a folder that is gone",
            "",
            (
                *SHELL,
                "mkdir {folder}/gone; cd {folder}/gone; rmdir {folder}/gone; exec {python} -c 'print(1)'",
            ),
            ranks=0,
        ),
        Program("seals itself", "seals_itself.c", is_fast=True),
        Program(
            "namespaces",
            "generators.py",
            (
                "unshare",
                "--user",
                "--map-root-user",
                "--mount",
                "--pid",
                "--fork",
                "--mount-proc",
                "{python}",
                "{script}",
            ),
            ranks=0,
            tools=("unshare",),
        ),
        Program(
            "network namespace",
            "",
            ("unshare", "--net", "{python}", "-c", "print(1)"),
            ranks=0,
            tools=("unshare",),
        ),
    ]


def mpi() -> list[Program]:
    """Rare corners of MPI."""
    return [
        Program("RMA, files, types, errors", "rma_io.py"),
        Program("sessions", "sessions.py", differs=r"Abort\("),
        Program("thread multiple", "thread_multiple.py"),
        Program("plain C", "ring.c", counts={"MPI_Allreduce": 20}),
        Program("C that fails", "ring.c", ("{program}", "3")),
        Program("mpi4py.run", "generators.py", ("{python}", "-m", "mpi4py", "{script}")),
        Program("mpi4py.bench", "", ("{python}", "-m", "mpi4py.bench", "helloworld")),
        Program(
            "mpi4py.futures",
            "futures_pool.py",
            ("{python}", "-m", "mpi4py.futures", "{script}"),
            ranks=3,
            are_ranks_equal=True,
        ),
        Program(
            "mpi4py's own tests",
            "",
            (
                "{python}",
                "{mpi4py}/test/main.py",
                "-q",
                "-i",
                "test_(status|op|comm|p2p_obj|cco_obj|request|datatype|info|errhandler|file|attributes|exceptions)$",
            ),
            tools=("{mpi4py}",),
            packages=("numpy",),
            differs=r"Ran \d+ tests|^\[\d+@|^-+$",
            seconds=400,
            has_witness=False,
        ),
        Program(
            "another PMPI tool",
            "ring.c",
            environment={"LD_PRELOAD": "{build}/libprofiling_tool.so"},
            ranks=1,
            counts={"MPI_Allreduce": 20},
            is_fast=True,
        ),
        Program(
            "another PMPI tool in Python",
            "thread_multiple.py",
            environment={"LD_PRELOAD": "{build}/libprofiling_tool.so"},
            ranks=1,
        ),
    ]


def libraries() -> list[Program]:
    """Libraries that compile, call back or start threads of their own."""
    programs = []
    for how in ("cython", "pybind11"):
        programs.append(
            Program(
                how,
                "built_extension.py",
                ("{python}", "{script}", how, "{folder}"),
                ranks=1,
                packages=("Cython" if how == "cython" else how,),
                counts={"back": 100},
            )
        )
    for name, library in ALLOCATORS.items():
        path = "{cache}/debs/root/usr/lib/x86_64-linux-gnu/" + library
        programs.append(
            Program(
                f"{name} in Python",
                "scipy_callbacks.py",
                environment={"LD_PRELOAD": path},
                tools=(path,),
                packages=("scipy", "pandas"),
                ranks=1,
            )
        )
        programs.append(
            Program(
                f"{name} in C",
                "forks.c",
                flags=("-finstrument-functions", "-pthread"),
                environment={"LD_PRELOAD": path},
                tools=(path,),
            )
        )
    return [
        *programs,
        Program(
            "huge pages",
            "scipy_callbacks.py",
            environment={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
            packages=("scipy", "pandas"),
            ranks=1,
        ),
        Program("numba", "numba_code.py", packages=("numba",), counts={"back": 5}, ranks=1),
        Program(
            "torch and gloo", "torch_gloo.py", packages=("torch",), counts={"step": 3}, seconds=180
        ),
        Program(
            "petsc4py",
            "",
            (
                "{python}",
                "-c",
                "from petsc4py import PETSc; print(PETSc.Vec().createMPI(10).getSize())",
            ),
            packages=("petsc4py",),
        ),
        Program(
            "mpi4py-fft",
            "",
            ("{python}", "-c", "from mpi4py_fft import PFFT; print(PFFT)"),
            packages=("mpi4py_fft",),
        ),
        Program("scipy, pandas, dask", "scipy_callbacks.py", packages=("scipy", "pandas")),
        Program(
            "PyInstaller",
            "frozen.py",
            (
                *SHELL,
                "cd {folder}; {python} -m PyInstaller -y --log-level ERROR --onedir {script} > build.log 2>&1 || cat build.log; exec dist/frozen/frozen",
            ),
            packages=("PyInstaller",),
            ranks=0,
            seconds=300,
            has_witness=False,
        ),
    ]


def tools() -> list[Program]:
    """Sanitizers, debuggers and tracers around the program."""
    programs = []
    for name in ("address", "thread", "undefined", "leak"):
        programs.append(
            Program(
                f"-fsanitize={name}",
                "ring.c",
                flags=(f"-fsanitize={name}", "-g"),
                environment={
                    "ASAN_OPTIONS": "detect_leaks=0",
                    "LSAN_OPTIONS": "exitcode=0",
                    # Under TSan, Open MPI does not get the address for its shared memory.
                    "PMIX_MCA_gds": "hash",
                },
                has_witness=False,
                differs="SUMMARY|==|#|Direct|Indirect|WARNING|allocated|LeakSan|^$|^ ",
            )
        )
    return [
        *programs,
        Program(
            "valgrind",
            "ring.c",
            ("valgrind", "-q", "--error-exitcode=0", "{program}"),
            ranks=1,
            tools=("valgrind",),
            differs="==",
            has_witness=False,
            seconds=200,
        ),
        Program(
            "strace",
            "ring.c",
            ("strace", "-f", "-o", "{folder}/trace", "{program}"),
            ranks=1,
            tools=("strace",),
        ),
        Program(
            "strace of Python",
            "generators.py",
            ("strace", "-f", "-o", "{folder}/trace", "{python}", "{script}"),
            ranks=1,
            tools=("strace",),
        ),
        Program(
            "gdb",
            "ring.c",
            ("gdb", "-batch", "-ex", "run", "--args", "{program}", "4"),
            ranks=1,
            tools=("gdb",),
            differs=r"Thread|thread|warning|process|^$|Using host",
            has_witness=False,
        ),
        Program(
            "coverage",
            "generators.py",
            ("{python}", "-m", "coverage", "run", "--data-file={folder}/coverage", "{script}"),
            packages=("coverage",),
            ranks=1,
        ),
    ]
