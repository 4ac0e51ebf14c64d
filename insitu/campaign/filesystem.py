"""On which file system a path lies: write-ahead logs are safe on local disks only."""

import os

MOUNTS = "/proc/mounts"

# SQLite's write-ahead log needs memory shared between all processes that use the file, which no
# network file system gives. What is not named here is taken for a network: slower, never wrong.
LOCAL = frozenset(
    (
        "apfs",
        "bcachefs",
        "btrfs",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "jfs",
        "overlay",
        "ramfs",
        "reiserfs",
        "tmpfs",
        "ufs",
        "xfs",
        "zfs",
    )
)


def file_system(path: str, mounts: str = MOUNTS) -> str:
    """Name the type of the file system that holds `path`: `ext4`, `lustre`; empty where unknown.

    Args:
        path: an existing file or directory.
        mounts: a file in the format of /proc/mounts.
    """
    real = os.path.realpath(path)
    found, kind = "", ""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                fields = line.split(" ")
                if len(fields) < 3:
                    continue
                point = _unescaped(fields[1])
                holds = point in ("/", real) or real.startswith(point + "/")
                if holds and len(point) >= len(found):  # a later mount hides an earlier one
                    found, kind = point, fields[2]
    except OSError:
        return ""
    return kind


def is_local(path: str, mounts: str = MOUNTS) -> bool:
    """Whether `path` lies on a disk of this machine."""
    return file_system(path, mounts) in LOCAL


def _unescaped(point: str) -> str:
    """Undo the octal escapes of /proc/mounts (proc_mounts(5)): blank, tab, newline, backslash."""
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        point = point.replace("\\" + code, character)
    return point
