"""The Pythons of this machine."""

import functools
import glob
import os
import shutil
import subprocess
import sys

from tests.support import sid

VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
# Of the Pythons, the plain suite tries the one that it runs in.
OWN_FIRST = sorted(VERSIONS, key=lambda version: not sys.version.startswith(version + "."))


@functools.cache
def find_python(version: str) -> str:
    """Path of an interpreter of that version; empty if there is none.

    It is this interpreter, one on PATH, one of pyenv or one of Debian sid, in this order.
    """
    if sys.version.startswith(version + "."):
        return sys.executable
    candidates = [
        shutil.which(f"python{version}"),
        *pyenv_pythons(version),
        sid.interpreter(version),
    ]
    check = "import sys; print('%d.%d' % sys.version_info[:2])"
    for path in candidates:
        if path is None or not os.path.exists(path):
            continue
        answer = subprocess.run([path, "-c", check], capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return str(path)
    return ""


def pyenv_pythons(version: str) -> list[str]:
    """Paths of the interpreters of pyenv of that version; none where its folder is unreadable."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    return sorted(glob.glob(f"{root}/versions/{version}.*/bin/python"))


def why_missing(version: str) -> str:
    """Return the reason for which a test is skipped if there is no such interpreter."""
    reason = f"no Python {version} on PATH or among pyenv's"
    if version in sid.VERSIONS:
        reason += ", and none of Debian sid: python3 tests/support/sid.py"
    return reason


@functools.cache
def find_free_threaded() -> str:
    """Path of an interpreter without a global interpreter lock; empty if there is none.

    It is that of `$INSITU_FREE_THREADED`, or the newest on PATH.
    """
    names = [f"python{version}t" for version in reversed(VERSIONS)]
    candidates = [os.environ.get("INSITU_FREE_THREADED", ""), *map(shutil.which, names)]
    return next((path for path in candidates if path), "")
