"""The boards of a campaign: from its aggregator while one is running, otherwise from its files."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import zmq
import zmq.auth

from insitu.analysis.board import Board, make_board
from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.analysis.progress import Agenda
from insitu.campaign.config import load_config
from insitu.campaign.database import LOG_SUFFIXES
from insitu.campaign.layout import (
    AGGREGATOR_ADDRESS,
    ATTEMPTS_LOG,
    CAMPAIGN_FILE,
    CLIENT_KEY,
    DATABASE,
    SERVER_KEY,
)
from insitu.campaign.listener import ListenerAddress, peek_address
from insitu.campaign.load import load_usual_program
from insitu.campaign.lock import peek_activity
from insitu.campaign.reachability import Reachability, find_listener
from insitu.campaign.selection import select_runs
from insitu.campaign.store import SqliteStore, open_store
from insitu.entities import CallPath, RunKey
from insitu.errors import CampaignError, WireError
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import FloatArray, RunTable
from insitu.views.source import MAX_RUNS_OF_VALUES, Site
from insitu.workflows.diagnosis import diagnose_store, load_sites
from insitu.workflows.progress import load_agenda

LIVE_S = 3.0  # an aggregator publishes at each heartbeat; after this silence it is busy or gone
NO_STORE = 0  # for `changes()` of a store that does not exist yet; no store returns it
UNREAD = -1
MAX_BOARD_BYTES = 32 << 20

_Stamp = tuple[int, int] | None
_Stamps = tuple[_Stamp, ...]


class BoardClient:
    """The newest board of a campaign; see `BoardSource`. One thread uses a client.

    If the directory contains only campaign.toml, the board is empty until the first run.
    """

    def __init__(self, campaign: str) -> None:
        """Open the campaign in the directory `campaign`.

        Raises:
            CampaignError: there is no campaign, or it cannot be read.
        """
        self._campaign = campaign
        self._store: SqliteStore | None = None
        self._find_store()

        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._address: ListenerAddress | None = None
        self._received_at = -LIVE_S  # monotonic

        # What the store's `changes()` returned when each of these was read.
        self._board_version = UNREAD
        self._returned_models_version = UNREAD
        self._models_version = UNREAD
        self._models = ModelSet()
        self._agenda_version: tuple[int, _Stamp, _Stamp] | None = None
        self._agenda: Agenda | None = None
        self._diagnosed: tuple[_Stamps, Diagnosis | None] = ((), None)

    @property
    def is_live(self) -> bool:
        """Whether an aggregator has published a board recently."""
        return time.monotonic() - self._received_at < LIVE_S

    def newest(self, wait_s: float) -> Board | None:
        """Wait up to `wait_s` seconds for a new board; None if there is none.

        Raises:
            CampaignError: the campaign can no longer be read.
            WireError: the aggregator published something that this version cannot read.
        """
        self._connect()
        if self._socket is not None and self._socket.poll(int(1000 * wait_s)):
            self._received_at = time.monotonic()
            self._board_version = UNREAD  # read the files again when the aggregator is gone
            return _parse_board(self._socket.recv())

        if self._socket is None:
            time.sleep(wait_s)
        return None if self.is_live else self.read_stored()

    def read_stored(self) -> Board | None:
        """The board of the stored runs; None if they have not changed since the last call.

        Raises:
            CampaignError: the campaign can no longer be read.
        """
        store = self._find_store()
        version = NO_STORE if store is None else store.changes()
        if version == self._board_version:
            return None

        self._board_version = version
        if store is None:
            return Board()
        return make_board(store.runs(), self._read_models(store, version))

    def models(self) -> ModelSet | None:
        """The stored models; None if they have not changed since the last call.

        Raises:
            CampaignError: the campaign can no longer be read.
        """
        store = self._find_store()
        if store is None:
            return None
        version = store.changes()
        if version == self._returned_models_version:
            return None

        self._returned_models_version = version
        return self._read_models(store, version)

    def _read_models(self, store: SqliteStore, version: int) -> ModelSet:
        """The stored models, which boards and `models` share."""
        if version != self._models_version:
            self._models, self._models_version = store.models(), version
        return self._models

    def _has_database(self) -> bool:
        return os.path.exists(os.path.join(self._campaign, DATABASE))

    def _find_store(self) -> SqliteStore | None:
        """The store; None while the directory contains campaign.toml only."""
        if self._store is None:
            has_plan = os.path.exists(os.path.join(self._campaign, CAMPAIGN_FILE))
            if self._has_database() or not has_plan:
                self._store = open_store(self._campaign)
        return self._store

    def agenda(self) -> Agenda | None:
        """Progress of the runs that campaign.toml plans; None if it plans none.

        Raises:
            CampaignError, UsageError: campaign.toml is unreadable or invalid.
        """
        store = self._find_store()
        version = (
            NO_STORE if store is None else store.changes(),
            _stamp(os.path.join(self._campaign, CAMPAIGN_FILE)),
            _stamp(os.path.join(self._campaign, ATTEMPTS_LOG)),
        )
        if version != self._agenda_version:
            runs = [] if store is None else store.runs()
            self._agenda = load_agenda(self._campaign, runs)
            self._agenda_version = version

        return self._agenda

    def diagnosis(self) -> Diagnosis | None:
        """What will limit the program on more ranks; None without a complete run.

        It opens the campaign again, so that any thread may call it. Thousands of call paths take
        seconds, so each browser gets the last diagnosis until the campaign changes.

        Raises:
            CampaignError: the campaign can no longer be read.
        """
        if not self._has_database():
            return None
        database = os.path.join(self._campaign, DATABASE)
        files = [database, *map(database.__add__, LOG_SUFFIXES)]
        stamps = tuple(map(_stamp, [*files, os.path.join(self._campaign, CAMPAIGN_FILE)]))
        of_stamps, diagnosis = self._diagnosed
        if stamps == of_stamps:
            return diagnosis

        with open_store(self._campaign) as store:
            has_runs = bool(select_runs(store.runs())[0])
            diagnosis = diagnose_store(store) if has_runs else None
        self._diagnosed = stamps, diagnosis
        return diagnosis

    def target(self) -> Mapping[str, float]:
        """Values of parameters that campaign.toml names as the target.

        Raises:
            CampaignError: campaign.toml is unreadable or invalid.
        """
        return load_config(self._campaign).target

    def run_table(self, run_id: str) -> RunTable | None:
        """The values of a stored run; None if there is no such run. Any thread may call it.

        Raises:
            CampaignError: the campaign can no longer be read.
        """
        if not self._has_database():
            return None
        with open_store(self._campaign) as store:
            records = store.runs()
            if not any(record.id == run_id for record in records):
                return None
            selected, _ = select_runs(records)
            return load_usual_program(selected, store.table)(run_id)

    def values_of(self, callpath: CallPath, metric: str) -> Sequence[tuple[RunKey, FloatArray]]:
        """The values (p,) of a call path in complete runs; see `BoardSource`.

        Raises:
            CampaignError: the campaign can no longer be read.
        """
        if not self._has_database():
            return []
        values = []
        with open_store(self._campaign) as store:
            runs, _ = select_runs(store.runs())
            load = load_usual_program(runs, store.table_on_disk)
            for run in runs[-MAX_RUNS_OF_VALUES:]:
                table = load(run.id)
                if metric in table.values and callpath in table.callpaths:
                    row = np.array([table.callpaths.index(callpath)])
                    values.append((run.key, np.asarray(table.values[metric][row])[0]))
        return values

    def sites(self) -> Mapping[CallPath, Site]:
        """Where functions are defined, as far as this is known. Any thread may call it.

        Raises:
            CampaignError: the campaign can no longer be read.
        """
        if not self._has_database():
            return {}
        with open_store(self._campaign) as store:
            return load_sites(store)

    def activity(self) -> str:
        """The run that `insitu campaign run` makes now; "" if it makes none."""
        return peek_activity(self._campaign)

    def close(self) -> None:
        """Close the socket and the files."""
        self._disconnect()
        self._context.term()
        if self._store is not None:
            self._store.close()

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the socket and the files."""
        self.close()

    def find_aggregator(self) -> bool:
        """Whether an aggregator is there whose boards can be expected."""
        self._connect()
        return self._socket is not None

    def _connect(self) -> None:
        """Subscribe to the aggregator that is running now, unless that has been done.

        Each address is checked once: a file that a killed aggregator left behind is removed.
        """
        address = peek_address(os.path.join(self._campaign, AGGREGATOR_ADDRESS))
        if address == self._address:
            return

        self._disconnect()
        self._address = address
        if address is None:
            return
        reachability = find_listener(self._campaign).reachability
        if reachability is Reachability.STARTING:
            self._address = None  # it will publish another address: look again
        if reachability in (Reachability.STARTING, Reachability.ABSENT):
            return

        socket = self._context.socket(zmq.SUB)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.CONFLATE, 1)  # only the newest board matters
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_BOARD_BYTES)
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        if address.curve:
            _load_client_keys(socket, address.curve)
        socket.connect(address.boards)
        self._socket = socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close(linger=0)
            self._socket = None
            self._received_at = -LIVE_S


def _stamp(path: str) -> _Stamp:
    """When a file was modified, in nanoseconds since 1970, and its bytes; None without the file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _load_client_keys(socket: "zmq.Socket[bytes]", keys: str) -> None:
    try:
        public, secret = zmq.auth.load_certificate(os.path.join(keys, f"{CLIENT_KEY}.key_secret"))
        server, _ = zmq.auth.load_certificate(os.path.join(keys, f"{SERVER_KEY}.key"))
    except (OSError, ValueError) as error:
        raise CampaignError(
            f"{keys}: the campaign's keys cannot be read ({error}); copy them from the machine"
            " where the aggregator runs"
        ) from error

    socket.curve_publickey, socket.curve_secretkey = public, secret or b""
    socket.curve_serverkey = server


def _parse_board(frame: bytes) -> Board:
    try:
        data = json.loads(frame)
    except ValueError as error:
        raise WireError(f"the aggregator published something that is not JSON: {error}") from error
    return Board.from_dict(data)
