"""Hostile programs: habits of programs that look at, limit or reuse their own process."""

from tests.system.hostile.program import SHELL, Program
from tests.system.hostile.ranks import ENDS

FLAGS = ("-pthread", "-O1", "-lm")
WORDS_IN_C = (
    *("counts-itself", "inherited", "waits-for-any", "waits-for-every-signal", "every-handler"),
    *("other-interfaces", "bsd-handler", "restored-masks", "preempted", "small-coroutines"),
    *("process-timers", "handler-beside-threads", "removed-signal-stack", "smallest-signal-stack"),
    *("handlers-spawn", "handler-aborts", "floating-point", "inexact-traps", "values-pass"),
    *("keeps-errno", "crowd", "forks-beside-malloc", "standard-threads", "main-leaves", "cancels"),
    *("timer-threads", "full-maps", "low-addresses", "new-process-ids", "traced-by-child"),
    *("allocator-counts", "odd-allocations", "exit-handlers", "leaves-quickly", "set-title"),
    *("empty-execution", "executes-again", "own-layer", "generalized-requests", "persistent"),
    *("disconnects", "new-codes", "other-limits", "other-thread", "deep-handlers"),
    *("virtual-timers", "posix-timers", "inherited-timers", "jumps-without-masks"),
    *("collects-garbage", "paged-arguments", "write-barrier", "signal-stack-coroutines"),
)
# They filter their system calls before they execute themselves, and are not measured from then on.
FILTERED = ("refused-calls", "unknown-calls", "fatal-calls", "trapped-calls")
FAST_IN_C = (
    *(
        "preempted",
        "process-timers",
        "other-interfaces",
        "restored-masks",
        "handler-beside-threads",
        "removed-signal-stack",
    ),
    *("smallest-signal-stack", "executes-again", "deep-handlers", "posix-timers"),
    "inherited-timers",
)
WORDS = (
    *("counts-itself", "allocations", "traced-memory", "collections", "depths", "errors"),
    *("closed-generators", "replaced-code", "all-events", "opcodes", "jumps", "stack-trampoline"),
    *("forbids", "local-streams", "faults-later", "crashes", "interpreters", "daemon-threads"),
    *("thread-waves", "exit-order", "forks", "waits-for-any", "every-signal", "static-storage"),
    *("titles", "warnings-as-errors", "own-names", "pickles", "documented", "wrapped-builtins"),
    "numbers",
)
WORDS_WITH_MPI = ("spawns", "operations")
# MPI_Abort ends the other rank; launchers and MPI write lines about it.
FAILING = (
    *("errors", "crashes", "local-streams", "exit-order", "wrapped-builtins", "handler-aborts"),
    "own-names",
)


def compiled() -> list[Program]:
    """C programs, with timed functions and unchanged."""
    programs = []
    for word in (*WORDS_IN_C, *FILTERED):
        for ranks, how in ((1, "-finstrument-functions"), (2, "-g")):
            programs.append(
                Program(
                    f"C habit {how} of {ranks}: {word}",
                    "habits.c",
                    ("{program}", word),
                    flags=(*FLAGS, how),
                    ranks=0 if word in FILTERED else ranks,  # no other tool counts its calls
                    differs=ENDS if word in FAILING else "",
                    is_fast=word in FAST_IN_C and (how == "-g" or word == "smallest-signal-stack"),
                )
            )
    return programs


def interpreted() -> list[Program]:
    """Python programs without MPI, and on two ranks."""
    programs = []
    for word in WORDS:
        for ranks, more in ((0, ()), (2, ("--mpi",))):
            programs.append(
                Program(
                    f"habit of {ranks}: {word}",
                    "habits.py",
                    ("{python}", "{script}", word, *more),
                    ranks=ranks,
                    differs=ENDS if ranks and word in FAILING else "",
                )
            )
    for word in WORDS_WITH_MPI:
        words = ("{python}", "{script}", word, "--mpi")
        programs.append(Program(f"habit of 1: {word}", "habits.py", words, ranks=1))
    return [*programs, *_started()]


def _started() -> list[Program]:
    """Interpreters and programs that are started in other ways."""
    audit = "echo 'unsigned la_version(unsigned v) { return v; }' | gcc -shared -fPIC -x c -o"
    environments = {
        "LD_BIND_NOW": {"LD_BIND_NOW": "1"},
        "MALLOC_PERTURB_": {"MALLOC_PERTURB_": "165"},
        "tunables": {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.rtld.nns=2"},
    }
    programs = []
    for name, variables in environments.items():
        programs.append(Program(f"{name} in C", "ring.c", environment=variables))
        programs.append(Program(f"{name} in Python", "generators.py", environment=variables))
    for options in ("-X dev", "-X perf", "-X tracemalloc=5", "-X importtime", "-x", "-i -q"):
        programs.append(
            Program(
                f"python {options}",
                "habits.py",
                ("{python}", *options.split(), "{script}", "pickles"),
                ranks=0,
                differs="import time" if "importtime" in options else "",
            )
        )
    for module in (
        "timeit 1",
        "trace --count -C . {script} jumps",
        "site",
        "pdb -c c {script} jumps",
    ):
        programs.append(
            Program(
                f"python -m {module.split()[0]}",
                "habits.py",
                ("{python}", "-m", *module.split()),
                ranks=0,
                differs="loops" if "timeit" in module else "",
            )
        )
    return [
        *programs,
        Program(
            "LD_AUDIT in C",
            "ring.c",
            (*SHELL, f"{audit} {{folder}}/audit.so -; LD_AUDIT={{folder}}/audit.so {{program}}"),
            ranks=1,
        ),
        Program(
            "LD_AUDIT in Python",
            "generators.py",
            (*SHELL, f"{audit} {{folder}}/a.so -; LD_AUDIT={{folder}}/a.so {{python}} {{script}}"),
            ranks=1,
        ),
        Program(
            "own libzmq",
            "generators.py",
            (
                *SHELL,
                "echo 'int zmq_ctx_new;' | gcc -shared -fPIC -x c -o {folder}/libzmq.so.5 -;"
                " LD_LIBRARY_PATH={folder} {python} {script}",
            ),
            ranks=1,
        ),
    ]
