"""The environment of insitu's own processes: the agent, the aggregator, the page.

What the user sets so that the program runs in another way (`PYTHONTRACEMALLOC`, `PYTHONOPTIMIZE`,
`PYTHONWARNINGS`, `PYTHONINSPECT`) is meant for the program. It would slow down or stop insitu, too:
with `PYTHONTRACEMALLOC=3` the aggregator needs more than 20 s to start. The dynamic linker and the
C library would write what they are asked for of insitu's processes into the program's files, too
(`LD_DEBUG_OUTPUT`, `MALLOC_TRACE`).
"""

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from collections.abc import Mapping

OF_THE_PROGRAM = ("PYTHON", "LD_", "MALLOC_")
# Variables that say where Python and its libraries are found and which character set is used.
KEPT = {
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PYTHONCOERCECLOCALE",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHOME",
    "PYTHONIOENCODING",
    "PYTHONNOUSERSITE",
    "PYTHONPATH",
    "PYTHONPLATLIBDIR",
    "PYTHONPYCACHEPREFIX",
    "PYTHONUSERBASE",
    "PYTHONUTF8",
}


def own_environment(environment: "Mapping[str, str]") -> dict[str, str]:
    """Return an environment without the variables that change how a program runs."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(OF_THE_PROGRAM) or name in KEPT
    }
