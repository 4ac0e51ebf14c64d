"""What may be fed to each decoder: refused by the decoder's own error, or read; nothing else."""

import atexit
import functools
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from insitu.analysis.board import Board
from insitu.campaign import vectors
from insitu.campaign.config import load_config
from insitu.campaign.layout import AGGREGATOR_JOURNAL, CAMPAIGN_FILE
from insitu.collectors import leftovers
from insitu.errors import CampaignError, WireError
from insitu.formats.jsonl import JsonLines
from insitu.server.events import MessageArrived, StopRequested, Tick
from insitu.server.journal import Journal
from insitu.server.state import CampaignState
from insitu.wire.codec import decode, encode

TOKEN = "a" * 64
BASE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@functools.cache
def _folder(name: str) -> str:
    """A folder for this file, in memory, as long as the process lives."""
    folder = tempfile.mkdtemp(prefix=f"insitu-fuzz-{name}-", dir=BASE)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def folder_with(name: str, data: bytes) -> str:
    """A folder that holds one file: made once, since making it takes longer than most decoders."""
    folder = _folder(name)
    with open(os.path.join(folder, name), "wb", buffering=0) as file:
        file.write(data)
    return folder


def wire(data: bytes) -> None:
    """One frame; what is read must be written as something that is read alike."""
    with suppress(WireError):
        message = decode(data)
        assert decode(encode(message)) == message


def session(data: bytes) -> None:
    """Frames, each behind its length (u2), at an aggregator."""
    state = CampaignState(instance="i1", token=TOKEN, heartbeat_s=1.0)
    at = 0
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "little")
        with suppress(WireError):
            message = decode(data[at + 2 : at + 2 + size])
            state.handle(MessageArrived(b"peer", message, 1.0))
        at += 2 + size
    state.handle(Tick(100.0))
    state.handle(StopRequested(101.0))


def table(data: bytes) -> None:
    """A rank's table that was left behind, as ingest reads it."""
    folder = folder_with("rank-000000-1.table", data)
    with suppress(WireError):
        for message in leftovers.read_messages(folder):
            with suppress(WireError):
                encode(message)


def journal(data: bytes) -> None:
    """The journal of an aggregator that was killed."""
    folder = folder_with(AGGREGATOR_JOURNAL, data)
    with suppress(CampaignError), Journal(folder) as opened:
        for _ in opened.replay():
            pass


def jsonl(data: bytes) -> None:
    """A file for `insitu import`."""
    JsonLines().read(io.BytesIO(data))


def config(data: bytes) -> None:
    """campaign.toml."""
    folder = folder_with(CAMPAIGN_FILE, data)
    with suppress(CampaignError):
        load_config(folder)


def vector(data: bytes) -> None:
    """A row of values, and the labels of a class, from campaign.db."""
    with suppress(ValueError):
        values = vectors.unpack_row(data, 8)
        assert values.shape == (8,)
    with suppress(ValueError):
        assert vectors.unpack_labels(data, 8).dtype == np.intp


def board(data: bytes) -> None:
    """A board from an aggregator."""
    with suppress(WireError, ValueError):
        Board.from_dict(json.loads(data))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "wire": wire,
    "session": session,
    "table": table,
    "journal": journal,
    "jsonl": jsonl,
    "config": config,
    "vector": vector,
    "board": board,
}
