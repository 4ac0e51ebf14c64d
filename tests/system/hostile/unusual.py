"""Hostile programs: unusual registers, builds, MPI calls, libraries, tools and job scripts."""

from tests.system.hostile.program import SHELL, Program
from tests.system.hostile.ranks import ENDS

FLAGS = ("-pthread", "-O1")
LIBRARIES = ("-lm", "-ldl")
IN_MACHINE = (
    *("stack-register", "stack-stream", "other-thread-pointer", "own-segment"),
    *("alignment-checks", "own-single-steps", "census", "checks-itself", "moves-break"),
    *("other-mode", "disarmed-stack", "sealed-code"),
    *("own-sequences", "robust-locks", "leases", "odd-ends", "real-time-end", "queued-values"),
    *("processor-clocks", "clears-and-executes", "spawn-actions", "refused-writes"),
)
IN_MPI = (
    *("what-mpi-says", "accepts", "large-counts", "odd-files", "sentinels", "intercommunicators"),
    *("spawns-several", "own-layer", "windows"),
)
IN_LIBRARY = ("waiting-results", "file-corners", "executions", "openmp")
IN_CXX = {
    "own-new": ("-DOWN_NEW",),
    "throwing-handlers": ("-fnon-call-exceptions",),
    "objects-of-threads": (),
    "no-room": (),
    "fibers": ("-DFIBERS", "-lboost_context"),
    "throwing-copies": (),
}
HARDENED = ("-O2", "-D_FORTIFY_SOURCE=3", "-fstack-protector-all", "-fstack-clash-protection")
BUILDS = {
    "chosen-functions": ("chosen-functions", ("-O2",)),
    "early-and-late": ("early-and-late", ()),
    "own hooks": ("own-hooks", ("-DOWN_HOOKS", "-finstrument-functions")),
    "own mcount": ("own-hooks", ("-DOWN_MCOUNT", "-pg", "-mfentry", "-no-pie", "-fno-pie")),
    "thread-local-room": ("thread-local-room", ()),
    "libraries-come-and-go": ("libraries-come-and-go", ()),
    "split-stacks": ("split-stacks", ("-fsplit-stack",)),
    "nested-functions": ("nested-functions", ("-z", "execstack")),
    "transactions": ("transactions", ("-fgnu-tm", "-DTRANSACTIONS")),
    "large-model": ("large-model", ("-mcmodel=medium", "-DLARGE")),
    "fortified": ("fortified", HARDENED),
    "backtraces": ("backtraces", ()),
    "-pg": ("works", ("-pg",)),
    "hash of System V": ("works", ("-Wl,--hash-style=sysv", "-Wl,-z,noseparate-code")),
    "linked jemalloc": ("works", ("-Wl,--no-as-needed", "-ljemalloc")),
}
IN_FORTRAN = (
    *("files", "flags", "traps", "signals", "commands", "arguments", "arrays", "stops"),
    *("stops-text", "stops-notes", "backtraces"),
)
WORDS = (
    *("uvloops", "eventlets", "child-watchers", "managers", "foreign-threads", "native-tracers"),
    *("replaced-main", "databases", "lokies", "counted-calls", "positions", "own-settings"),
    *("exit-functions-run", "empties-sys", "captured", "terminals", "forking-servers"),
    *("checked-types", "built-callbacks", "jitted", "waits-in-threads", "from-the-stack"),
)
DIFFERS = {
    "managers": r"file \d+ |leaked",  # threads accept connections in any order; names are random
    "child-watchers": "Executing",  # how long a task took
}
PACKAGES = {
    **{"uvloops": "uvloop", "eventlets": "eventlet", "lokies": "joblib", "captured": "wurlitzer"},
    **{"checked-types": "beartype", "built-callbacks": "cffi", "jitted": "numba"},
}
# Tools by preloaded libraries of Debian, with what they write.
PRELOADED = {
    "libprofiler": ("x86_64-linux-gnu/libprofiler.so.0", {"CPUPROFILE": "profile"}),
    "tcmalloc's profile": ("x86_64-linux-gnu/libtcmalloc.so.4", {"HEAPPROFILE": "heap"}),
    "mimalloc": ("x86_64-linux-gnu/libmimalloc.so.2.0", {}),
    "electric fence": ("libefence.so.0.0", {"EF_DISABLE_BANNER": "1", "EF_ALLOW_MALLOC_0": "1"}),
    "malloc's checks": (
        "x86_64-linux-gnu/libc_malloc_debug.so.0",
        {"MALLOC_CHECK_": "3", "MALLOC_TRACE": "trace"},
    ),
}
OF_PROFILERS = "PROFILE|heap profile|Starting tracking|Dumping|^(profile|heap)|==|allocations:"
COUNTS_OF_GCOV = (
    "GCOV_PREFIX={folder} {program} works; find {folder} -name '*.gcda' -size +0 | wc -l;"
    " find {folder} -name '*.gcda' -exec gcov-dump -l {} + | sed 's,^[^:]*:,,'"
    " | grep -E 'FUNCTION|arcs|counter' | md5sum"
)
TOOLS = {
    "heaptrack": "heaptrack -o {folder}/heap {program} works | grep -v -i heaptrack",
    "ltrace": "ltrace -o {folder}/trace -e sqrt+puts {program} works; test -s {folder}/trace",
    "massif": "valgrind -q --tool=massif --massif-out-file={folder}/massif {program} works",
    "auxiliary vector": "LD_SHOW_AUXV=1 {program} works | grep -c AT_",
    "statistics of the linker": (
        "LD_DEBUG=statistics LD_DEBUG_OUTPUT={folder}/of {program} works; ls {folder}/of* | wc -l"
    ),
    "jobs of make": (
        "printf 'all: a b\\na b:\\n\\t{program} works\\n' > {folder}/jobs;"
        " make -s -j2 -f {folder}/jobs"
    ),
    "pending signals": "ulimit -i 20; exec {program} works",
    "lock": "flock {folder}/lock {program} works",
    "terminal": "script -q -e -c '{program} works' /dev/null",
}
EMBEDDED = (
    "set -- $({python} -c 'from sysconfig import *;"
    ' print(get_config_var("LDVERSION"), get_path("include"), get_config_var("LIBDIR"))\');'
    " {mpicc} -w -DPROGRAM='\"{python}\"' -I$2 {programs}/embeds.c -o {folder}/embeds"
    " -L$3 -Wl,-rpath,$3 -lpython$1 -lpthread && exec {folder}/embeds"
)
COVERAGE = (
    "{python} -m coverage run --branch {script} databases;"
    " {python} -m coverage report --include='*facilities*' --precision=2"
)
DEBUGGER = (
    "printf 'b leaf\\nc\\nw\\nu\\np n\\ns\\nn\\nr\\ncl 1\\nc\\nq\\n'"
    " | {python} -m pdb {script} from-the-stack"
)
PROMPT = (
    "printf 'def f(x): return x\\n\\n[f(i) for i in range(3)]\\n1/0\\nexit(3)\\n' | {python} -i"
)


