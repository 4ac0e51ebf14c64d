"""Hostile programs: what few programs ask of the kernel, the C library and the interpreter."""

from tests.system.hostile.program import SHELL, Program
from tests.system.hostile.ranks import ENDS

FLAGS = ("-pthread", "-O1")
WORDS_IN_C = (
    *("forks-beside-threads", "forks-beside-locked-stream", "forks-at-exit", "clone3-children"),
    *("runs-from-memory", "sealed-mappings", "landlocked", "second-namespace", "no-memory"),
    *("odd-streams", "moves-data", "cancels-files", "private-files", "closes-streams"),
    "own-functions",
)
WORDS = (
    *("mpi-at-exit", "forks-at-exit", "no-memory", "asynchronous", "own-evaluator", "odd-names"),
    "hooks-of-fork",
)
COUNTS = {"own-evaluator": {"work": 302}}


def compiled() -> list[Program]:
    """C programs, with timed functions and unchanged."""
    programs = []
    for word in WORDS_IN_C:
        own = ("-DOWN_FUNCTIONS",) if word == "own-functions" else ()
        # In MPICH a child that ends in exit handlers takes its parent's connection to mpiexec with
        # it, so that either rank may be killed first, bare, too.
        more = 1 if word == "forks-at-exit" else 2
        for ranks, how in ((1, "-finstrument-functions"), (more, "-g")):
            programs.append(
                Program(
                    f"C kernel {how} of {ranks}: {word}",
                    "kernel.c",
                    ("{program}", word),
                    flags=(*FLAGS, how, *own),
                    ranks=ranks,
                    # fopen that is cancelled may leave its descriptor open
                    differs=r"file \d+ " if word == "cancels-files" else "",
                )
            )
    return [*programs, *_started()]


def interpreted() -> list[Program]:
    """Python programs on two ranks, and one without MPI."""
    programs = [
        Program(
            f"kernel of 2: {word}",
            "kernel.py",
            ("{python}", "{script}", word),
            counts=COUNTS.get(word, {}),
            mpis=("mpich",) if word == "no-memory" else ("mpich", "openmpi"),  # it hangs, bare
        )
        for word in WORDS
    ]
    words = ("{python}", "{script}", "closes-all")
    return [*programs, Program("kernel of 0: closes-all", "kernel.py", words, ranks=0)]


def _started() -> list[Program]:
    """The same program, started in other ways."""
    run = ("{program}", "moves-data")
    starts = {
        "time namespace": ("unshare", "-T", "--monotonic", "100000", *run),
        "time namespace of a child": ("unshare", "-T", "--monotonic", "100000", "--fork", *run),
        "fixed addresses": ("setarch", "-R", *run),
        "stack without limit": (*SHELL, "ulimit -s unlimited; exec {program} moves-data"),
        "dynamic linker": ("/lib64/ld-linux-x86-64.so.2", *run),
        "name with a new line": (
            *SHELL,
            "cp {program} '{folder}/a\nb;c'; exec '{folder}/a\nb;c' moves-data",
        ),
    }
    programs = [
        Program(f"C kernel, {name}", "kernel.c", words, flags=FLAGS)
        for name, words in starts.items()
    ]
    mixed = ("{program}", "", ":", "-n", "1", "{python}", "{programs}/kernel.py", "mpi-at-exit")
    no_rseq = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
    return [
        *programs,
        Program("C and Python in one job", "kernel.c", mixed, flags=FLAGS, ranks=1, differs=ENDS),
        Program(  # with two ranks, UCX must not open what the launcher's user has open
            "C kernel, another user's rights",
            "kernel.c",
            (
                *SHELL,
                "install -o 65534 -m 4755 {program} {folder}/setuid;"
                " exec {folder}/setuid moves-data",
            ),
            flags=FLAGS,
            ranks=1,
            mpis=("mpich",),
        ),
        Program(  # in Open MPI the child waits for ever
            "C kernel, child-finalises",
            "kernel.c",
            ("{program}", "child-finalises"),
            flags=FLAGS,
            ranks=0,
            mpis=("mpich",),
        ),
        Program("C kernel, without rseq", "kernel.c", run, flags=FLAGS, environment=no_rseq),
    ]
