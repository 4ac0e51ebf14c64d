"""How far the runs that a campaign asks for have come, and how long the rest takes."""

from collections.abc import Sequence
from dataclasses import dataclass

from insitu.design.schedule import Progress


@dataclass(frozen=True, slots=True)
class Agenda:
    """What campaign.toml asks for and how far it has come, a line per configuration.

    seconds, core_hours: of the runs that are left, NaN where nothing tells.
    """

    lines: tuple[Progress, ...]
    done: int
    left: int
    seconds: float
    core_hours: float


def make_agenda(lines: Sequence[Progress]) -> Agenda:
    """The sum of some configurations."""
    left = [one for one in lines if one.left]
    return Agenda(
        tuple(lines),
        sum(one.done for one in lines),
        sum(one.left for one in left),
        sum(one.left * one.seconds for one in left),
        sum(one.core_hours for one in left),
    )
