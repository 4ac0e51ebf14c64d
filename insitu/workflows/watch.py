"""Following a campaign: its board now, or every board and agenda as they change."""

from collections.abc import Iterator
from dataclasses import dataclass

from insitu.analysis.board import Board
from insitu.analysis.progress import Agenda
from insitu.workflows.boards import BoardClient

INTERVAL_S = 1.0
FIRST_BOARD_S = 1.5  # how long to wait for a running aggregator before the files are read


@dataclass(frozen=True, slots=True)
class CampaignSnapshot:
    """What there is to see of a campaign.

    Attributes:
        board: runs, series and findings; None if nothing is new.
        agenda: how far the runs that campaign.toml requests are; None if it requests none.
    """

    board: Board | None
    agenda: Agenda | None


def load_state(campaign: str) -> CampaignSnapshot:
    """Return the current board of a campaign, from its aggregator if one runs, else its files.

    Raises:
        CampaignError: there is no campaign, or it cannot be read.
        UsageError: campaign.toml makes no sense.
    """
    with BoardClient(campaign) as client:
        wait_s = FIRST_BOARD_S if client.find_aggregator() else 0.0
        board = client.newest(wait_s) or client.read_stored() or Board()
        return CampaignSnapshot(board, client.agenda())


def follow_campaign(campaign: str) -> Iterator[CampaignSnapshot]:
    """Yield the state of a campaign once per interval, without end.

    Raises:
        CampaignError: there is no campaign, or it cannot be read.
        UsageError: campaign.toml makes no sense.
        WireError: the aggregator publishes a format that this insitu cannot read.
    """
    with BoardClient(campaign) as client:
        while True:
            board = client.newest(INTERVAL_S)
            yield CampaignSnapshot(board, client.agenda())


def follow_boards(campaign: str) -> Iterator[Board]:
    """Yield each new board of a campaign, without end.

    Raises:
        CampaignError: there is no campaign, or it cannot be read.
        WireError: the aggregator publishes a format that this insitu cannot read.
    """
    with BoardClient(campaign) as client:
        while True:
            board = client.newest(INTERVAL_S)
            if board is not None:
                yield board
