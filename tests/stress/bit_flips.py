"""Flip one bit of campaign.db, or of the aggregator's journal, at a time, and read everything.

    python -m tests.stress.bit_flips [--journal] [--count COUNT] [--seed SEED]

Prints what became of each flip. A traceback other than CampaignError, or a value that changed
without a word, ends the script with exit code 1. There is no peer: no other tool stores checksums
of its measurements.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from insitu.campaign.layout import AGGREGATOR_JOURNAL
from insitu.campaign.store import SqliteStore, open_store
from insitu.entities import Finding, RunRecord
from insitu.errors import CampaignError
from insitu.modeling.base import ClassMeans
from insitu.modeling.measurement import RunTable
from insitu.server.journal import Journal
from insitu.wire.messages import Message
from insitu.workflows.refit import refit_campaign
from tests.support.campaigns import heat_campaign
from tests.support.nodes import ModelNode

DAMAGED = "models-damaged"  # the finding for models that are left out


@dataclass(frozen=True)
class Content:
    """Everything that a campaign holds."""

    runs: list[RunRecord]
    tables: list[RunTable]
    models: dict[object, object]
    class_means: ClassMeans
    findings: tuple[Finding, ...]
    unmodelled: list[str]


def read_everything(store: SqliteStore) -> Content:
    """Read a campaign as commands do.

    Raises:
        CampaignError: it is damaged.
    """
    runs = store.runs()
    models = store.models()
    rows: dict[object, object] = {}
    for model in (*models.models, *models.supplements):
        rows[model.key] = model.model.to_dict()
    for clusters in models.clusters:
        key = (clusters.callpath, clusters.metric, clusters.run)
        rows[key] = (clusters.labels.tolist(), clusters.names)
    return Content(
        runs,
        [store.table(run.id) for run in runs],
        rows,
        store.class_means(models),
        models.findings,
        store.unmodelled_runs(),
    )


def compare(before: Content, after: Content) -> str:
    """Return "same", "models left out" or "CHANGED"."""
    are_tables_equal = all(
        left.callpaths == right.callpaths
        and left.metrics == right.metrics
        and all(np.array_equal(left.values[name], right.values[name], True) for name in left.values)
        for left, right in zip(before.tables, after.tables, strict=False)
    )
    if before.runs != after.runs or not are_tables_equal:
        return "CHANGED"

    if not are_class_means_intact(before.class_means, after.class_means):
        return "CHANGED"
    are_models_intact = all(before.models.get(key) == row for key, row in after.models.items())
    is_reported = any(finding.code == DAMAGED for finding in after.findings)
    if not are_models_intact:
        return "CHANGED"
    if is_reported:
        return "models left out"
    is_same = (before.models, before.findings) == (after.models, after.findings)
    return "same" if is_same else "CHANGED"


def are_class_means_intact(before: ClassMeans, after: ClassMeans) -> bool:
    """Whether no class mean changed; what is damaged is absent, and made again by a refit."""
    if not after.basis:
        return True
    if (before.basis, before.keys, before.metrics) != (after.basis, after.keys, after.metrics):
        return False
    return all(
        np.array_equal(means, before.means[run][metric], True)
        for run, by_metric in after.means.items()
        for metric, means in by_metric.items()
    )


def flip_bits(campaign: Path, count: int, seed: int) -> Counter[str]:
    """Flip `count` bits of a campaign's database, one at a time; count what became of them."""
    with open_store(str(campaign)) as store:
        before = read_everything(store)
    intact = (campaign / "campaign.db").read_bytes()
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()

    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            damaged = bytearray(intact)
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            copy = Path(folder, f"{number}.insitu")
            copy.mkdir()
            (copy / "campaign.db").write_bytes(damaged)
            try:
                with open_store(str(copy)) as store:
                    outcomes[compare(before, read_everything(store))] += 1
            except CampaignError:
                outcomes["reported"] += 1
            shutil.rmtree(copy)
    return outcomes


def make_campaign(folder: Path) -> Path:
    """Create a campaign with ten runs and their models."""
    campaign = folder / "heat.insitu"
    heat_campaign(str(campaign), 2).close()
    refit_campaign(str(campaign))
    return campaign


def messages_of(run: str) -> list[Message]:
    """What a node of two ranks sends about a run."""
    return ModelNode("n0", [0, 1], 2, run=run).messages()


def flip_journal_bits(folder: Path, count: int, seed: int) -> Counter[str]:
    """Flip `count` bits of a journal of three runs, one at a time; count what became of them."""
    runs = [f"{number:032x}" for number in range(3)]
    everything = [message for run in runs for message in messages_of(run)]
    with Journal(str(folder)) as journal:
        list(journal.replay())
        for run in runs:
            journal.append(run, messages_of(run))
            journal.sync()
    file = folder / AGGREGATOR_JOURNAL
    intact = file.read_bytes()
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()

    for _ in range(count):
        damaged = bytearray(intact)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        try:
            with Journal(str(folder)) as journal:
                messages = list(journal.replay())
                is_reported = bool(journal.damage)
        except CampaignError:
            outcomes["reported, nothing read"] += 1
            continue
        is_subset = all(message in everything for message in messages)
        is_silent = len(messages) < len(everything) and not is_reported
        outcomes["CHANGED" if is_silent or not is_subset else "reported, the rest read"] += 1
        for copy in folder.glob(f"{AGGREGATOR_JOURNAL}.damaged-*"):
            copy.unlink()
    return outcomes


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--journal", action="store_true")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        if options.journal:
            outcomes = flip_journal_bits(Path(folder), options.count, options.seed)
        else:
            outcomes = flip_bits(make_campaign(Path(folder)), options.count, options.seed)
    for outcome, number in outcomes.most_common():
        print(f"{number:6} {outcome}")
    sys.exit(1 if outcomes["CHANGED"] else 0)


if __name__ == "__main__":
    main()