def _both(
    label: str,
    source: str,
    word: str,
    *flags: str,
    is_instrumented: bool = True,
    ranks: tuple[int, int] = (1, 3),
    **options: object,
) -> list[Program]:
    """A part of a program, with timed functions on the first number of ranks, and unchanged."""
    programs = []
    for count, how in zip(ranks, ("-finstrument-functions", "-g"), strict=True):
        programs.append(
            Program(
                f"unusual {label}, {how}",
                source,
                ("{program}", word),
                flags=(how if is_instrumented else "-g", *flags),
                ranks=count,
                **options,  # type: ignore[arg-type]
            )
        )
    return programs


def compiled() -> list[Program]:
    """C, C++ and Fortran programs, with timed functions and unchanged."""
    programs = []
    for word in IN_MACHINE:
        variables = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"} if word == "own-sequences" else {}
        differs = ENDS if word == "real-time-end" else ""
        programs += _both(word, "machine.c", word, *FLAGS, environment=variables, differs=differs)
    for word in IN_MPI:
        own = ("-DOWN_LAYER",) if word == "own-layer" else ()
        differs = ENDS if word == "accepts" else ""
        programs += _both(f"MPI: {word}", "rare_mpi.c", word, *FLAGS, *own, differs=differs)
    for word in IN_LIBRARY:
        programs += _both(f"C library: {word}", "hidden.c", word, *FLAGS, "-fopenmp")
    for word, flags in IN_CXX.items():
        programs += _both(f"C++: {word}", "library.cc", word, "-std=c++17", *FLAGS, *flags)
    for name, (word, flags) in BUILDS.items():
        programs += _both(
            f"build: {name}",
            "builds.c",
            word,
            *FLAGS,
            *flags,
            *LIBRARIES,
            is_instrumented=name != "transactions",  # calls of hooks are not safe in them
        )
    for word in IN_FORTRAN:
        traps = ("-ffpe-trap=invalid,zero,overflow",) if word == "traps" else ()
        is_end = word.startswith("stops")  # which rank the launcher ends first is chance
        programs += _both(
            f"Fortran: {word}",
            "units.f90",
            word,
            *traps,
            ranks=(1, 1 if is_end else 3),
            tools=("mpif90.{mpi}",),
            differs=ENDS if is_end else "",
        )
    return [*programs, *_preloaded(), *_started()]


