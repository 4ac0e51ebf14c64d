"""The campaign's files while it is written: carries out what the state wants to be durable."""

import os
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

from insitu.campaign.base import Store
from insitu.campaign.store import open_store
from insitu.entities import Finding, RunKey, RunState
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
    """A campaign under this process's lock, with its store, its journal and its state."""

    def __init__(self, campaign: str, *, instance: str, heartbeat_s: float) -> None:
        """Open the campaign, making it where it is not there yet.

        Raises:
            CampaignError: another aggregator has it, or its files cannot be used.
        """
        self.campaign = campaign
        with ExitStack() as stack:
            self.store: Store = stack.enter_context(open_store(campaign, create=True))
            stack.enter_context(WriterLock(campaign))
            self._journal = stack.enter_context(Journal(campaign))
            self.token = load_token(campaign)
            self._stack = stack.pop_all()
        self.records = self.store.runs()
        records = self.records
        self._keys = {record.id: record.key for record in records}
        self._told: set[str] = set()  # what could not be done is said once
        self._appended: list[JournalSynced] = []  # to the journal, and not synced yet
        self.state = CampaignState(
            instance=instance,
            token=self.token,
            heartbeat_s=heartbeat_s,
            room_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2,
            sealed=[record.id for record in records if record.state is RunState.COMPLETE],
            partial=[record.id for record in records if record.state is RunState.INCOMPLETE],
        )

    def replay(self, now: float) -> list[Effect]:
        """Take up what an earlier aggregator promised to keep; what is left to do is returned."""
        sessions: dict[JournalSynced, None] = {}
        peer = b""
        for message in self._journal.replay():
            if isinstance(message, Hello):
                kept = JournalSynced(message.run, message.node, message.incarnation)
                peer = f"journal {len(sessions)}".encode()
                sessions[kept] = None
            self.state.handle(MessageArrived(peer, message, now, is_trusted=True))
        for run in {kept.run for kept in sessions} & self.state.sealed:
            self._journal.forget(run)
        return self._carry_out(effect for kept in sessions for effect in self.state.handle(kept))

    def handle(self, event: Event) -> list[Effect]:
        """Let something happen; the files are written, the effects that are left are returned."""
        return self.take(event) + self.sync()

    def take(self, event: Event) -> list[Effect]:
        """The same, but what is to be kept is durable, and answered, only after `sync`.

        Many nodes end at one time: a sync for all of them costs hardly more than for one.
        """
        return self._carry_out(self.state.handle(event))

    def sync(self) -> list[Effect]:
        """Make durable what was to be kept; the effects that are left are returned."""
        appended, self._appended = self._appended, []
        try:
            self._journal.sync()
        except CampaignError as error:
            return self._tell(error)
        if appended:
            self._told.clear()
        return self._carry_out(effect for kept in appended for effect in self.state.handle(kept))

    def read_records(self) -> None:
        """Look what is kept of the runs after somebody else than this has added to it."""
        self.records = self.store.runs()

    def close(self) -> None:
        """Let go of the campaign."""
        self._stack.close()

    def __enter__(self) -> Self:
        """For `with`."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def _carry_out(self, effects: Iterable[Effect]) -> list[Effect]:
        left: list[Effect] = []
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            try:
                done = self._done(effect)
            except CampaignError as error:
                left += self._tell(error)
                continue
            if done is None:
                left.append(effect)
                continue
            todo.extendleft(reversed(done))
        return left

    def _tell(self, error: CampaignError) -> list[Effect]:
        """Say once what could not be done."""
        if str(error) in self._told:
            return []
        self._told.add(str(error))
        return [Report(Finding("not-kept", str(error)))]

    def _done(self, effect: Effect) -> list[Effect] | None:
        """What follows from an effect on the files; None for effects on something else."""
        match effect:
            case AppendToJournal(run, node, incarnation, messages):
                self._journal.append(run, messages)
                self._appended.append(JournalSynced(run, node, incarnation))
                return []
            case StoreRun():
                before = self.sync()  # who ended before is told so, which a sealed run forgets
                return before + (
                    [] if effect.record.id in self.state.sealed else self._seal(effect)
                )
            case DropFromJournal(run):
                self._journal.forget(run)
                return []
            case _:
                return None

    def _seal(self, seal: StoreRun) -> list[Effect]:
        record = seal.record
        key = self._keys.get(record.id)
        if key is None:
            parameters = dict(record.key.parameters)
            key = RunKey.of(parameters, self.store.next_repetition(parameters))
        record = replace(record, key=key)
        self.store.add_run(record, seal.table)
        self._keys[record.id] = key
        self._told.clear()
        self.records = self.store.runs()
        is_partial = record.state is RunState.INCOMPLETE
        size, rows = record.key.size, len(seal.table.callpaths)
        text = f"run {key}: sealed, {rows} call paths of {size} rank{'s' if size > 1 else ''}"
        if is_partial:
            text = f"run {key}: partial; " + record.findings[-1].text
        code = "run-partial" if is_partial else "run-sealed"
        return [
            Report(Finding(code, text, record.id)),
            *self.state.handle(RunStored(record.id, is_partial)),
        ]
