"""Take the tables that nodes have copied into the campaign because they reach no aggregator."""

import os

from insitu.collectors import leftovers, spool
from insitu.entities import Finding
from insitu.errors import WireError
from insitu.server.events import Effect, MessageArrived, Reply, Report
from insitu.server.ingest import fit_into_frames
from insitu.server.writer import CampaignWriter
from insitu.wire.codec import decode, encode
from insitu.wire.messages import Hello


class SpoolReader:
    """The spool of a campaign, as its aggregator sees it."""

    def __init__(self) -> None:
        self._unreadable: set[str] = set()  # folders that were reported

    def take(self, writer: CampaignWriter, now: float) -> list[Effect]:
        """Handle the tables of all nodes in the spool; remove what is durable in the campaign.

        Args:
            writer: the writer of the campaign.
            now: seconds since 1970.

        Returns:
            Effects that do not concern files.
        """
        effects: list[Effect] = []
        for folder in spool.complete_folders(writer.campaign):
            if folder in self._unreadable:
                continue
            try:
                effects += _take_folder(folder, writer, now)
            except WireError as error:
                self._unreadable.add(folder)
                effects.append(Report(Finding("message-refused", str(error))))
        return effects


def _take_folder(folder: str, writer: CampaignWriter, now: float) -> list[Effect]:
    """Handle the tables of one node.

    Raises:
        WireError: no table can be read.
    """
    peer = f"spool {os.path.basename(folder)}".encode()
    hello: Hello | None = None
    effects: list[Effect] = []
    for message in fit_into_frames(leftovers.read_messages(folder)):
        checked = decode(encode(message))  # so that the limits of messages from sockets hold
        if isinstance(checked, Hello):
            hello = checked
        effects += writer.handle(MessageArrived(peer, checked, now, is_trusted=True))

    if hello is not None and writer.state.is_durable(hello):
        leftovers.remove(folder)
    return [effect for effect in effects if not isinstance(effect, Reply)]
