"""Boards from a real socket and real files."""

import asyncio
import json
import os
from collections.abc import Iterator
from socket import gethostname

import pytest
import zmq

from insitu.analysis.board import Board, LiveRun, make_board
from insitu.campaign.layout import AGGREGATOR_ADDRESS, CAMPAIGN_FILE
from insitu.campaign.listener import ListenerAddress, peek_address
from insitu.campaign.store import SqliteStore
from insitu.entities import CallPath, RunKey, RunState
from insitu.errors import CampaignError, WireError
from insitu.modeling.base import ModelSet
from insitu.server.discovery import WriterLock
from insitu.server.sockets import bind
from insitu.views.text import describe_first_run, list_agenda_changes
from insitu.workflows.boards import BoardClient
from insitu.workflows.watch import load_state
from tests.support.campaigns import heat_campaign, heat_run

TRIES = 50  # of 0.1 s: a subscription needs a moment to arrive


@pytest.fixture
def store(tmp_path: os.PathLike[str]) -> Iterator[SqliteStore]:
    with heat_campaign(os.path.join(tmp_path, "heat.insitu"), 1, (2, 4)) as store:
        yield store


@pytest.fixture
def publisher(store: SqliteStore) -> Iterator["zmq.Socket[bytes]"]:
    """A socket that publishes at the address in the campaign, and the lock of its aggregator."""
    context = zmq.Context()
    socket = context.socket(zmq.PUB)
    endpoint = f"ipc://{store.path}/boards"
    socket.bind(endpoint)
    with WriterLock(store.path):
        publish_address(store.path, endpoint)
        yield socket
    socket.close(linger=0)
    context.term()


def publish_address(campaign: str, boards: str) -> None:
    """Write the address file of this process."""
    address = ListenerAddress(
        "ipc://agents", "token", boards=boards, pid=os.getpid(), host=gethostname(), started=1.0
    )
    address.save(os.path.join(campaign, AGGREGATOR_ADDRESS))


def receive(client: BoardClient, publisher: "zmq.Socket[bytes]", frame: bytes) -> Board:
    """Publish a frame until the client receives it; return the board."""
    for _ in range(TRIES):
        publisher.send(frame)
        board = client.newest(0.1)
        if board is not None and client.is_live:
            return board
    raise AssertionError("no board was received")


def test_without_an_aggregator_the_files_are_read_when_they_change(store: SqliteStore):
    with BoardClient(store.path) as client:
        first, second = client.newest(0.0), client.newest(0.0)
        store.add_run(*heat_run(8))
        third = client.newest(0.0)

    assert first is not None
    assert [run.name for run in first.runs] == ["p=4#0", "p=2#0"]
    assert second is None
    assert third is not None
    assert len(third.runs) == 3


def test_each_browser_gets_the_diagnosis_until_the_campaign_changes(store: SqliteStore):
    with BoardClient(store.path) as client:
        first, second = client.diagnosis(), client.diagnosis()
        store.add_run(*heat_run(8))
        third = client.diagnosis()
        with open(os.path.join(store.path, CAMPAIGN_FILE), "w", encoding="utf-8") as file:
            file.write('target = "p=333"\n')
        fourth = client.diagnosis()

    assert first is second
    assert first is not None and third is not None and fourth is not None
    assert [first.p, third.p] == [(2, 4), (2, 4, 8)]
    assert third.target != fourth.target == 333


def test_boards_of_an_aggregator_are_received(store: SqliteStore, publisher: "zmq.Socket[bytes]"):
    live = LiveRun("x", RunKey.of({"p": 8}), RunState.MEASURING, 6, 1, 8)
    board = make_board(store.runs(), ModelSet(), [live])

    with BoardClient(store.path) as client:
        assert receive(client, publisher, json.dumps(board.to_dict()).encode()) == board


def test_the_files_are_read_again_when_the_aggregator_is_gone(
    store: SqliteStore, publisher: "zmq.Socket[bytes]"
):
    with BoardClient(store.path) as client:
        receive(client, publisher, json.dumps(Board().to_dict()).encode())
        os.unlink(os.path.join(store.path, AGGREGATOR_ADDRESS))

        board = client.newest(0.0)

        assert not client.is_live
        assert board is not None
        assert len(board.runs) == 2


