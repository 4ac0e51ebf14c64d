"""Where an agent may find somebody to speak to: a relay of its campaign, or the aggregator."""

import hashlib
import json
import os
from dataclasses import dataclass

from insitu.collectors import places

AGGREGATOR = "aggregator.json"
COMING = "aggregator.coming"  # while whoever started a run sees to it that there is one
RELAYS = "relays"


@dataclass(frozen=True, slots=True)
class Address:
    """Who listens where, and the campaign's token; `curve` is the directory of the keys."""

    endpoint: str
    token: str
    curve: str


def files(campaign: str, node: str) -> list[str]:
    """The files that may hold an address, in the order in which a node asks them.

    Each node begins with another relay, and with the same one whichever else there are; the
    aggregator comes last.
    """
    relays = os.path.join(campaign, RELAYS)
    try:
        names = [name for name in os.listdir(relays) if name.endswith(".json")]
    except OSError:
        names = []
    names.sort(key=lambda name: hashlib.blake2b(f"{node} {name}".encode()).digest())
    return [*(os.path.join(relays, name) for name in names), os.path.join(campaign, AGGREGATOR)]


def read(path: str) -> Address | None:
    """The address in a file; None where there is none, or somebody else may have written it."""
    try:
        with open(path, encoding="utf-8") as file:
            if not places.is_secret(file.fileno()):
                return None
            found = json.load(file)
        curve = str(found.get("curve") or "")
        return Address(str(found["endpoint"]), str(found["token"]), curve)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
