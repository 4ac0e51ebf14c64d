"""Where boards come from: the aggregator while one runs, else the campaign's files."""

import json
import os
import time
from dataclasses import dataclass
from typing import Self

import zmq
import zmq.auth

from insitu.analysis.board import Board, make_board
from insitu.analysis.progress import Agenda
from insitu.campaign.attempts import FILE as ATTEMPTS
from insitu.campaign.config import FILE
from insitu.campaign.schema import FILE as DATABASE
from insitu.campaign.store import SqliteStore, open_store
from insitu.errors import CampaignError, WireError
from insitu.modeling.base import ModelSet
from insitu.workflows.progress import agenda

ADDRESS = "aggregator.json"
SILENT_S = 3.0  # an aggregator publishes each beat; one silent for longer is busy or gone
NO_STORE = 0  # counts as a state of the files that no file has
MAX_BOARD_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Address:
    """Where an aggregator publishes its boards; `curve` is the directory of keys, or empty."""

    instance: str
    boards: str
    curve: str


class BoardClient:
    """The newest board of a campaign; one thread uses it.

    Where only campaign.toml is there, the campaign waits for its first run.
    """

    def __init__(self, campaign: str) -> None:
        """Open the campaign.

        Raises:
            CampaignError: there is none, or it cannot be read.
        """
        self._campaign = campaign
        self._store: SqliteStore | None = None
        self._opened()
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._address: Address | None = None
        self._heard_at = -SILENT_S
        self._seen = -1
        self._modelled = -1
        self._read_at = -1
        self._models = ModelSet()
        self._planned: tuple[int, ...] = ()
        self._agenda: Agenda | None = None

    @property
    def is_live(self) -> bool:
        """Whether an aggregator has spoken lately."""
        return time.monotonic() - self._heard_at < SILENT_S

    def newest(self, wait_s: float) -> Board | None:
        """The newest board, waiting for one; None where there is nothing new.

        Raises:
            CampaignError: the campaign cannot be read any more.
            WireError: the aggregator publishes what this insitu does not read.
        """
        self._connect()
        if self._socket is not None and self._socket.poll(int(1000 * wait_s)):
            self._heard_at = time.monotonic()
            self._seen = -1  # what the files say is older; when the aggregator goes, read them
            return _board(self._socket.recv())
        if self._socket is None:
            time.sleep(wait_s)
        return None if self.is_live else self.kept()

    def kept(self) -> Board | None:
        """What the files say; None where that has not changed since it was last asked.

        Raises:
            CampaignError: the campaign cannot be read any more.
        """
        store = self._opened()
        changes = NO_STORE if store is None else store.changes()
        if changes == self._seen:
            return None
        self._seen = changes
        return (
            Board() if store is None else make_board(store.runs(), self._models_at(store, changes))
        )

    def models(self) -> ModelSet | None:
        """The models in the files; None where these have not changed since it was last asked.

        Raises:
            CampaignError: the campaign cannot be read any more.
        """
        store = self._opened()
        if store is None:
            return None
        changes = store.changes()
        if changes == self._modelled:
            return None
        self._modelled = changes
        return self._models_at(store, changes)

    def _models_at(self, store: SqliteStore, changes: int) -> ModelSet:
        """The models in the files; read once, whoever asks for them."""
        if changes != self._read_at:
            self._models, self._read_at = store.models(), changes
        return self._models

    def _opened(self) -> SqliteStore | None:
        """The files; none as long as campaign.toml is there without any."""
        directory = self._campaign
        has = {name: os.path.exists(os.path.join(directory, name)) for name in (DATABASE, FILE)}
        if self._store is None and (has[DATABASE] or not has[FILE]):
            self._store = open_store(directory)
        return self._store

    def agenda(self) -> Agenda | None:
        """How far the runs that campaign.toml asks for are; None where it asks for none.

        Raises:
            CampaignError, UsageError: campaign.toml cannot be read, or makes no sense.
        """
        files = tuple(_changed_at(os.path.join(self._campaign, name)) for name in (FILE, ATTEMPTS))
        store = self._opened()
        state = (NO_STORE if store is None else store.changes(), *files)
        if state != self._planned:
            self._agenda = agenda(self._campaign, [] if store is None else store.runs())
            self._planned = state
        return self._agenda

    def close(self) -> None:
        """Let go of the socket and the files."""
        self._disconnect()
        self._context.term()
        if self._store is not None:
            self._store.close()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def _connect(self) -> None:
        """Subscribe to the aggregator that runs now, if it is another one than before."""
        address = find_address(self._campaign)
        if address == self._address:
            return
        self._disconnect()
        self._address = address
        if address is None:
            return
        socket = self._context.socket(zmq.SUB)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.CONFLATE, 1)  # only the newest board matters
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_BOARD_BYTES)
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        if address.curve:
            _encrypt(socket, address.curve)
        socket.connect(address.boards)
        self._socket = socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close(linger=0)
            self._socket = None
            self._heard_at = -SILENT_S


def find_address(campaign: str) -> Address | None:
    """Where the aggregator of a campaign publishes; None where none says that it runs."""
    try:
        with open(os.path.join(campaign, ADDRESS), encoding="utf-8") as file:
            data = json.load(file)
        return Address(str(data["instance"]), str(data["boards"]), str(data.get("curve", "")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _encrypt(socket: "zmq.Socket[bytes]", keys: str) -> None:
    try:
        public, secret = zmq.auth.load_certificate(os.path.join(keys, "client.key_secret"))
        server, _ = zmq.auth.load_certificate(os.path.join(keys, "server.key"))
    except (OSError, ValueError) as error:
        raise CampaignError(
            f"{keys}: the campaign's keys cannot be read ({error}); copy them from the machine"
            " where the aggregator runs"
        ) from error
    socket.curve_publickey, socket.curve_secretkey = public, secret or b""
    socket.curve_serverkey = server


def _board(frame: bytes) -> Board:
    try:
        data = json.loads(frame)
    except ValueError as error:
        raise WireError(f"the aggregator published what is no JSON: {error}") from error
    return Board.from_dict(data)
