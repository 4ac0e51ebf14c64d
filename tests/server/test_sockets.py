"""The aggregator's sockets: private keys, and only clients that hold them are admitted."""

import asyncio
import os
import socket
import stat
from pathlib import Path

import pytest
import zmq
import zmq.asyncio
import zmq.auth

from insitu.campaign.layout import ALLOWED_CLIENTS, CLIENT_KEY, SERVER_KEY
from insitu.campaign.reachability import use_client_keys
from insitu.errors import CampaignError, UsageError
from insitu.server.sockets import bind, make_keys

ANSWER_S = 5.0
SILENCE_S = 0.2


def test_keys_are_made_once_and_private(tmp_path):
    keys = Path(make_keys(str(tmp_path)))
    before = {path: path.read_bytes() for path in keys.rglob("*.key*")}

    assert make_keys(str(tmp_path)) == str(keys)

    assert {path: path.read_bytes() for path in keys.rglob("*.key*")} == before
    for path in keys.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    names = {str(path.relative_to(keys)) for path in before}
    assert names == {
        *(f"{SERVER_KEY}.key", f"{SERVER_KEY}.key_secret"),
        *(f"{CLIENT_KEY}.key", f"{CLIENT_KEY}.key_secret"),
        f"{ALLOWED_CLIENTS}/{CLIENT_KEY}.key",
    }
    admitted, public = (folder / f"{CLIENT_KEY}.key" for folder in (keys / ALLOWED_CLIENTS, keys))
    assert before[admitted] == before[public]


@pytest.mark.parametrize("name", [SERVER_KEY, CLIENT_KEY])
def test_secret_keys_that_others_can_read_are_refused(tmp_path, name):
    keys = make_keys(str(tmp_path))
    os.chmod(os.path.join(keys, f"{name}.key_secret"), 0o640)

    with pytest.raises(CampaignError, match="mode 0600"):
        make_keys(str(tmp_path))


def test_making_keys_leaves_the_mask_of_new_files_as_it_was(tmp_path):
    before = os.umask(0o022)
    try:
        make_keys(str(tmp_path))
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


async def ask(sockets, client: zmq.asyncio.Socket, wait_s: float) -> bytes | None:
    """What an aggregator that repeats every message answers; None if it hears nothing."""
    client.setsockopt(zmq.LINGER, 0)
    client.connect(sockets.endpoint)
    await client.send(b"question")
    if not await sockets.agents.poll(round(1000 * wait_s)):
        return None
    await sockets.agents.send_multipart(await sockets.agents.recv_multipart())
    return await client.recv()


def test_only_clients_with_the_key_of_the_campaign_are_admitted_over_tcp(tmp_path):
    async def serve() -> list[bytes | None]:
        campaign = str(tmp_path)
        answers = []
        with bind(campaign, "tcp://127.0.0.1:*") as sockets, zmq.asyncio.Context() as context:
            assert sockets.curve == make_keys(campaign)
            assert sockets.boards_endpoint.startswith("tcp://127.0.0.1:")
            with context.socket(zmq.DEALER) as client:
                use_client_keys(client, sockets.curve)
                answers.append(await ask(sockets, client, ANSWER_S))
            with context.socket(zmq.DEALER) as stranger:
                use_client_keys(stranger, sockets.curve)
                stranger.curve_publickey, stranger.curve_secretkey = zmq.curve_keypair()
                answers.append(await ask(sockets, stranger, SILENCE_S))
            with context.socket(zmq.DEALER) as open_client:
                answers.append(await ask(sockets, open_client, SILENCE_S))
        return answers

    assert asyncio.run(serve()) == [b"question", None, None]


def test_sockets_of_one_machine_are_not_encrypted_and_go_with_their_process(tmp_path):
    async def serve() -> tuple[bytes | None, list[str]]:
        with bind(str(tmp_path)) as sockets, zmq.asyncio.Context() as context:
            endpoints = (sockets.endpoint, sockets.boards_endpoint)
            paths = [endpoint.removeprefix("ipc://") for endpoint in endpoints]
            assert sockets.curve == "" and all(map(os.path.exists, paths))
            with context.socket(zmq.DEALER) as client:
                return await ask(sockets, client, ANSWER_S), paths

    answer, paths = asyncio.run(serve())

    assert answer == b"question"
    assert not any(map(os.path.exists, paths))


@pytest.mark.parametrize("address", ["ipc:///tmp/x", "127.0.0.1:5555"])
def test_addresses_of_another_kind_are_refused(tmp_path, address):
    with pytest.raises(UsageError, match="must be tcp://HOST:PORT"):
        bind(str(tmp_path), address)


def test_an_address_that_cannot_be_bound_is_named(tmp_path):
    async def serve() -> None:
        bind(str(tmp_path), "tcp://203.0.113.1:1")

    with pytest.raises(CampaignError, match=r"cannot bind tcp://203\.0\.113\.1:1: "):
        asyncio.run(serve())


@pytest.mark.parametrize("interfaces", ["0.0.0.0", "127.0.0.1"])
def test_the_address_of_all_interfaces_is_the_name_of_the_host(tmp_path, interfaces):
    async def serve() -> list[str]:
        with bind(str(tmp_path), f"tcp://{interfaces}:*") as sockets:
            return [sockets.endpoint, sockets.boards_endpoint]

    endpoints = asyncio.run(serve())

    host = socket.gethostname() if interfaces == "0.0.0.0" else interfaces
    ports = [endpoint.removeprefix(f"tcp://{host}:") for endpoint in endpoints]
    assert all(map(str.isdigit, ports)) and len(set(ports)) == 2
