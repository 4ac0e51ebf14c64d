"""Files and directories that only the current user can access.

Tokens, keys, addresses and tables are trusted because nobody else could have written them. A rank
imports this module: it uses nothing but `os` and `stat`.
"""

import os
import stat

OTHERS = 0o077  # any permission of the group or of everybody else


def is_private(status: os.stat_result) -> bool:
    """Whether a file belongs to the current user and grants no permission to anybody else."""
    return status.st_uid == os.getuid() and not status.st_mode & OTHERS


def make_private_directory(path: str) -> None:
    """Create a directory of mode 0700, or check that an existing one is private.

    Raises:
        OSError: the directory cannot be created, or the path is no private directory of this user.
    """
    try:  # noqa: SIM105  contextlib is not loaded in a rank
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass

    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or not is_private(status):
        raise PermissionError(
            13,
            "must be a directory that you own and that only you can enter (mode 0700);"
            " remove it or correct its mode",
            path,
        )


def read_private_file(path: str) -> str:
    """Return the text of a private file. A symbolic link is not followed.

    Raises:
        OSError: the file cannot be opened, belongs to another user, or is accessible to others.
        ValueError: the file is not UTF-8.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(file, encoding="utf-8") as stream:
        # Check the open file, not its path: the path may be replaced at any time.
        if not is_private(os.fstat(file)):
            raise PermissionError(
                13, "must belong to you and be readable only by you (mode 0600)", path
            )
        return stream.read()


def write_private_file(path: str, text: str) -> None:
    """Write a file of mode 0600. Readers see the old content or all of the new one.

    Raises:
        OSError: the file cannot be written.
    """
    new_path = f"{path}.{os.getpid()}"
    file = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(file)
        os.replace(new_path, path)
    except OSError:
        if os.path.exists(new_path):
            os.unlink(new_path)
        raise
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make the names in a directory durable; an empty path is the current one.

    Without it, a file that was synced may have no name after a power failure. Some file systems
    cannot sync a directory; they are left as they are.
    """
    try:
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
