"""The journal of a campaign: what agents were told is safe before its run is sealed.

An append-only file of frames, each behind its length and checksum. A node's Hello, Paths, last
Totals and Bye are synced together; agents remove their tables only then. Whatever is behind the
first record that does not check was never promised to anyone and is cut off.
"""

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Self

from insitu.errors import CampaignError, WireError
from insitu.wire.codec import decode, encode
from insitu.wire.messages import MAX_FRAME_BYTES, Hello, Message

FILE = "aggregator.journal"
HEAD = b"INSJ0001"  # name and version; every later version reads this one
_RECORD = struct.Struct("<II")  # bytes of the frame, CRC-32 of the frame


class Journal:
    """An open journal; one process at a time, which the lock of the campaign sees to."""

    def __init__(self, campaign: str) -> None:
        """Open the journal in the directory of a campaign, or begin one.

        Raises:
            CampaignError: it cannot be opened or was written by a newer insitu.
        """
        self.path = os.path.join(campaign, FILE)
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CampaignError(f"{self.path}: {error.strerror}") from error
        self._sizes: dict[str, int] = {}  # bytes of the records of each run that is needed
        self._end = os.fstat(self._file).st_size
        self._unsynced: list[tuple[str, int]] = []  # run and bytes of what was appended since

    def replay(self) -> Iterator[Message]:
        """Every message that was kept, in order; the torn tail is cut off at the end.

        Raises:
            CampaignError: the file cannot be read or was written by a newer insitu.
        """
        with open(self._file, "rb", closefd=False) as file:
            file.seek(0)
            head = file.read(len(HEAD))
            if head != HEAD[: len(head)]:
                raise CampaignError(f"{self.path}: is no journal of this insitu; update insitu")
            self._end = len(head) if len(head) == len(HEAD) else 0
            run = ""
            while self._end and (frame := _record(file)):
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
        """Append messages of one run; `sync` makes them durable, all at once.

        Raises:
            CampaignError: they could not be kept; the journal is as it was before.
        """
        frames = [encode(message) for message in messages]
        data = b"".join(_RECORD.pack(len(f), zlib.crc32(f)) + f for f in frames)
        try:
            if self._end == 0:
                data = HEAD + data
            _write(self._file, data, self._end)
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise self._full(error) from error
        self._end += len(data)
        self._sizes[run] = self._sizes.get(run, 0) + len(data)
        self._unsynced.append((run, len(data)))

    def sync(self) -> None:
        """Make durable what was appended.

        Raises:
            CampaignError: nothing of it could be kept; the journal is as it was before.
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
            raise self._full(error) from error

    def _full(self, error: OSError) -> CampaignError:
        return CampaignError(
            f"{self.path}: {error.strerror}; make room: the tables of runs that end now stay where"
            " they are until then"
        )

    def forget(self, run: str) -> None:
        """Drop the records of a run once they outweigh those that are still needed.

        Raises:
            CampaignError: the smaller journal could not be written; the one that is there stays.
        """
        self.sync()
        self._sizes.pop(run, None)
        if not self._sizes:
            os.ftruncate(self._file, 0)
            self._end = 0
        elif sum(self._sizes.values()) < self._end // 2:
            self._compact()

    def close(self) -> None:
        """Let go of the file; an empty journal is removed."""
        is_empty = os.fstat(self._file).st_size == 0
        os.close(self._file)
        if is_empty:
            os.unlink(self.path)

    def __enter__(self) -> Self:
        """For `with`."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def _compact(self) -> None:
        needed, run, fresh = bytearray(HEAD), "", f"{self.path}.new"
        try:
            with open(self._file, "rb", closefd=False) as file:
                file.seek(len(HEAD))
                while frame := _record(file):
                    message = decode(frame)
                    run = message.run if isinstance(message, Hello) else run
                    if run in self._sizes:
                        needed += _RECORD.pack(len(frame), zlib.crc32(frame)) + frame
            file_number = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _write(file_number, bytes(needed), 0)
                os.fsync(file_number)
                os.replace(fresh, self.path)
            except OSError:
                os.close(file_number)
                raise
        except OSError as error:
            raise CampaignError(f"{fresh}: {error.strerror}; make room") from error
        os.close(self._file)
        self._file, self._end = file_number, len(needed)


def _record(file: BinaryIO) -> bytes:
    """The frame of the next record; empty at the end and where it is torn."""
    head = file.read(_RECORD.size)
    if len(head) < _RECORD.size:
        return b""
    size, checksum = _RECORD.unpack(head)
    frame = file.read(size) if size <= MAX_FRAME_BYTES else b""
    return frame if len(frame) == size and zlib.crc32(frame) == checksum else b""


def _write(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written
