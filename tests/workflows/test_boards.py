"""Boards from a real socket and real files."""

import asyncio
import json
import os
from collections.abc import Iterator

import pytest
import zmq

from insitu.analysis.board import Board, LiveRun, make_board
from insitu.campaign.store import SqliteStore
from insitu.entities import RunKey, RunState
from insitu.errors import CampaignError, WireError
from insitu.modeling.base import ModelSet
from insitu.server.discovery import Address
from insitu.server.sockets import bind
from insitu.views.text import describe_first_run, list_agenda_changes
from insitu.workflows.boards import BoardClient, find_address
from tests.support.campaigns import heat_campaign, heat_run

TRIES = 50  # of 0.1 s: a subscription needs a moment to arrive


@pytest.fixture
def store(tmp_path: os.PathLike[str]) -> Iterator[SqliteStore]:
    with heat_campaign(os.path.join(tmp_path, "heat.insitu"), 1, (2, 4)) as opened:
        yield opened


@pytest.fixture
def publisher(store: SqliteStore) -> Iterator["zmq.Socket[bytes]"]:
    """Publishes where aggregator.json says."""
    context = zmq.Context()
    socket = context.socket(zmq.PUB)
    endpoint = f"ipc://{store.path}/boards"
    socket.bind(endpoint)
    address = {"instance": "1", "boards": endpoint, "curve": "", "pid": 1}
    with open(os.path.join(store.path, "aggregator.json"), "w", encoding="utf-8") as file:
        json.dump(address, file)
    yield socket
    socket.close(linger=0)
    context.term()


def heard(client: BoardClient, publisher: "zmq.Socket[bytes]", frame: bytes) -> Board:
    """What the client hears of a frame that is published each beat."""
    for _ in range(TRIES):
        publisher.send(frame)
        board = client.newest(0.1)
        if board is not None and client.is_live:
            return board
    raise AssertionError("nothing heard")


def test_without_an_aggregator_the_files_are_read_and_only_when_they_change(store: SqliteStore):
    with BoardClient(store.path) as client:
        first, second = client.newest(0.0), client.newest(0.0)
        store.add_run(*heat_run(8))
        third = client.newest(0.0)

    assert first is not None
    assert [run.name for run in first.runs] == ["p=4#0", "p=2#0"]
    assert second is None
    assert third is not None
    assert len(third.runs) == 3


def test_an_aggregator_is_heard(store: SqliteStore, publisher: "zmq.Socket[bytes]"):
    live = LiveRun("x", RunKey.of({"p": 8}), RunState.MEASURING, 6, 1, 8)
    board = make_board(store.runs(), ModelSet(), [live])

    with BoardClient(store.path) as client:
        assert heard(client, publisher, json.dumps(board.to_dict()).encode()) == board


def test_the_files_are_read_again_when_the_aggregator_has_gone(
    store: SqliteStore, publisher: "zmq.Socket[bytes]"
):
    with BoardClient(store.path) as client:
        heard(client, publisher, json.dumps(Board().to_dict()).encode())
        os.unlink(os.path.join(store.path, "aggregator.json"))

        board = client.newest(0.0)

        assert not client.is_live
        assert board is not None
        assert len(board.runs) == 2


def test_the_board_of_another_version_is_refused(
    store: SqliteStore, publisher: "zmq.Socket[bytes]"
):
    with BoardClient(store.path) as client, pytest.raises(WireError, match="not a board"):
        heard(client, publisher, b'{"rows": []}')


def test_a_campaign_of_which_only_the_plan_is_there_waits_for_its_first_run(tmp_path):
    asked = '[levels]\np = [2, 4]\n[run]\ncommand = "x"\nrepetitions = 1\n'
    (tmp_path / "campaign.toml").write_text(asked)

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
    assert list(list_agenda_changes(*agendas)) == ["campaign: 1 of 2 made, about 3 s to go"]


def test_a_campaign_that_is_not_there_is_refused(tmp_path: os.PathLike[str]):
    with pytest.raises(CampaignError, match="no campaign here"):
        BoardClient(os.path.join(tmp_path, "nix"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', "null"])
def test_an_address_that_cannot_be_read_is_none(text: str, tmp_path: os.PathLike[str]):
    with open(os.path.join(tmp_path, "aggregator.json"), "w", encoding="utf-8") as file:
        file.write(text)

    assert find_address(str(tmp_path)) is None


def test_boards_are_heard_between_machines_with_the_keys_of_the_campaign(store: SqliteStore):
    board = make_board(store.runs(), ModelSet())

    async def serve() -> Board | None:
        with bind(store.path, "tcp://127.0.0.1:*") as sockets:
            address = Address(
                pid=1,
                host="here",
                instance="1",
                endpoint=sockets.endpoint,
                boards=sockets.boards_endpoint,
                token="",
                started=0.0,
                curve=sockets.curve,
            )
            address.write(store.path)
            with BoardClient(store.path) as client:
                for _ in range(TRIES):
                    await sockets.boards.send(json.dumps(board.to_dict()).encode())
                    found = await asyncio.to_thread(client.newest, 0.1)
                    if found is not None and client.is_live:
                        return found
        return None

    assert asyncio.run(serve()) == board
