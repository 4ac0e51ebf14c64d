"""The log of runs that a campaign attempted, one JSON line each, including failed ones."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from insitu.campaign.layout import ATTEMPTS_LOG
from insitu.errors import CampaignError


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """A run that was attempted, with its duration and exit code (124: it timed out)."""

    parameters: Mapping[str, float]
    began_at: float  # seconds since 1970
    seconds: float
    code: int


def append_attempt(campaign: str, attempt: AttemptRecord) -> None:
    """Append an attempt to the log; it is durable when this returns.

    Raises:
        CampaignError: the log cannot be written.
    """
    path = os.path.join(campaign, ATTEMPTS_LOG)
    line = json.dumps(
        {
            "params": dict(attempt.parameters),
            "began_at": attempt.began_at,
            "seconds": attempt.seconds,
            "code": attempt.code,
        }
    )
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise CampaignError(f"{path}: cannot be written: {error.strerror}") from error


def read_attempts(campaign: str) -> list[AttemptRecord]:
    """Read all attempts, oldest first; malformed lines, as a reboot leaves them, are skipped.

    Raises:
        CampaignError: the log cannot be read.
    """
    path = os.path.join(campaign, ATTEMPTS_LOG)
    attempts = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    attempts.append(_parse_attempt(line))
                except (ValueError, KeyError, TypeError, AttributeError):
                    continue
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CampaignError(f"{path}: cannot be read: {error.strerror}") from error

    return attempts


def _parse_attempt(line: str) -> AttemptRecord:
    data = json.loads(line)
    return AttemptRecord(
        parameters={str(name): float(value) for name, value in data["params"].items()},
        began_at=float(data["began_at"]),
        seconds=float(data["seconds"]),
        code=int(data["code"]),
    )