def _preloaded() -> list[Program]:
    """Allocators and profilers that a job script preloads."""
    programs = []
    for name, (library, variables) in PRELOADED.items():
        path = f"/usr/lib/{library}"
        starts = {
            "C": ("builds.c", "{program} works"),
            "Python": ("facilities.py", "{python} {script} databases --mpi"),
        }
        if name == "electric fence":
            del starts["Python"]  # has not enough mappings of memory
        settings = " ".join(f"{variable}={value}" for variable, value in variables.items())
        for language, (source, command) in starts.items():
            programs.append(
                Program(
                    f"unusual preload in {language}: {name}",
                    source,
                    (*SHELL, f"export LD_PRELOAD={path}:$LD_PRELOAD {settings}; exec {command}"),
                    flags=(*FLAGS, "-g", *LIBRARIES),
                    tools=(path,),
                    ranks=1,
                    differs=OF_PROFILERS,
                    has_witness=False,
                )
            )
    return programs


def _started() -> list[Program]:
    """Programs that others start, or that start others."""
    starts = {name: ((*SHELL, script), ("-g",)) for name, script in TOOLS.items()}
    for how in ("--coverage", "-fprofile-generate"):
        starts[how] = ((*SHELL, COUNTS_OF_GCOV), (how,))
    for name, flags in {"32 bits": "-m32", "static": "-static-pie", "dynamic": ""}.items():
        build = f"gcc {flags} {{programs}}/helper.c -o {{folder}}/helper"
        run = "HELPER={folder}/helper exec {program} executes-helper"
        starts[f"executes {name}"] = ((*SHELL, f"{build} && {run}"), ("-g",))

    programs = []
    for name, (words, flags) in starts.items():
        programs.append(
            Program(
                f"unusual start: {name}",
                "builds.c",
                words,
                flags=(*FLAGS, *flags, *LIBRARIES),
                ranks=0 if name == "jobs of make" else 1,
                tools=(words[2].split()[0],) if name in ("heaptrack", "ltrace", "massif") else (),
                differs=OF_PROFILERS,
                has_witness=False,  # of tools and shells that pass the measurement on
            )
        )
    coarrays = "caf.mpich {programs}/caf.f90 -o {folder}/caf && mpiexec.mpich -n 3 {folder}/caf"
    return [
        *programs,
        Program(
            "unusual start: coarrays",
            words=(*SHELL, coarrays),
            ranks=0,
            tools=("caf.mpich",),
            mpis=("mpich",),
            versions=("3.11",),
            has_witness=False,
        ),
    ]


def interpreted() -> list[Program]:
    """Python programs on one and three ranks."""
    programs = []
    for word in WORDS:
        for ranks in (1, 3):
            programs.append(
                Program(
                    f"unusual Python of {ranks}: {word}",
                    "facilities.py",
                    ("{python}", "{script}", word, "--mpi"),
                    ranks=ranks,
                    packages=(PACKAGES[word],) if word in PACKAGES else (),
                    differs=DIFFERS.get(word, ""),
                )
            )
    starts = {
        "embedded": EMBEDDED,
        "report of coverage": COVERAGE,
        "report of coverage by events": f"export COVERAGE_CORE=sysmon; {COVERAGE}",
        "debugger that is told": DEBUGGER,
        "prompt that is told": PROMPT,
        "terminal": "script -q -e -c '{python} {script} positions' /dev/null",
        "pytest -n 2": "{python} -m pytest -q -n 2 -p no:cacheprovider {programs}/test_passes.py",
    }
    packages = {"pytest -n 2": ("xdist",), "report of coverage": ("coverage",)}
    for name, script in starts.items():
        programs.append(
            Program(
                f"unusual Python: {name}",
                "facilities.py",
                (*SHELL, script),
                ranks=1 if name == "embedded" else 0,
                packages=packages.get(name.removesuffix(" by events"), ()),
                differs=r"in [\d.]+s" if "pytest" in name else "",
                versions=("3.12", "3.13", "3.14", "3.15") if "events" in name else (),
                has_witness=False,
            )
        )
    return programs
