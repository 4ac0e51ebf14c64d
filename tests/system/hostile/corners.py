"""Hostile programs: rare corners of the kernel, of MPI and of the interpreter."""

from dataclasses import replace

from tests.system.hostile.program import SHELL, Program

C_FLAGS = ("-finstrument-functions", "-pthread", "-O1")

# Messages of MPI and of UCX, with times.
DIFFERS = {"init-twice": "^Abort", "limited": "UCX"}
COUNTS = {
    "jumps": {"again": 3000},
    "jumps-out-of-mpi": {"MPI_Allreduce": 20, "MPI_Send": 50},
}


def compiled() -> list[Program]:
    """Signals, limits, filters, jumps and callbacks in C."""
    words = "signalfd timerfd sigio uninterrupted no-zombies services trapped limited tight rooted"
    words += (
        " controlled attached locked jumps errors-returned attributes tools-interface calls-back"
    )
    words += (
        " at-fork no-variables huge-stack no-randomization exit-handler exit-in-handler init-twice"
    )
    programs = []
    for word in words.split():
        program = _in_c("C", "corners.c", word, is_fast=word in ("trapped", "limited"))
        programs.append(
            replace(program, differs=DIFFERS.get(word, ""), counts=COUNTS.get(word, {}))
        )
    jump = _in_c("C", "corners.c", "jumps-out-of-mpi", is_fast=True)
    jump = replace(jump, mpis=("mpich",), counts=COUNTS["jumps-out-of-mpi"])
    return [*programs, jump, *_interrupted(), *_changing(), *_linked()]


def _in_c(label: str, source: str, word: str, *, ranks: int = 1, is_fast: bool = False) -> Program:
    """The part of a C program that a word of its command line selects."""
    words = ("{program}", word)
    return Program(f"{label}: {word}", source, words, flags=C_FLAGS, ranks=ranks, is_fast=is_fast)


def _interrupted() -> list[Program]:
    """Threads that are stopped, left, cancelled or entered again at any instruction."""
    programs = []
    for word in ("collector", "time-out", "progress", "cancel", "stay-open"):
        is_fast = word != "progress"
        programs.append(_in_c("interrupted", "interrupted.c", word, is_fast=is_fast))
    return programs


def _changing() -> list[Program]:
    """Processes that change their surroundings, their children or their end."""
    words = "many-threads vforks mpi-in-child daemonise not-dumpable drop stop-and-go namespace"
    words += " data-limit locked-on-fault realtime cpu-limit unshare errors sessions nested-signals"
    words += " limits-before clobber abort-at-exit leave-at-exit running-threads exit-in-thread"
    words += " strict-child strict-itself close-range take-numbers filtered no-clock"
    words += " dispatch urgent urgent-in-assembly"
    programs = []
    for word in words.split():
        ranks = 0 if word in ("close-range", "take-numbers") else 1
        is_fast = word in ("filtered", "clobber", "dispatch", "urgent", "urgent-in-assembly")
        programs.append(_in_c("changes", "changes.c", word, ranks=ranks, is_fast=is_fast))
    return programs


def _linked() -> list[Program]:
    """The same program, linked in every way: each MPI call is found."""
    options = {
        "-fno-plt": ("-fno-plt",),
        "-z now": ("-Wl,-z,now,-z,relro",),
        "-z lazy": ("-Wl,-z,lazy,-z,norelro",),
        "-no-pie": ("-no-pie", "-fno-pie"),
        "-flto -O3": ("-flto", "-O3", "-fomit-frame-pointer"),
        "stripped": ("-s", "-O2"),
        "-fcf-protection": ("-fcf-protection=full", "-fstack-protector-all"),
        "packed relocations": ("-Wl,-z,pack-relative-relocs",),
    }
    programs = []
    for name, flags in options.items():
        programs.append(
            Program(f"linked {name}", "ring.c", flags=flags, counts={"MPI_Allreduce": 20})
        )
    # The dynamic linker of musl ends a program that preloads a library of glibc.
    musl = "echo 'int main(void) { return 3; }' | musl-gcc -x c -o {folder}/musl -; {folder}/musl"
    programs.append(
        Program(
            "linked with musl",
            words=(*SHELL, f"{musl}; echo $?"),
            ranks=1,
            tools=("musl-gcc",),
            has_witness=False,
        )
    )
    return programs


def interpreted() -> list[Program]:
    """Hooks, replaced functions, signals, shutdown and limits in Python."""
    words = "own-profile own-trace thread-tools monitoring collector import-hooks audits refuses"
    words += (
        " replaced cleared faults memory bytecode wakeups terminal spawned shutdown descriptors"
    )
    words += " recursion limits tasks debugger profilers forks-in-threads exec-in-thread"
    words += " exit-in-thread swapped-hooks frames code-changes deep-generators weak-code"
    words += " exceptions closed-streams time-outs process-pools callbacks import-twice"
    programs = []
    for word in words.split():
        programs.append(
            Program(
                f"Python: {word}",
                "corners.py",
                ("{python}", "{script}", word),
                ranks=0,
                is_fast=word in ("audits", "replaced", "limits"),
                differs="slow|Executing" if word == "tasks" else "",
            )
        )
    options = (
        "-S",
        "-E",
        "-s -B",
        "-OO",
        "-P",
        "-X frozen_modules=off",
        "-X no_debug_ranges",
        "-u",
    )
    for option in options:
        programs.append(
            Program(
                f"python {option}",
                "corners.py",
                ("{python}", *option.split(), "{script}", "collector"),
                ranks=0,
            )
        )
    return [*programs, *_packed()]


def _packed() -> list[Program]:
    """Programs that are no plain script."""
    return [
        Program(
            "zipapp",
            "generators.py",
            (
                *SHELL,
                "mkdir {folder}/app; cp {script} {folder}/app/__main__.py;"
                " {python} -m zipapp {folder}/app; exec {python} {folder}/app.pyz",
            ),
            ranks=0,
        ),
        Program(
            "a package with -m",
            "generators.py",
            (
                *SHELL,
                "mkdir -p {folder}/pack/inner; cp {script} {folder}/pack/inner/__main__.py;"
                " cd {folder}; exec {python} -m pack.inner",
            ),
            ranks=0,
        ),
        Program(
            "runpy and exec",
            "generators.py",
            ("{python}", "-c", "import runpy; runpy.run_path('{script}', run_name='__main__')"),
            ranks=0,
        ),
        Program(
            "an environment of its own",
            "corners.py",
            (
                *SHELL,
                "{python} -m venv --without-pip --symlinks {folder}/own;"
                " exec {folder}/own/bin/python {script} collector",
            ),
            ranks=0,
            seconds=150,
        ),
        Program(
            "a program behind a pipe",
            "corners.py",
            (*SHELL, "cat {script} | {python} - collector | cat"),
            ranks=0,
        ),
        Program(
            "timeout and setsid",
            "corners.py",
            ("timeout", "60", "setsid", "-w", "{python}", "{script}", "collector"),
            ranks=0,
        ),
    ]
