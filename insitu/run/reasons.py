"""Why nothing of a run was measured: only reasons that were checked."""

import os
import shutil
import stat
from collections.abc import Sequence

from insitu.collectors import library
from insitu.collectors.elf import is_of_musl, is_static
from insitu.launch.base import LAUNCHER_NAMES
from insitu.launch.find import library_of

ELF_MAGIC = b"\x7fELF"
SEPARATORS = set(" \t\n:")  # of the words of LD_PRELOAD


def describe_unmeasured(command: Sequence[str], campaign: str) -> str:
    """Return why no rank of a run was measured, as far as it is known.

    Args:
        command: the program with its arguments.
        campaign: path of the campaign.
    """
    name, path = _find_program(command)
    try:
        reason = _find_reason(name, path)
    except OSError:
        reason = ""
    if reason:
        return f"no rank of this run was measured: {reason}"
    return (
        f"no rank of this run was measured: no process of {command[0]} wrote a table. Programs are"
        " measured if they are Python 3.11 or newer, or call MPI_Init of a shared MPI library. If"
        f" the tables are only late, run: insitu ingest {campaign}"
    )


def _find_reason(name: str, path: str) -> str:
    """Why this program cannot be measured; "" if no reason is known.

    Raises:
        OSError: the program cannot be read.
    """
    if not path or not _is_elf(path):
        return ""
    if os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID):
        return (
            f"{name} runs with the rights of another user or group (setuid), for which the system"
            " preloads no library"
        )
    if is_static(path):
        return (
            f"{name} is linked statically; link it with a shared C library and a shared MPI library"
        )
    if is_of_musl(path):
        return f"{name} is linked with musl; the native library needs glibc"

    native = library.find()
    if not native:
        return "the native library is not built; `insitu doctor` says why"
    if SEPARATORS & set(native):
        return f"the path of the native library, {native}, contains a blank or a colon"
    if not library_of(path)[0]:
        return f"{name} is not linked with a shared MPI library (`ldd {path}` lists none)"
    return ""


def _find_program(command: Sequence[str]) -> tuple[str, str]:
    """The first program of a command that is no launcher, and its path; "" if there is none."""
    is_launched = os.path.basename(command[0]) in LAUNCHER_NAMES
    words = command[1:] if is_launched else command[:1]
    for word in words:
        path = shutil.which(word)
        if path and os.path.basename(word) not in LAUNCHER_NAMES:
            return word, path
    return command[0], ""


def _is_elf(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(ELF_MAGIC)) == ELF_MAGIC
