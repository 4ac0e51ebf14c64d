"""Debian 12 for aarch64 under qemu, so that the collectors' tests run on another processor.

    python3 tests/support/arm64.py                 make the folder and install insitu in it
    python3 tests/support/arm64.py -- COMMAND...   copy this checkout there, run a command in it

The folder is `$INSITU_ARM64`, by default `~/.cache/insitu/arm64` (about 3 GB). Making it needs
root, debootstrap, qemu-user-static and a network. Nothing outside the folder changes: the kernel
(6.7 or newer) runs aarch64 programs for a user namespace of this script only.

Programs run about ten times slower than on this processor. The kernel's performance counters do
not work under qemu, and a process reads a shortened /proc/self/stat.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = (
    "ca-certificates,python3,python3-pip,python3-dev,gcc,g++,gfortran,libc6-dev,make,git,procps,"
    "iproute2,binutils"
)
QEMU = "/usr/bin/qemu-aarch64-static"
CHECKOUT = Path(__file__).resolve().parents[2]

# The rule of qemu's own `qemu-binfmt-conf.sh`: an ELF header, 64 bits, little-endian, machine 183.
# F opens qemu outside the folder; P keeps argv[0], from which Open MPI's mpicc takes its name.
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
RULE = f":qemu-aarch64:M::{MAGIC}:{MASK}:{QEMU}:FP"

# Runs in the namespaces: "$1" is the folder, the rest is the command.
ENTER = f"""
set -e
root=$1
shift
mount -t binfmt_misc none "$root/mnt"
printf '%s' '{RULE}' > "$root/mnt/register"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
exec chroot "$root" "$@"
"""


def main(arguments: list[str]) -> int:
    """Make the folder, or run a command in it."""
    folder = arm64_folder()
    if arguments[:1] == ["--"] and len(arguments) > 1:
        copy_checkout(folder)
        return enter(folder, ["sh", "-c", 'cd /root/insitu && exec "$@"', "sh", *arguments[1:]])
    if arguments:
        print(__doc__)
        return 0 if arguments[0] in ("-h", "--help") else 2

    for needed, package in ((QEMU, "qemu-user-static"), ("debootstrap", "debootstrap")):
        if shutil.which(needed) is None:
            print(f"this needs {package}: apt-get install {package}", file=sys.stderr)
            return 1
    if os.getuid() != 0:
        print("making the folder needs root", file=sys.stderr)
        return 1

    unpack_debian(folder)
    copy_checkout(folder)
    set_up = "import bootstrap; bootstrap.set_up(); bootstrap.install_second_mpi()"
    return enter(folder, ["sh", "-c", f"cd /root/insitu && exec python3 -c '{set_up}'"])


def arm64_folder() -> Path:
    """Folder of the aarch64 system, whether it exists or not."""
    return Path(os.environ.get("INSITU_ARM64", "~/.cache/insitu/arm64")).expanduser()


def unpack_debian(folder: Path) -> None:
    """Unpack Debian without running its packages' scripts: compiling and testing need none."""
    ready = folder / "etc" / "insitu-unpacked"
    if ready.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    options = ["--foreign", "--arch=arm64", "--variant=minbase", f"--include={PACKAGES}"]
    subprocess.run(["debootstrap", *options, SUITE, str(folder), MIRROR], check=True)

    for package in sorted((folder / "var" / "cache" / "apt" / "archives").glob("*.deb")):
        # Links such as /lib -> usr/lib stay: the archives name both.
        unpack = 'dpkg-deb --fsys-tarfile "$1" | tar -C "$2" -x --keep-directory-symlink'
        subprocess.run(["sh", "-c", unpack, "sh", str(package), str(folder)], check=True)
        package.unlink()

    (folder / "proc").unlink()  # debootstrap's link to the machine's own
    for name in ("proc", "mnt"):
        (folder / name).mkdir()
    for name, target in (("cc", "gcc"), ("c++", "g++"), ("awk", "mawk")):
        (folder / "usr" / "bin" / name).unlink(missing_ok=True)
        (folder / "usr" / "bin" / name).symlink_to(target)
    copy_network_settings(folder)
    for name in ("passwd", "group"):
        shutil.copy(Path("/etc", name), folder / "etc" / name)
    if enter(folder, ["ldconfig"]) != 0:
        sys.exit("ldconfig failed under qemu; see the messages above")
    ready.touch()


def copy_network_settings(folder: Path) -> None:
    """Let pip in the folder reach what it reaches here.

    Some networks have certificates and indices of their own, which a new Debian does not know.
    """
    for name in ("ssl/certs/ca-certificates.crt", "resolv.conf", "hosts", "pip.conf"):
        source, copy = Path("/etc", name), folder / "etc" / name
        if source.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)  # a link would lead out of the folder
            shutil.copy(source, copy)


def copy_checkout(folder: Path) -> None:
    """Copy this checkout's files to /root/insitu; what was built there stays."""
    target = folder / "root" / "insitu"
    target.mkdir(parents=True, exist_ok=True)
    copy = 'git ls-files -z -co --exclude-standard | tar -c --null -T - | tar -C "$1" -x'
    subprocess.run(["sh", "-c", copy, "sh", str(target)], cwd=CHECKOUT, check=True)


def enter(folder: Path, command: Sequence[str]) -> int:
    """Run a command in the folder, under qemu; its exit code."""
    namespaces = ["unshare", "--user", "--map-root-user", "--mount"]
    environment = {
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        # Open MPI asks for these where root starts it; the root of a user namespace counts.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # qemu 7.2 has no process_vm_readv, with which MPICH copies between ranks.
        "MPIR_CVAR_CH4_CMA_ENABLE": "0",
    }
    words = [*namespaces, "sh", "-c", ENTER, "sh", str(folder), *command]
    return subprocess.call(words, env={**os.environ, **environment})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
