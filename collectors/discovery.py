"""Which listener an agent may connect to: a relay of its campaign, or the aggregator."""

import hashlib
import os

from insitu.campaign import layout


def lock_file(address_file: str) -> str:
    """The lock file of the listener that writes an address file; it lies beside it."""
    return f"{address_file.removesuffix('.json')}.lock"


def address_files(campaign: str, node: str) -> list[str]:
    """The files that may hold an address, in the order in which a node tries them.

    Nodes are spread over the relays by a hash of their names, so a node tries the same relay first
    whichever other relays exist. The aggregator comes last.
    """
    relays = os.path.join(campaign, layout.RELAYS)
    try:
        names = [name for name in os.listdir(relays) if name.endswith(".json")]
    except OSError:
        names = []
    names.sort(key=lambda name: hashlib.blake2b(f"{node} {name}".encode()).digest())

    paths = [os.path.join(relays, name) for name in names]
    paths.append(os.path.join(campaign, layout.AGGREGATOR_ADDRESS))
    return paths
