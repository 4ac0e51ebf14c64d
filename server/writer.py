"""The only writer of a campaign: carries out the effects that concern its files."""

import os
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

from insitu.campaign.base import Store
from insitu.campaign.store import open_store
from insitu.entities import RANK_SIGNAL, Finding, RunKey, RunState
from insitu.errors import CampaignError
from insitu.server.discovery import WriterLock, load_token
from insitu.server.events import (
    AppendToJournal,
    DropFromJournal,
    Effect,
    Event,
    JournalSynced,
    MessageArrived,
    Report,
    RunStored,
    StoreRun,
)
from insitu.server.journal import Journal
from insitu.server.state import CampaignState
from insitu.wire.messages import Hello


class CampaignWriter:
    """A campaign locked by this process: its state machine, its store and its journal."""

    def __init__(self, campaign: str, *, instance: str, heartbeat_s: float) -> None:
        """Open the campaign, which is created if necessary.

        Args:
            campaign: the campaign's directory.
            instance: differs from that of every earlier or later writer.
            heartbeat_s: seconds between two messages of an agent.

        Raises:
            CampaignError: another process has the campaign locked, or its files cannot be used.
        """
        self.campaign = campaign
        with ExitStack() as stack:
            self.store: Store = stack.enter_context(open_store(campaign, create=True))
            stack.enter_context(WriterLock(campaign))
            self._journal = stack.enter_context(Journal(campaign))
            self.token = load_token(campaign)
            self._stack = stack.pop_all()

        self.records = self.store.runs()
        self._reported: set[str] = set()  # failures that were reported since the last success
        self._unsynced: list[JournalSynced] = []  # events to handle after the next sync
        self.state = CampaignState(
            instance=instance,
            token=self.token,
            heartbeat_s=heartbeat_s,
            memory_bytes=usable_memory_bytes(),
            complete=self._ids(RunState.COMPLETE),
            incomplete=self._ids(RunState.INCOMPLETE),
        )

    def _ids(self, state: RunState) -> list[str]:
        return [record.id for record in self.records if record.state is state]

    def replay(self, now: float) -> list[Effect]:
        """Handle the messages in the journal; return the effects that do not concern files."""
        sessions: dict[JournalSynced, None] = {}
        peer = b""
        for message in self._journal.replay():
            if isinstance(message, Hello):
                peer = f"journal {len(sessions)}".encode()
                sessions[JournalSynced(message.run, message.node, message.incarnation)] = None
            self.state.handle(MessageArrived(peer, message, now, is_trusted=True))

        for run in {session.run for session in sessions} & self.state.complete:
            self._journal.drop(run)
        effects = self._handle_all(sessions)
        if self._journal.damage:
            effects.append(Report(Finding("journal-damaged", self._journal.damage)))
        return effects

    def handle(self, event: Event) -> list[Effect]:
        """Handle an event, with its effects on files; return the other effects."""
        return self.handle_unsynced(event) + self.sync()

    def handle_unsynced(self, event: Event) -> list[Effect]:
        """Handle an event as `handle` does, but leave it to `sync` to make the journal durable.

        Agents are answered after `sync`. When many nodes end at the same time, one sync for all of
        them takes hardly longer than a sync for one.
        """
        return self._carry_out(self.state.handle(event))

    def sync(self) -> list[Effect]:
        """Make the journal durable; return the effects of that which do not concern files."""
        synced, self._unsynced = self._unsynced, []
        try:
            self._journal.sync()
        except CampaignError as error:
            return self._report_failure(error)

        if synced:
            self._reported.clear()
        return self._handle_all(synced)

    def read_records(self) -> None:
        """Read the runs again, after the refitter has added findings to them."""
        self.records = self.store.runs()

    def close(self) -> None:
        """Close the files and release the lock."""
        self._stack.close()

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the files and release the lock."""
        self.close()

    def _handle_all(self, events: Iterable[Event]) -> list[Effect]:
        effects: list[Effect] = []
        for event in events:
            effects += self.state.handle(event)
        return self._carry_out(effects)

    def _carry_out(self, effects: Iterable[Effect]) -> list[Effect]:
        """Carry out effects on files in order, including those that follow; return the others."""
        remaining: list[Effect] = []
        queue = deque(effects)

        while queue:
            effect = queue.popleft()
            try:
                following = self._carry_out_on_files(effect)
            except CampaignError as error:
                remaining += self._report_failure(error)
                continue
            if following is None:
                remaining.append(effect)
            else:
                queue.extendleft(reversed(following))

        return remaining

    def _report_failure(self, error: CampaignError) -> list[Effect]:
        """Report a failure unless it has been reported since the last success."""
        if str(error) in self._reported:
            return []
        self._reported.add(str(error))
        return [Report(Finding("not-kept", str(error)))]

    def _carry_out_on_files(self, effect: Effect) -> list[Effect] | None:
        """Carry out an effect on files and return what follows; None for any other effect."""
        match effect:
            case AppendToJournal(run, node, incarnation, messages):
                self._journal.append(run, messages)
                self._unsynced.append(JournalSynced(run, node, incarnation))
                return []
            case StoreRun():
                # Answer the agents that ended before: a stored run forgets who they are.
                following = self.sync()
                if effect.record.id not in self.state.complete:
                    following += self._store_run(effect)
                return following
            case DropFromJournal(run):
                self._journal.drop(run)
                return []
            case _:
                return None

    def _store_run(self, effect: StoreRun) -> list[Effect]:
        record, table = effect.record, effect.table
        stored = next((run for run in self.store.runs() if run.id == record.id), None)
        if stored is None:
            parameters = dict(record.key.parameters)
            repetition = self.store.next_repetition(parameters)
            record = replace(record, key=RunKey.of(parameters, repetition))
        else:
            record = replace(record, key=stored.key)
            if record.state is RunState.INCOMPLETE:  # `insitu run` may have added this finding
                signals = [finding for finding in stored.findings if finding.code == RANK_SIGNAL]
                record = replace(record, findings=(*signals, *record.findings))

        self.store.add_run(record, table)
        self._reported.clear()
        self.records = self.store.runs()

        is_incomplete = record.state is RunState.INCOMPLETE
        if is_incomplete:
            code = "run-partial"
            text = f"run {record.key}: incomplete; " + record.findings[-1].text
        else:
            code = "run-sealed"
            ranks = f"{record.key.size} rank{'s' if record.key.size > 1 else ''}"
            text = f"run {record.key}: complete, {len(table.callpaths)} call paths of {ranks}"
        return [
            Report(Finding(code, text, record.id)),
            *self.state.handle(RunStored(record.id, is_incomplete)),
        ]


def usable_memory_bytes() -> int:
    """The memory that runs may take in this process: half of the machine's."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
