"""The environment of insitu's own processes: the agent, the aggregator, the page.

What the user sets so that the program runs in another way (`PYTHONTRACEMALLOC`, `PYTHONOPTIMIZE`,
`PYTHONWARNINGS`, `PYTHONINSPECT`) is meant for the program. It would slow down or stop insitu, too:
with `PYTHONTRACEMALLOC=3` the aggregator needs more than 20 s to start.
"""

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from collections.abc import Mapping

# Variables that say where Python finds its files and which character set is used.
KEPT = {
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
    """Return an environment without the variables that change how Python runs a program."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("PYTHON") or name in KEPT
    }
