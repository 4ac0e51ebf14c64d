"""The address of a process that agents connect to: the aggregator or a relay."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from insitu.private_files import read_private_file, write_private_file


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """The content of aggregator.json, or of a relay's address file."""

    endpoint: str  # agents connect here
    token: str  # of the campaign
    boards: str = ""  # views subscribe here
    curve: str = ""  # directory of the CURVE keys, empty where sockets are not encrypted
    instance: str = ""  # differs at each start
    pid: int = 0
    host: str = ""
    started: float = 0.0  # seconds since 1970

    @property
    def target(self) -> tuple[str, str, str]:
        """What an agent connects to. A listener that restarted at the same target is the same."""
        return self.endpoint, self.token, self.curve

    def save(self, path: str) -> None:
        """Write the address to a private file.

        Raises:
            OSError: the file cannot be written.
        """
        write_private_file(path, json.dumps(asdict(self), indent=1) + "\n")


def load_address(path: str) -> ListenerAddress:
    """Read an address file that only this user could have written.

    Raises:
        OSError: the file cannot be opened, or another user may have written it.
        ValueError: the file holds no address.
    """
    return parse_address(read_private_file(path))


def parse_address(text: str) -> ListenerAddress:
    """Read an address from the content of its file. Unknown fields are ignored.

    Raises:
        ValueError: the text is no address.
    """
    data: Any = json.loads(text)  # Any: JSON
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")

    try:
        return ListenerAddress(
            endpoint=str(data["endpoint"]),
            token=str(data["token"]),
            boards=str(data.get("boards") or ""),
            curve=str(data.get("curve") or ""),
            instance=str(data.get("instance") or ""),
            pid=int(data.get("pid") or 0),
            host=str(data.get("host") or ""),
            started=float(data.get("started") or 0.0),
        )
    except KeyError as error:
        raise ValueError(f"no field {error}") from error
    except TypeError as error:
        raise ValueError(str(error)) from error


def find_address(path: str) -> ListenerAddress | None:
    """Read an address file; None if there is none, or none that can be read and trusted."""
    try:
        return load_address(path)
    except (OSError, ValueError):
        return None


def peek_address(path: str) -> ListenerAddress | None:
    """Read an address file without checking who wrote it; None if there is none.

    For those who only look at a campaign. Whoever sends the token or data uses `find_address`.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return parse_address(file.read())
    except (OSError, ValueError):
        return None
