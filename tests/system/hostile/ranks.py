"""Hostile programs: what a rank of MPI does to its own process, alone and beside another one."""

from tests.system.hostile.program import Program

# Lines of launchers about a program that failed, which differ between any two runs.
ENDS = (
    r"PID|pid|HOST|host|=====|YOUR APPLICATION|CLEANUP|EXIT|RANK|rank|prterun|mpirun|^-+$|Abort"
    r"|^\[|Process name|UCX|backtrace|^ *\d+  /"
)
FAILING = (
    *("calls-after-finalize", "filter-kills", "ends-in-thread", "kills-itself", "exit-order"),
    *("closed-streams", "broken-output", "full-output", "alarm-ends", "ends-job", "refuses"),
    *("finalizes-twice", "drops-rights"),
)
WORDS = (
    *("timers-and-messages", "pools fork", "pools spawn", "pools forkserver", "small-threads"),
    *("greenlets", "leaves-folder", "ignores-children", "finalizes-twice"),
    *("calls-after-finalize", "hooks", "monitoring-tools", "filter-kills", "not-dumpable"),
    *("drops-rights", "starts-processes", "leaves-children", "ends-in-thread", "kills-itself"),
    *("exit-order", "closed-streams", "broken-output", "full-output", "alarm-ends"),
    *("frozen-collector", "refuses", "errors-in-threads", "depth-limits", "calls-from-c"),
    *("errors-of-mpi", "ends-job", "asynchronous-errors", "switches-often"),
    *("waits-for-signals", "temporary-modules"),
)
WORDS_IN_CXX = (
    *("exceptions-in-callbacks", "uncaught", "threads-and-futures", "contexts"),
    *("timers-on-own-stack", "children", "no-children", "closes-all", "leaves-folder"),
    *("empty-filesystems", "small-limits", "processor-limit", "finalizes-twice"),
    *("forgets-finalize", "handles-crash", "large-frames", "small-stacks", "abort-in-thread"),
    "interposed",
)
FAILING_IN_CXX = (
    *("uncaught", "closes-all", "processor-limit", "finalizes-twice", "forgets-finalize"),
    *("handles-crash", "abort-in-thread", "small-limits"),
)


def interpreted() -> list[Program]:
    """Ranks of Python."""
    programs = []
    for word in WORDS:
        for ranks in (1, 2):
            programs.append(
                Program(
                    f"rank of {ranks}: {word}",
                    "ranks.py",
                    ("{python}", "{script}", *word.split()),
                    ranks=ranks,
                    packages=("greenlet",) if word == "greenlets" else (),
                    differs=ENDS if word in FAILING else "",
                    is_fast=ranks == 2 and word in ("timers-and-messages", "small-threads"),
                )
            )
    return programs


def compiled() -> list[Program]:
    """Ranks of C++, with timed functions and unchanged."""
    programs = []
    for word in WORDS_IN_CXX:
        for ranks, how in ((1, "-finstrument-functions"), (2, "-finstrument-functions"), (2, "-g")):
            programs.append(
                Program(
                    f"C++ {how} rank of {ranks}: {word}",
                    "ranks.cc",
                    ("{program}", word),
                    flags=("-std=c++17", "-pthread", "-O1", how),
                    ranks=ranks,
                    differs=ENDS if word in FAILING_IN_CXX else "",
                    is_fast=word == "exceptions-in-callbacks" and how == "-g",
                )
            )
    return programs
