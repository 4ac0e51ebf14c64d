"""What the nodes of a relay have said, until it is durable above."""

from insitu.errors import WireError
from insitu.server import runs
from insitu.server.events import AppendToJournal, Effect, JournalSynced, MessageArrived
from insitu.server.runs import Run, Session
from insitu.server.state import CampaignState
from insitu.wire.messages import Hello, RankEnd

Progress = tuple[int, int, tuple[RankEnd, ...]]


def name_of(run: Run, session: Session) -> JournalSynced:
    """What says that a session is durable."""
    return JournalSynced(run.id, session.hello.node, session.hello.incarnation)


def progress_of(session: Session) -> Progress:
    """How far a session is; a Bye that is sent again tells of more cost, which is no progress."""
    bye = session.bye
    return session.last_seq, bye.final_seq if bye else -1, bye.ends if bye else ()


class Nodes(CampaignState):
    """What nodes have said, until it is durable above; it seals nothing.

    An `AppendToJournal` holds no messages: what a node said last is asked when its turn comes. While
    a node waits for its end to be durable it is answered at every tick: it knows that we live.
    """

    def __init__(self, *, instance: str, token: str, heartbeat_s: float, room_bytes: int) -> None:
        super().__init__(
            instance=instance, token=token, heartbeat_s=heartbeat_s, room_bytes=room_bytes
        )
        self.given_up: dict[JournalSynced, Progress] = {}  # refused above, when they were so far

    def _hello(self, event: MessageArrived, hello: Hello) -> list[Effect]:
        if hello.is_relay:
            raise WireError("a relay of relays: start it beside the aggregator's other relays")
        return super()._hello(event, hello)

    def _settle(self, run: Run, now: float) -> list[Effect]:
        return []

    def _part(self, run: Run, now: float) -> list[Effect]:
        """Bring what nodes said that are not heard any more; then nothing of the run is needed."""
        left = [s for s in runs.unkept(run) if not self.is_given_up(run, s)]
        if not left:
            self._forget(run)
        return [self._keep(run, session) for session in left]

    def _ticked(self, now: float) -> list[Effect]:
        effects = super()._ticked(now)
        for run in self.runs.values():
            waiting = [s for s in runs.unkept(run) if s.is_whole and not self.is_given_up(run, s)]
            effects += [self._ack(session, is_durable=False) for session in waiting]
        return effects

    def is_given_up(self, run: Run, session: Session) -> bool:
        """Whether the aggregator has refused what a session has said."""
        return self.given_up.get(name_of(run, session)) == progress_of(session)

    def _table_bytes(self, run: Run, callpaths: int) -> int:
        return 0  # it makes none

    def _silent(self, run: Run, session: Session) -> list[Effect]:
        is_new = session.last_seq and not session.is_kept
        keep: list[Effect] = [self._keep(run, session)] if is_new else []
        return super()._silent(run, session) + keep

    def _keep(self, run: Run, session: Session) -> AppendToJournal:
        return AppendToJournal(run.id, session.hello.node, session.hello.incarnation, ())
