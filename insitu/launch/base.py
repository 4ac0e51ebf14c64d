"""The interface of launchers: each translates a job into a command line and runs nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol, cast

LAUNCHERS = {
    "openmpi": "insitu.launch.mpiexec:OpenMPI",
    "mpich": "insitu.launch.mpiexec:MPICH",
    "srun": "insitu.launch.srun:Srun",
    "local": "insitu.launch.local:Local",
}

# Programs that start ranks; the words after them are their own options.
LAUNCHER_NAMES = frozenset(
    (
        *("mpiexec", "mpirun", "orterun", "prterun", "srun", "aprun", "jsrun", "lrun", "ibrun"),
        *("flux", "mpiexec.hydra", "mpiexec.gforker", "mpiexec.mpich", "mpirun.mpich"),
        *("mpiexec.openmpi", "mpirun.openmpi"),
    )
)


@dataclass(frozen=True, slots=True)
class Job:
    """What to start.

    Attributes:
        argv: the program with its arguments.
        ranks: how many ranks.
        environment: variables to set in each rank.
        cores: processor cores available to this process.
        is_root: whether the user is root, which Open MPI refuses by default.
    """

    argv: tuple[str, ...]
    ranks: int
    environment: Mapping[str, str] = field(default_factory=dict)
    cores: int = 1
    is_root: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute: arguments, and environment variables to add to the current ones."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


class Launcher(Protocol):
    """Translates jobs into commands."""

    name: str

    def command(self, job: Job) -> Command:
        """Return the command that starts the ranks of a job."""


def load_launcher(name: str, program: str) -> Launcher:
    """Load a launcher of LAUNCHERS; `program` is the path of its executable."""
    module, _, attribute = LAUNCHERS[name].partition(":")
    return cast(Launcher, getattr(import_module(module), attribute)(program))
