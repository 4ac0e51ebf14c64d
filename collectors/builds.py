"""Which build of a program a rank runs: two builds may differ by more than the number of ranks."""

import hashlib
import os
import re
from collections.abc import Sequence

from insitu.collectors.elf import read_build_id

PYTHON = re.compile(r"(python|pypy)[0-9.]*t?\Z")
COMMAND = re.compile(r"-[^-]*[cm]")  # `-m module`, `-c text`, also as `-Bm`
MAX_BYTES = 1 << 26  # of a file that is read
DIGEST_BYTES = 8


def identify_build(pid: int) -> str:
    """The build of the program that a process runs; empty if it is unknown or has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode("utf-8", "surrogateescape").split("\0")
        # What runs, although its path may have another file now.
        _, build = identify_program(f"/proc/{pid}/exe", words[1:], f"/proc/{pid}/cwd")
    except (OSError, ValueError):
        return ""
    return build


def identify_program(executable: str, words: Sequence[str], folder: str) -> tuple[str, str]:
    """Return the name of a program, and a text that differs between its builds.

    The text is the build id of a compiled program, else a digest of its file; of Python, a digest
    of the script that is run, not of what it imports. Empty if that is unknown.

    Args:
        executable: its path. words: its arguments. folder: its working directory.

    Raises:
        OSError: a file cannot be read.
    """
    name = os.path.basename(os.path.realpath(executable))
    if not PYTHON.match(name):
        return name, read_build_id(executable) or _digest(executable)
    for word in words:
        if COMMAND.match(word):
            break  # a module or a text is run, and files among its arguments are its input
        path = os.path.join(folder, word)
        if word and not word.startswith("-") and os.path.isfile(path):
            return os.path.basename(word), _digest(path)
    return name, ""


def _digest(path: str) -> str:
    if os.path.getsize(path) > MAX_BYTES:
        return ""
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=DIGEST_BYTES).hexdigest()
