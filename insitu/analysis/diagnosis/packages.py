"""Installed packages that are a part of the program, since they call MPI.

Functions of installed packages are the work of the function that calls them: a user of numpy wants
to read about the own function, not about `numpy.sum`. But programs such as GPAW are installed as
packages, and a script that uses a package may have no function of its own.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from insitu.entities import CallPath, is_start_up

INSTALLED_FILE = re.compile(r"/(site|dist)-packages/")
BINDINGS = frozenset(("mpi4py",))  # are called wherever a program calls MPI
# Functions with calls of MPI that make a package a program: GPAW has 44, dolfinx 7, h5py fewer.
LEAST_FUNCTIONS = 12

Site = tuple[str, int]  # file and line where a function is defined


@dataclass(frozen=True, slots=True)
class MpiPackages:
    """Installed packages whose functions call MPI.

    Attributes:
        all: every such package.
        programs: those of which so many functions do that they are programs, not libraries.
    """

    all: frozenset[str]
    programs: frozenset[str]


def package_of(path: CallPath, sites: Mapping[CallPath, Site]) -> str:
    """The installed package of the last function of a call path, "" if it belongs to none."""
    file, _ = sites.get(path, ("", 0))
    package, dot, _ = path.name.partition(".")
    return package if dot and INSTALLED_FILE.search(file) else ""


def find_mpi_packages(calls: Iterable[CallPath], sites: Mapping[CallPath, Site]) -> MpiPackages:
    """Find the installed packages that call MPI.

    Args:
        calls: the call paths that end in a call of MPI.
        sites: where functions are defined.
    """
    functions: dict[str, set[str]] = {}
    for path in calls:
        if path.parent is not None and not is_start_up(path):
            functions.setdefault(package_of(path.parent, sites), set()).add(path.parent.name)
    packages = functions.keys() - BINDINGS - {""}
    programs = (name for name in packages if len(functions[name]) >= LEAST_FUNCTIONS)
    return MpiPackages(frozenset(packages), frozenset(programs))
