"""What a launcher is: a pure translation of a job into a command line."""

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

# Programs that start ranks themselves: what follows is theirs.
LAUNCHER_NAMES = frozenset(
    (
        *("mpiexec", "mpirun", "orterun", "prterun", "srun", "aprun", "jsrun", "lrun", "ibrun"),
        *("flux", "mpiexec.hydra", "mpiexec.gforker", "mpiexec.mpich", "mpirun.mpich"),
        *("mpiexec.openmpi", "mpirun.openmpi"),
    )
)


@dataclass(frozen=True, slots=True)
class Job:
    """What should run: the program with its arguments, how many ranks, what its environment
    gets."""

    argv: tuple[str, ...]
    ranks: int
    environment: Mapping[str, str] = field(default_factory=dict)
    cores: int = 1
    is_root: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute: arguments, and environment variables besides the present ones."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


class Launcher(Protocol):
    """Says what to run, never runs it."""

    name: str

    def command(self, job: Job) -> Command:
        """The command line that starts the ranks of this job."""


def launcher(name: str, program: str) -> Launcher:
    """The launcher of that name; `program` is the path of its executable."""
    module, _, attribute = LAUNCHERS[name].partition(":")
    return cast(Launcher, getattr(import_module(module), attribute)(program))
