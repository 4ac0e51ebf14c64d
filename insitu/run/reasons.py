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
MAX_FIRST_LINE = 256  # bytes of `#!` and an interpreter that Linux reads
SEPARATORS = set(" \t\n:")  # of the words of LD_PRELOAD


def describe_unmeasured(command: Sequence[str], campaign: str, code: int) -> str:
    """Return why no rank of a run was measured, as far as it is known.

    Args:
        command: the program with its arguments.
        campaign: path of the campaign.
        code: exit code of the command.
    """
    name, path = _find_program(command)
    try:
        reason = _find_reason(name, path) if path else _describe_missing(command)
    except OSError:
        reason = ""

    ended = f"; {os.path.basename(command[0])} ended with exit code {code}" if code else ""
    if reason:
        return f"no rank of this run was measured: {reason}{ended}"
    return (
        f"no rank of this run was measured: no process of {command[0]} wrote a table{ended}."
        " Programs are measured if they are Python 3.11 or newer, or call MPI_Init of a shared MPI"
        f" library. If the tables are only late, run: insitu ingest {campaign}"
    )


def _describe_missing(command: Sequence[str]) -> str:
    """Which program of a launcher does not exist or cannot be executed; "" if that is unclear.

    The options of launchers, and which of them take values, are not known: where several words may
    be the program, all are named.

    Args:
        command: of a launcher, none of whose words is a program.
    """
    words = [word for word in command[1:] if _may_be_program(word)]
    if not words:
        return ""

    missing = [word for word in words if "/" in word and not os.path.exists(word)]
    if missing:
        return f"{missing[0]} does not exist"
    if len(words) > 1:
        return f"none of {', '.join(words)} is a program that can be executed"
    if os.path.isfile(words[0]):
        return f"{words[0]} is not executable; run chmod +x {words[0]}"
    return f"{words[0]} was not found on PATH"


def _may_be_program(word: str) -> bool:
    """Whether a word of a launcher is no option, number, variable or launcher."""
    is_setting = word.startswith("-") or "=" in word or word.isdecimal()
    return not is_setting and os.path.basename(word) not in LAUNCHER_NAMES


def _find_reason(name: str, path: str) -> str:
    """Why this program cannot be measured; "" if no reason is known.

    Raises:
        OSError: the program cannot be read.
    """
    if not _is_elf(path):
        return _describe_interpreter(name, path)
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
        # A shell, `env` and the like only start the program.
        return (
            f"{name} is not linked with a shared MPI library (`ldd {path}` lists none), and no"
            " program that it started wrote a table"
        )
    return ""


def _describe_interpreter(name: str, path: str) -> str:
    """That the interpreter of a script does not exist; "" if it does."""
    with open(path, "rb") as file:
        first_line = os.fsdecode(file.readline(MAX_FIRST_LINE))
    words = first_line.removeprefix("#!").split()
    if not first_line.startswith("#!") or not words or os.path.exists(words[0]):
        return ""
    return f"the interpreter of {name}, {words[0]}, does not exist"


def _find_program(command: Sequence[str]) -> tuple[str, str]:
    """The first program of a command that is no launcher, and its path; "" if there is none."""
    is_launched = os.path.basename(command[0]) in LAUNCHER_NAMES
    words = command[1:] if is_launched else command[:1]
    for word in words:
        path = shutil.which(word)
        if path and os.path.basename(word) not in LAUNCHER_NAMES:
            return word, path
        if "/" in word and _may_be_program(word) and not os.path.exists(word):
            break  # what follows are its arguments
    return command[0], ""


def _is_elf(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(ELF_MAGIC)) == ELF_MAGIC