def test_nobody_waits_for_the_boards_of_a_killed_aggregator(store: SqliteStore, monkeypatch):
    """The kernel released its lock; the address that it left behind is removed."""
    WriterLock(store.path).close()
    publish_address(store.path, f"ipc://{store.path}/boards")
    waits: list[float] = []
    monkeypatch.setattr("insitu.workflows.boards.time.sleep", waits.append)

    state = load_state(store.path)

    assert state.board is not None
    assert len(state.board.runs) == 2
    assert waits == [0.0]
    assert not os.path.exists(os.path.join(store.path, AGGREGATOR_ADDRESS))


def test_the_board_of_another_version_is_refused(
    store: SqliteStore, publisher: "zmq.Socket[bytes]"
):
    with BoardClient(store.path) as client, pytest.raises(WireError, match="cannot read the board"):
        receive(client, publisher, b'{"rows": []}')


def test_a_campaign_with_only_a_plan_has_an_empty_board_until_its_first_run(tmp_path):
    plan = '[levels]\np = [2, 4]\n[run]\ncommand = "x"\nrepetitions = 1\n'
    (tmp_path / "campaign.toml").write_text(plan)

    with BoardClient(str(tmp_path)) as client:
        boards = [client.newest(0.0), client.newest(0.0)]
        agendas = [client.agenda()]
        heat_campaign(str(tmp_path), 1, (2,)).close()
        boards.append(client.newest(0.0))
        agendas.append(client.agenda())

    assert [board and len(board.runs) for board in boards] == [0, None, 1]
    assert [agenda and agenda.done for agenda in agendas] == [0, 1]
    words = [describe_first_run("x.insitu", agenda) for agenda in (agendas[0], None)]
    assert "campaign run x.insitu makes the 2 runs" in words[0]
    assert "insitu run --campaign x.insitu -- COMMAND" in words[1]
    assert list(list_agenda_changes(*agendas)) == ["campaign: 1 of 2 made, about 4 s to go"]


def test_a_missing_campaign_is_refused(tmp_path: os.PathLike[str]):
    with pytest.raises(CampaignError, match="no campaign here"):
        BoardClient(os.path.join(tmp_path, "nix"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', "null"])
def test_an_address_that_cannot_be_read_is_none(text: str, tmp_path: os.PathLike[str]):
    path = os.path.join(tmp_path, AGGREGATOR_ADDRESS)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

    assert peek_address(path) is None


def test_boards_are_received_from_another_machine_with_the_keys_of_the_campaign(store: SqliteStore):
    board = make_board(store.runs(), ModelSet())

    async def serve() -> Board | None:
        with WriterLock(store.path), bind(store.path, "tcp://127.0.0.1:*") as sockets:
            address = ListenerAddress(
                endpoint=sockets.endpoint,
                token="",
                boards=sockets.boards_endpoint,
                curve=sockets.curve,
                pid=os.getpid(),
                host=gethostname(),
            )
            address.save(os.path.join(store.path, AGGREGATOR_ADDRESS))
            with BoardClient(store.path) as client:
                for _ in range(TRIES):
                    await sockets.boards.send(json.dumps(board.to_dict()).encode())
                    received = await asyncio.to_thread(client.newest, 0.1)
                    if received is not None and client.is_live:
                        return received
        return None

    assert asyncio.run(serve()) == board


def test_a_campaign_that_has_only_a_plan_shows_nothing_and_no_error(tmp_path):
    """The page asks for all of it before the first run."""
    campaign = tmp_path / "app.insitu"
    campaign.mkdir(mode=0o700)
    (campaign / CAMPAIGN_FILE).write_text('[levels]\np = [1, 2]\n[run]\ncommand = "app.py"\n')

    with BoardClient(str(campaign)) as client:
        assert client.diagnosis() is None
        assert client.run_table("1") is None
        assert client.values_of(CallPath.parse("main"), "time") == []
        assert client.sites() == {}


def test_values_are_those_of_a_call_path_in_each_run(store: SqliteStore):
    with BoardClient(store.path) as client:
        values = client.values_of(CallPath.parse("main->solve"), "visits")

        assert [(key.size, list(ranks)) for key, ranks in values] == [(2, [1, 1]), (4, [1] * 4)]
        assert client.values_of(CallPath.parse("nowhere"), "visits") == []
        assert client.run_table("none") is None
        assert client.run_table(store.runs()[0].id) is not None
