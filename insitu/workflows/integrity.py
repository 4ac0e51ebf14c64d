"""Checking the files of a campaign: what is damaged, and what to do about it."""

import os
from collections.abc import Iterator

from insitu.campaign.layout import AGGREGATOR_JOURNAL, AGGREGATOR_LOCK
from insitu.campaign.listener import LockState, lock_state
from insitu.campaign.store import SqliteStore, open_store
from insitu.errors import CampaignError
from insitu.workflows.doctor import LIMITED, MISSING, OK, Check

RESTORE = "restore campaign.db from a backup"


def check_campaign(campaign: str) -> list[Check]:
    """Read everything in a campaign, and compare it with its checksums. Nothing is changed.

    Args:
        campaign: directory of the campaign.

    Raises:
        CampaignError: there is no campaign, or its database cannot be opened.
    """
    with open_store(campaign) as store:
        checks = [_check_database(store), *_check_runs(store), _check_models(store)]
    return [*checks, _check_journal(campaign), _check_locks(campaign)]


def _check_database(store: SqliteStore) -> Check:
    problems = store.structure_problems()
    if problems:
        return Check("database", MISSING, "; ".join(problems[:3]), RESTORE)
    return Check("database", OK, "its structure is intact")


def _check_runs(store: SqliteStore) -> Iterator[Check]:
    try:
        runs = store.runs()
    except CampaignError as error:
        yield Check("runs", MISSING, str(error), RESTORE)
        return

    n_intact = 0
    for run in runs:
        try:
            store.table(run.id)
            n_intact += 1
        except CampaignError as error:
            advice = f"{RESTORE}, or leave the run out with `insitu omit`"
            yield Check(f"run {run.key}", MISSING, str(error), advice)

    yield Check("runs", OK, f"{n_intact} of {len(runs)} are intact")


def _check_models(store: SqliteStore) -> Check:
    models = store.models()
    damage = [finding.text for finding in models.findings if finding.code == "models-damaged"]
    if damage:
        return Check("models", LIMITED, damage[0], f"insitu refit {store.path}")
    if not store.are_class_means_intact(models):
        text = "the class means are damaged; the next refit reads all runs and makes them again"
        return Check("models", LIMITED, text, f"insitu refit {store.path}")
    return Check("models", OK, f"{len(models.models)} models, all intact")


def _check_journal(campaign: str) -> Check:
    names = sorted(os.listdir(campaign))
    damaged = [name for name in names if name.startswith(f"{AGGREGATOR_JOURNAL}.damaged-")]
    if damaged:
        advice = "measure the incomplete runs again; then remove the file"
        return Check("journal", LIMITED, f"was damaged, kept as {', '.join(damaged)}", advice)
    if AGGREGATOR_JOURNAL in names:
        size = os.path.getsize(os.path.join(campaign, AGGREGATOR_JOURNAL))
        return Check("journal", OK, f"{size} bytes wait for the rest of their runs")
    return Check("journal", OK, "empty")


def _check_locks(campaign: str) -> Check:
    if lock_state(os.path.join(campaign, AGGREGATOR_LOCK)) is LockState.UNSUPPORTED:
        advice = "mount it with locks (Lustre: -o flock), or start one aggregator at a time"
        return Check("locks", LIMITED, "the file system has no locks", advice)
    return Check("locks", OK, "the file system has locks")
