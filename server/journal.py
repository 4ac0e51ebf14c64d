"""The journal of a campaign: messages that agents were promised are durable, until a run is stored.

An append-only file of frames, each behind its length and checksum. A node's Hello, Paths, last
Totals and Bye are synced together; only then do agents remove their tables. A record that is cut
short at the end was never promised to any agent and is removed. Anything else that is not intact
is damage: the file is kept, and the intact records of other nodes are used.
"""

import os
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import Self

from insitu.campaign.layout import AGGREGATOR_JOURNAL
from insitu.errors import CampaignError, WireError
from insitu.wire.codec import decode, encode
from insitu.wire.messages import MAGIC, MAX_FRAME_BYTES, Hello, Message

HEAD = b"INSJ0001"  # magic and version; every later version reads this one
_RECORD = struct.Struct("<II")  # bytes of the frame, CRC-32 of the frame


class Journal:
    """An open journal. The campaign's lock ensures that only one process has it open."""

    def __init__(self, campaign: str) -> None:
        """Open the journal in the directory of a campaign, or create it.

        Raises:
            CampaignError: it cannot be opened.
        """
        self.path = os.path.join(campaign, AGGREGATOR_JOURNAL)
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _sync_directory(campaign)
        except OSError as error:
            raise CampaignError(f"{self.path}: {error.strerror}") from error

        self.damage = ""  # what the replay found damaged, for the user
        self._sizes: dict[str, int] = {}  # bytes of records, by run that is not stored yet
        self._end = os.fstat(self._file).st_size
        self._unsynced: list[tuple[str, int]] = []  # run and bytes of each append since `sync`

    def replay(self) -> Iterator[Message]:
        """Yield all messages in order, then remove what is damaged from the file.

        Messages of a node are only meaningful together. Behind a damaged record, the replay
        continues with the next Hello. A copy of a damaged file is kept; see `damage`.

        Raises:
            CampaignError: the file cannot be read or was written by a newer insitu.
        """
        with open(self._file, "rb", closefd=False) as file:
            file.seek(0)
            data = file.read()
        if data[: len(HEAD)] != HEAD[: len(data)]:
            raise CampaignError(
                f"{self.path}: not a journal that this insitu can read; update insitu"
            )

        run, is_skipping = "", False
        intact = bytearray(HEAD)
        position = len(HEAD)
        while position < len(data):
            frame = _frame_at(data, position)
            if frame is None:
                is_skipping = True
                position = _next_record(data, position + 1)
                continue

            position += _RECORD.size + len(frame)
            try:
                message = decode(frame)
            except WireError as error:
                raise CampaignError(f"{self.path}: {error}; update insitu") from error
            if isinstance(message, Hello):
                run, is_skipping = message.run, False
            if is_skipping:
                continue

            record = _as_record(frame)
            intact += record
            self._sizes[run] = self._sizes.get(run, 0) + len(record)
            yield message

        self._end = len(intact) if len(data) >= len(HEAD) else 0
        if self._end < len(data):
            self._repair(data, bytes(intact[: self._end]))

    def _repair(self, data: bytes, intact: bytes) -> None:
        """Reduce the file to its intact records, and keep a copy if anything else is lost.

        Bytes of a record that was never written to its end are no loss: no agent was promised it.
        """
        if data.startswith(intact) and _is_torn(data[len(intact) :]):
            os.ftruncate(self._file, len(intact))
            return

        copy = f"{self.path}.damaged-{time.time_ns()}"
        try:
            with open(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CampaignError(f"{copy}: {error.strerror}; free some space") from error
        self._replace(intact)
        self.damage = (
            f"{self.path} was damaged: {len(data) - len(intact)} of {len(data)} bytes cannot be"
            f" used, and nodes of runs that waited there may be missing. The file is kept as {copy}"
        )

    def append(self, run: str, messages: Iterable[Message]) -> None:
        """Append messages of one run; `sync` makes them durable.

        Raises:
            CampaignError: they could not be written; the journal is unchanged.
        """
        frames = [encode(message) for message in messages]
        data = b"".join(_as_record(frame) for frame in frames)
        try:
            if self._end == 0:
                data = HEAD + data
            _write(self._file, data, self._end)
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise self._write_error(error) from error

        self._end += len(data)
        self._sizes[run] = self._sizes.get(run, 0) + len(data)
        self._unsynced.append((run, len(data)))

    def sync(self) -> None:
        """Make everything durable that was appended since the last call.

        Raises:
            CampaignError: none of it could be made durable; it is removed from the journal.
        """
        if not self._unsynced:
            return

        unsynced, self._unsynced = self._unsynced, []
        try:
            os.fdatasync(self._file)
        except OSError as error:
            for run, size in unsynced:
                self._end -= size
                self._sizes[run] = self._sizes.get(run, size) - size
            os.ftruncate(self._file, self._end)
            raise self._write_error(error) from error

    def _write_error(self, error: OSError) -> CampaignError:
        return CampaignError(
            f"{self.path}: {error.strerror}; free some space. Until then, runs that end leave their"
            " tables on their nodes"
        )

    def drop(self, run: str) -> None:
        """Remove the records of a run once they are larger than all that are still needed.

        Raises:
            CampaignError: the smaller journal could not be written; the journal is unchanged.
        """
        self.sync()
        self._sizes.pop(run, None)

        if not self._sizes:
            os.ftruncate(self._file, 0)
            self._end = 0
        elif sum(self._sizes.values()) < self._end // 2:
            self._compact()

    def close(self) -> None:
        """Close the file; an empty journal is removed."""
        is_empty = os.fstat(self._file).st_size == 0
        os.close(self._file)
        if is_empty:
            os.unlink(self.path)

    def __enter__(self) -> Self:
        """Return the journal itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.close()

    def _compact(self) -> None:
        """Replace the journal by one with only the records that are still needed."""
        with open(self._file, "rb", closefd=False) as file:
            file.seek(0)
            data = file.read()

        content, run, position = bytearray(HEAD), "", len(HEAD)
        while (frame := _frame_at(data, position)) is not None:
            message = decode(frame)
            if isinstance(message, Hello):
                run = message.run
            if run in self._sizes:
                content += _as_record(frame)
            position += _RECORD.size + len(frame)
        self._replace(bytes(content))

    def _replace(self, content: bytes) -> None:
        """Replace the file by one with this content.

        Raises:
            CampaignError: the new file could not be written; the journal is unchanged.
        """
        new_path = f"{self.path}.new"
        try:
            new_file = os.open(new_path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _write(new_file, content, 0)
                os.fsync(new_file)
                os.replace(new_path, self.path)
                _sync_directory(os.path.dirname(self.path))
            except OSError:
                os.close(new_file)
                raise
        except OSError as error:
            raise CampaignError(f"{new_path}: {error.strerror}; free some space") from error

        os.close(self._file)
        self._file, self._end = new_file, len(content)


def _as_record(frame: bytes) -> bytes:
    return _RECORD.pack(len(frame), zlib.crc32(frame)) + frame


def _frame_at(data: bytes, position: int) -> bytes | None:
    """The frame of the record that begins at `position`; None if no intact record does."""
    start = position + _RECORD.size
    if len(data) < start:
        return None

    size, checksum = _RECORD.unpack_from(data, position)
    frame = data[start : start + size] if size <= MAX_FRAME_BYTES else b""
    is_intact = len(frame) == size > 0 and zlib.crc32(frame) == checksum
    return frame if is_intact else None


def _next_record(data: bytes, position: int) -> int:
    """Where the next intact record begins, from `position` on; the end of the data if none does."""
    while (start := data.find(MAGIC, position + _RECORD.size)) >= 0:
        position = start - _RECORD.size
        if _frame_at(data, position) is not None:
            return position
        position += 1
    return len(data)


def _is_torn(tail: bytes) -> bool:
    """Whether bytes at the end of a journal are the beginning of one record."""
    frame = tail[_RECORD.size :]
    try:
        decode(frame)
    except WireError:
        size: int = _RECORD.unpack_from(tail)[0] if frame else MAX_FRAME_BYTES
        is_cut = len(frame) < size <= MAX_FRAME_BYTES
        return is_cut and _next_record(tail, 1) == len(tail)
    return False  # the frame is whole: what is damaged is its length or its checksum


def _sync_directory(path: str) -> None:
    """Make the names of files in a directory durable."""
    directory = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _write(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written
