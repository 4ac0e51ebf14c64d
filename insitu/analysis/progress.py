"""How many of the runs that campaign.toml requests are done, and how long the rest takes."""

from collections.abc import Sequence
from dataclasses import dataclass

from insitu.design.schedule import Progress


@dataclass(frozen=True, slots=True)
class Agenda:
    """The progress of the runs that campaign.toml requests, a line per configuration.

    done, left: numbers of runs; seconds, core_hours: of the runs that are left, NaN where they
    cannot be estimated.
    """

    lines: tuple[Progress, ...]
    done: int
    left: int
    seconds: float
    core_hours: float


def make_agenda(lines: Sequence[Progress]) -> Agenda:
    """Sum up configurations."""
    unfinished = [line for line in lines if line.remaining]
    return Agenda(
        lines=tuple(lines),
        done=sum(line.done for line in lines),
        left=sum(line.remaining for line in unfinished),
        seconds=sum(line.remaining * line.seconds for line in unfinished),
        core_hours=sum(line.core_hours for line in unfinished),
    )
