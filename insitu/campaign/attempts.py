"""Runs that a campaign tried: one line of JSON each, kept even where the run left nothing."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from insitu.errors import CampaignError

FILE = os.path.join("logs", "attempts.jsonl")


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """A run that was tried: seconds from start to end, exit code (124: it took too long)."""

    parameters: Mapping[str, float]
    began_at: float  # seconds since 1970
    seconds: float
    code: int


def append_attempt(campaign: str, attempt: AttemptRecord) -> None:
    """Keep it, on the disk before this returns.

    Raises:
        CampaignError: it cannot be written.
    """
    path = os.path.join(campaign, FILE)
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
    """All of them, in order; a line that was cut short, as by a reboot, is left out.

    Raises:
        CampaignError: the file cannot be read.
    """
    path = os.path.join(campaign, FILE)
    found = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    data = json.loads(line)
                    parameters = {str(k): float(v) for k, v in data["params"].items()}
                    found.append(
                        AttemptRecord(
                            parameters,
                            float(data["began_at"]),
                            float(data["seconds"]),
                            int(data["code"]),
                        )
                    )
                except (ValueError, KeyError, TypeError, AttributeError):
                    continue
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CampaignError(f"{path}: cannot be read: {error.strerror}") from error
    return found
