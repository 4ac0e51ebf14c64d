"""The address of a listener, and whose word is believed."""

import json

import pytest

from insitu.campaign.listener import ListenerAddress, find_address, load_address

ADDRESS = ListenerAddress(endpoint="ipc:///run/a", token="t", boards="ipc:///run/b", pid=7)


def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_what_is_saved_is_loaded(tmp_path):
    path = str(tmp_path / "aggregator.json")

    ADDRESS.save(path)

    assert load_address(path) == find_address(path) == ADDRESS


def test_endpoint_and_token_are_enough_and_unknown_fields_are_ignored(tmp_path):
    text = json.dumps({"endpoint": "ipc://x", "token": "t", "curve": None, "newer": 1})

    path = write(tmp_path / "aggregator.json", text)

    assert load_address(path) == ListenerAddress("ipc://x", "t")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"endpoint": "x"}', '{"token": "x"}'])
def test_other_content_is_no_address(tmp_path, text):
    path = write(tmp_path / "aggregator.json", text)

    assert find_address(path) is None
    with pytest.raises(ValueError):
        load_address(path)


@pytest.mark.parametrize("mode", [0o660, 0o644, 0o606])
def test_an_address_that_others_can_access_is_not_trusted(tmp_path, mode):
    path = write(tmp_path / "aggregator.json", '{"endpoint": "x", "token": "t"}', mode)

    assert find_address(path) is None
    with pytest.raises(PermissionError, match="mode 0600"):
        load_address(path)


def test_a_link_is_not_followed(tmp_path):
    write(tmp_path / "real", '{"endpoint": "x", "token": "t"}')
    (tmp_path / "aggregator.json").symlink_to("real")

    assert find_address(str(tmp_path / "aggregator.json")) is None


def test_no_file_is_no_address(tmp_path):
    assert find_address(str(tmp_path / "aggregator.json")) is None
