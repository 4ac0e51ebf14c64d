"""The Pythons of this machine."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13")


@functools.cache
def find_python(version: str) -> str:
    """An interpreter of that version, or "": this one, one on PATH, one of pyenv's."""
    if sys.version.startswith(version + "."):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    places = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    for path in places:
        check = "import sys; print('%d.%d' % sys.version_info[:2])"
        if path is not None:
            asked = subprocess.run([path, "-c", check], capture_output=True, text=True, check=False)
            if asked.stdout.strip() == version:
                return str(path)
    return ""
