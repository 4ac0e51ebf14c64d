"""Whom an agent speaks to: one of the relays, the same one each time, else the aggregator."""

import json
import os

import pytest

from insitu.collectors.addresses import AGGREGATOR, Address, files, read


def publish(campaign, *names, mode=0o600):
    (campaign / "relays").mkdir(exist_ok=True)
    for name in names:
        path = campaign / name
        path.write_text(json.dumps({"endpoint": f"ipc://{name}", "token": "t", "curve": ""}))
        path.chmod(mode)


def chosen(campaign, node):
    return os.path.relpath(files(str(campaign), node)[0], campaign)


def test_without_relays_the_aggregator_is_asked(tmp_path):
    assert files(str(tmp_path), "n0") == [str(tmp_path / AGGREGATOR)]


def test_nodes_are_spread_over_the_relays_and_stay_where_they_are(tmp_path):
    publish(tmp_path, *(f"relays/r{i}.json" for i in range(4)))
    before = {f"n{k}": chosen(tmp_path, f"n{k}") for k in range(400)}

    (tmp_path / "relays" / "r3.json").unlink()
    after = {node: chosen(tmp_path, node) for node in before}

    assert all(50 < list(before.values()).count(f"relays/r{i}.json") < 150 for i in range(4))
    stayed = {node for node in before if before[node] == after[node]}
    assert stayed == {node for node, path in before.items() if path != "relays/r3.json"}
    assert files(str(tmp_path), "n0")[-1] == str(tmp_path / AGGREGATOR)


def test_an_address_is_read(tmp_path):
    publish(tmp_path, AGGREGATOR)

    assert read(str(tmp_path / AGGREGATOR)) == Address(f"ipc://{AGGREGATOR}", "t", "")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"endpoint": "x"}'])
def test_what_is_no_address_is_none(tmp_path, text):
    path = tmp_path / AGGREGATOR
    path.write_text(text)
    path.chmod(0o600)

    assert read(str(path)) is None


def test_an_address_that_others_may_write_is_none(tmp_path):
    publish(tmp_path, AGGREGATOR, mode=0o660)

    assert read(str(tmp_path / AGGREGATOR)) is None
