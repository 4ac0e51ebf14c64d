"""Open campaign.db, upgrade its format, choose its journal mode, and explain SQLite's errors."""

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from insitu.campaign import schema
from insitu.campaign.filesystem import is_local
from insitu.campaign.layout import DATABASE
from insitu.errors import CampaignError
from insitu.private_files import sync_directory

LOCKED_WAIT_S = 10.0
LOG_SUFFIXES = ("-wal", "-journal")  # transactions that are not in the database file, or only half


def connect(path: str) -> sqlite3.Connection:
    """Open the database of the campaign in directory `path`, upgraded to the current format.

    A campaign that this process may not write, such as an archive or that of another user, is
    opened as it is. Writing to it raises an error.

    Raises:
        CampaignError: written by a newer insitu, locked, damaged, not permitted.
    """
    file = os.path.join(path, DATABASE)
    if os.path.exists(file) and not is_writable(path):
        return connect_to_read(path)

    with explain_errors(path):
        connection = sqlite3.connect(
            file, timeout=LOCKED_WAIT_S, isolation_level=None, check_same_thread=False
        )
        try:
            _check_format(connection, path)
            _choose_journal(connection, path)
            _upgrade(connection, path)
        except BaseException:
            connection.close()
            raise

    return connection


def is_writable(path: str) -> bool:
    """Whether this process may write the database of the campaign in directory `path`.

    SQLite writes other files beside the database, so the directory counts as well.
    """
    return os.access(path, os.W_OK) and os.access(os.path.join(path, DATABASE), os.W_OK)


def connect_to_read(path: str) -> sqlite3.Connection:
    """Open a database without writing to its file or its directory.

    SQLite reads a database with a write-ahead log only if it can use the shared memory beside it.
    Where it cannot, the file is all there is if no log lies beside it. If one does, a copy of both
    is read: the log contains what the file lacks, or what restores it.
    """
    file = os.path.join(path, DATABASE)
    with explain_errors(path):
        try:
            connection = _open_uri(file, "mode=ro")
        except sqlite3.OperationalError:
            if any(_size(file + suffix) for suffix in LOG_SUFFIXES):
                connection = _open_copy(file)
            else:
                connection = _open_uri(file, "immutable=1")
        try:
            _check_format(connection, path)
        except BaseException:
            connection.close()
            raise

    return connection


def _open_uri(file: str, options: str) -> sqlite3.Connection:
    """Open a database for reading.

    Raises:
        sqlite3.Error: it cannot be read in this way.
    """
    connection = sqlite3.connect(
        f"file:{quote(os.path.abspath(file))}?{options}",
        uri=True,
        timeout=LOCKED_WAIT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        _format(connection)  # SQLite opens the file at the first query
    except BaseException:
        connection.close()
        raise

    return connection


def _open_copy(file: str) -> sqlite3.Connection:
    """Read a copy of a database and its log into memory."""
    import shutil  # every run would wait for these two
    import tempfile

    with tempfile.TemporaryDirectory(prefix="insitu-") as folder:
        copy = os.path.join(folder, DATABASE)
        for suffix in ("", *LOG_SUFFIXES):
            if os.path.exists(file + suffix):
                shutil.copyfile(file + suffix, copy + suffix)
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        with sqlite3.connect(copy) as source:
            source.backup(connection)
        source.close()
    return connection


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def make_directory(path: str) -> None:
    """Create the campaign's directory, accessible by its owner only.

    Raises:
        CampaignError: it cannot be created.
    """
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        os.mkdir(path, 0o700)
        sync_directory(os.path.dirname(os.path.abspath(path)))
    except FileExistsError:
        if not os.path.isdir(path):
            raise CampaignError(f"{path}: is a file; name a directory for the campaign") from None
    except OSError as error:
        raise CampaignError(f"{path}: cannot be created: {_os_hint(error)}") from error


@contextmanager
def explain_errors(path: str) -> Iterator[None]:
    """Turn errors of SQLite and the system into a CampaignError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise CampaignError(f"{path}: {_hint(error)}") from error
    except OSError as error:
        raise CampaignError(f"{path}: {_os_hint(error)}") from error


def _check_format(connection: sqlite3.Connection, path: str) -> None:
    file_format = _format(connection)
    application = _pragma(connection, "application_id")
    is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != schema.APPLICATION_ID and not (file_format == 0 and is_empty):
        raise CampaignError(f"{path}: {DATABASE} is not an insitu campaign; name another directory")

    if file_format > schema.FORMAT:
        raise CampaignError(
            f"{path}: has format {file_format}, but this insitu reads formats up to"
            f" {schema.FORMAT}; update insitu to read it"
        )


def _choose_journal(connection: sqlite3.Connection, path: str) -> None:
    """Use a write-ahead log, which lets others read during a write, where it is safe: locally."""
    mode = "WAL" if is_local(path) else "TRUNCATE"
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("PRAGMA synchronous = FULL")  # a commit is durable when it returns
    connection.execute("PRAGMA foreign_keys = ON")


def _upgrade(connection: sqlite3.Connection, path: str) -> None:
    if _format(connection) == schema.FORMAT:
        return

    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read the format again: another process may have upgraded the file meanwhile.
        for step in schema.STEPS[_format(connection) :]:
            for statement in _statements(step):
                connection.execute(statement)
        connection.execute(
            "INSERT OR IGNORE INTO campaign VALUES ('created at', ?)", (str(int(time.time())),)
        )
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {schema.FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise

    os.chmod(os.path.join(path, DATABASE), 0o600)
    sync_directory(path)


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements; `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def has_checksums(connection: sqlite3.Connection) -> bool:
    """Whether the file has checksums; one of the first format that cannot be written has none."""
    return _format(connection) > 1


def has_shared_classes(connection: sqlite3.Connection) -> bool:
    """Whether the file has the tables of the third format."""
    return _format(connection) > 2


def has_class_means(connection: sqlite3.Connection) -> bool:
    """Whether the file has the tables of the fourth format."""
    return _format(connection) > 3


def _format(connection: sqlite3.Connection) -> int:
    return _pragma(connection, "user_version")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


_HINTS = {
    "SQLITE_FULL": "the disk is full; what was just written is undone, and everything before it"
    " is intact."
    " Free some space and try again",
    "SQLITE_BUSY": f"another process has been writing for {LOCKED_WAIT_S:.0f} s; wait for it or"
    " end it",
    "SQLITE_LOCKED": "another process is writing; wait for it or end it",
    "SQLITE_READONLY": "cannot be written; check the permissions of the directory and its files",
    "SQLITE_CANTOPEN": "cannot be opened; check the permissions of the directory and its files",
    "SQLITE_PERM": "access denied; check the permissions of the directory and its files",
    "SQLITE_NOTADB": f"{DATABASE} is not a campaign, or is damaged; restore it from a backup",
    "SQLITE_CORRUPT": f"{DATABASE} is damaged; restore it from a backup, or recover what is left"
    f" with `sqlite3 {DATABASE} .recover`",
    "SQLITE_IOERR": "the disk failed to read or write; check its free space, quota and health",
}


def _hint(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorname", "") or ""
    for name, hint in _HINTS.items():
        if code == name or code.startswith(name + "_"):
            return hint
    return f"SQLite reports: {error} ({code or type(error).__name__})"


def _os_hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _HINTS["SQLITE_FULL"]
    return f"{error.strerror or error}"
