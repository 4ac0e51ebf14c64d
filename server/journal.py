"""The journal of a campaign: messages that agents were promised are durable, until a run is stored.

An append-only file of frames, each behind its length and checksum. A node's Hello, Paths, last
Totals and Bye are synced together; only then do agents remove their tables. Whatever follows the
first record with a wrong checksum was never promised to any agent and is cut off.
"""

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Self

from insitu.campaign.layout import AGGREGATOR_JOURNAL
from insitu.errors import CampaignError, WireError
from insitu.wire.codec import decode, encode
from insitu.wire.messages import MAX_FRAME_BYTES, Hello, Message

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
        except OSError as error:
            raise CampaignError(f"{self.path}: {error.strerror}") from error

        self._sizes: dict[str, int] = {}  # bytes of records, by run that is not stored yet
        self._end = os.fstat(self._file).st_size
        self._unsynced: list[tuple[str, int]] = []  # run and bytes of each append since `sync`

    def replay(self) -> Iterator[Message]:
        """Yield all messages in order, then cut off a torn record at the end.

        Raises:
            CampaignError: the file cannot be read or was written by a newer insitu.
        """
        with open(self._file, "rb", closefd=False) as file:
            file.seek(0)
            head = file.read(len(HEAD))
            if head != HEAD[: len(head)]:
                raise CampaignError(
                    f"{self.path}: not a journal that this insitu can read; update insitu"
                )

            self._end = len(head) if len(head) == len(HEAD) else 0
            run = ""
            while self._end and (frame := _read_record(file)):
                try:
                    message = decode(frame)
                except WireError as error:
                    raise CampaignError(f"{self.path}: {error}; update insitu") from error

                if isinstance(message, Hello):
                    run = message.run
                size = _RECORD.size + len(frame)
                self._end += size
                self._sizes[run] = self._sizes.get(run, 0) + size
                yield message

        os.ftruncate(self._file, self._end)

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
        new_path = f"{self.path}.new"
        content, run = bytearray(HEAD), ""
        try:
            with open(self._file, "rb", closefd=False) as file:
                file.seek(len(HEAD))
                while frame := _read_record(file):
                    message = decode(frame)
                    if isinstance(message, Hello):
                        run = message.run
                    if run in self._sizes:
                        content += _as_record(frame)

            new_file = os.open(new_path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _write(new_file, bytes(content), 0)
                os.fsync(new_file)
                os.replace(new_path, self.path)
            except OSError:
                os.close(new_file)
                raise
        except OSError as error:
            raise CampaignError(f"{new_path}: {error.strerror}; free some space") from error

        os.close(self._file)
        self._file, self._end = new_file, len(content)


def _as_record(frame: bytes) -> bytes:
    return _RECORD.pack(len(frame), zlib.crc32(frame)) + frame


def _read_record(file: BinaryIO) -> bytes:
    """The frame of the next record; empty at the end of the file and where a record is torn."""
    head = file.read(_RECORD.size)
    if len(head) < _RECORD.size:
        return b""

    size, checksum = _RECORD.unpack(head)
    frame = file.read(size) if size <= MAX_FRAME_BYTES else b""
    is_intact = len(frame) == size and zlib.crc32(frame) == checksum
    return frame if is_intact else b""


def _write(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written
