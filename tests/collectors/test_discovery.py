"""An agent connects to one of the relays, always to the same one, else to the aggregator."""

import os

from insitu.campaign.layout import AGGREGATOR_ADDRESS
from insitu.collectors.discovery import address_files


def publish(campaign, *names):
    (campaign / "relays").mkdir(exist_ok=True)
    for name in names:
        (campaign / name).write_text("{}")


def first_choice(campaign, node):
    return os.path.relpath(address_files(str(campaign), node)[0], campaign)


def test_without_relays_a_node_tries_the_aggregator_only(tmp_path):
    assert address_files(str(tmp_path), "n0") == [str(tmp_path / AGGREGATOR_ADDRESS)]


def test_nodes_are_spread_over_the_relays_and_keep_theirs(tmp_path):
    publish(tmp_path, *(f"relays/r{i}.json" for i in range(4)))
    before = {f"n{k}": first_choice(tmp_path, f"n{k}") for k in range(400)}

    (tmp_path / "relays" / "r3.json").unlink()
    after = {node: first_choice(tmp_path, node) for node in before}

    assert all(50 < list(before.values()).count(f"relays/r{i}.json") < 150 for i in range(4))
    unmoved = {node for node in before if before[node] == after[node]}
    assert unmoved == {node for node, path in before.items() if path != "relays/r3.json"}
    assert address_files(str(tmp_path), "n0")[-1] == str(tmp_path / AGGREGATOR_ADDRESS)
