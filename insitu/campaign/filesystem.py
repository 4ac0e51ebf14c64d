"""Find out whether a path is on a local disk, where a write-ahead log is safe."""

import os

MOUNTS = "/proc/mounts"

# SQLite's write-ahead log needs memory that all processes using the file share, which no network
# file system provides. A type that is not listed here is treated as a network file system, where
# the database is slower but always correct.
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
    """The type of the file system that holds `path`, such as `ext4`; empty if it is unknown.

    Args:
        path: an existing file or directory.
        mounts: a file in the format of /proc/mounts.
    """
    real_path = os.path.realpath(path)
    mount_point, kind = "", ""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                fields = line.split(" ")
                if len(fields) < 3:
                    continue
                point = _unescape(fields[1])
                contains_path = point in ("/", real_path) or real_path.startswith(point + "/")
                # >=, since a later mount on the same point hides an earlier one
                if contains_path and len(point) >= len(mount_point):
                    mount_point, kind = point, fields[2]
    except OSError:
        return ""

    return kind


def is_local(path: str, mounts: str = MOUNTS) -> bool:
    """Whether `path` is on a disk of this machine."""
    return file_system(path, mounts) in LOCAL


def _unescape(point: str) -> str:
    """Undo the octal escapes of /proc/mounts (proc_mounts(5)): space, tab, newline, backslash."""
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        point = point.replace("\\" + code, character)
    return point
