"""Hostile programs: little room, few rights, a second MPI library, Rust and Java."""

from tests.system.hostile.program import SHELL, Program
from tests.system.hostile.ranks import ENDS

FLAGS = ("-pthread", "-O1")
WORDS = (
    *("data-limit", "file-limit", "process-limit", "no-descriptors", "closes-every-number"),
    *("few-rights", "counts-urgent", "no-wait", "low-maps", "exec-storm"),
)
WORDS_IN_C = (*WORDS, "io-uring")
# The launcher loses its connection, and ends the other rank at any moment.
FAILING = ("closes-every-number",)
LIMITS = {"data": "-d 2000000", "file size": "-f 40000", "processes": "-u 4000", "files": "-n 16"}
COUNTS = {"exec-storm": {"MPI_Allreduce": 101}}
COUNTS_IN_PYTHON = {"exec-storm": {"many": 4, "call_mpi": 102}}


def compiled() -> list[Program]:
    """C programs, with timed functions and unchanged."""
    programs = []
    for word in WORDS_IN_C:
        for ranks, how in ((1, "-finstrument-functions"), (1 if word in FAILING else 2, "-g")):
            programs.append(
                Program(
                    f"C narrow {how} of {ranks}: {word}",
                    "narrow.c",
                    ("{program}", word),
                    flags=(*FLAGS, how),
                    ranks=ranks,
                    differs=ENDS if word in FAILING else "",
                    counts=COUNTS.get(word, {}),
                )
            )
    for name, limit in LIMITS.items():
        programs.append(
            Program(
                f"C narrow, limit of {name}",
                "ring.c",
                ("bash", "-c", f"ulimit {limit}; exec {{program}}"),
            )
        )
    return [*programs, *_languages()]


def interpreted() -> list[Program]:
    """Python programs on two ranks."""
    programs = []
    for word in WORDS:
        programs.append(
            Program(
                f"narrow: {word}",
                "narrow.py",
                ("{python}", "{script}", word),
                ranks=1 if word in FAILING else 2,
                differs=ENDS if word in FAILING else "",
                counts=COUNTS_IN_PYTHON.get(word, {}),
                mpis=("mpich",) if word == "data-limit" else ("mpich", "openmpi"),  # hangs, bare
            )
        )
    for name, limit in LIMITS.items():
        programs.append(
            Program(
                f"narrow, limit of {name}",
                "generators.py",
                ("bash", "-c", f"ulimit {limit}; exec {{python}} {{script}}"),
            )
        )
    return programs


def _languages() -> list[Program]:
    """A second MPI library, and virtual machines and libraries of other languages."""
    rust = "rustc -O --crate-type cdylib {programs}/rust_library.rs -o {folder}/library.so"
    return [
        Program(
            "a second MPI library",
            "second_mpi.c",
            ranks=1,
            flags=("-ldl",),
        ),
        Program(
            "Rust",
            "rust_host.c",
            (*SHELL, f"{rust} && exec {{program}} {{folder}}/library.so"),
            ranks=1,
            flags=("-ldl",),
            tools=("rustc",),
            counts={"MPI_Allreduce": 20},
            has_witness=False,
        ),
        Program(
            "Java",
            "jni.c",
            (
                *SHELL,
                "javac -d {folder} {programs}/Main.java"
                " && exec java -cp {folder} Main {build}/program",
            ),
            ranks=1,
            flags=("-shared", "-fPIC"),
            tools=("java", "javac"),
            counts={"MPI_Allreduce": 100},
            has_witness=False,
            seconds=240,
        ),
    ]
