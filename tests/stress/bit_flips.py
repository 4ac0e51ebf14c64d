"""Flip one bit of campaign.db at a time, and read everything.

    python -m tests.stress.bit_flips [COUNT [SEED]]

Prints what became of each flip. A traceback other than CampaignError, or a value that changed
without a word, ends the script with exit code 1. There is no peer: no other tool stores checksums
of its measurements.
"""

import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from insitu.campaign.store import SqliteStore, open_store
from insitu.entities import Finding, RunRecord
from insitu.errors import CampaignError
from insitu.modeling.measurement import RunTable
from insitu.workflows.refit import refit_campaign
from tests.support.campaigns import heat_campaign

DAMAGED = "models-damaged"  # the finding for models that are left out


@dataclass(frozen=True)
class Content:
    """Everything that a campaign holds."""

    runs: list[RunRecord]
    tables: list[RunTable]
    models: dict[object, object]
    findings: tuple[Finding, ...]
    unmodelled: list[str]


def read_everything(store: SqliteStore) -> Content:
    """Read a campaign as commands do.

    Raises:
        CampaignError: it is damaged.
    """
    runs = store.runs()
    models = store.models()
    rows: dict[object, object] = {model.key: model.model.to_dict() for model in models.models}
    for clusters in models.clusters:
        key = (clusters.callpath, clusters.metric, clusters.run)
        rows[key] = (clusters.labels.tolist(), clusters.names)
    return Content(
        runs,
        [store.table(run.id) for run in runs],
        rows,
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

    are_models_intact = all(before.models.get(key) == row for key, row in after.models.items())
    is_reported = any(finding.code == DAMAGED for finding in after.findings)
    if not are_models_intact:
        return "CHANGED"
    if is_reported:
        return "models left out"
    is_same = (before.models, before.findings) == (after.models, after.findings)
    return "same" if is_same else "CHANGED"


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


def main() -> None:
    """Run the script."""
    count, seed = [*map(int, sys.argv[1:]), *(500, 1)[len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory() as folder:
        outcomes = flip_bits(make_campaign(Path(folder)), count, seed)
    for outcome, number in outcomes.most_common():
        print(f"{number:6} {outcome}")
    sys.exit(1 if outcomes["CHANGED"] else 0)


if __name__ == "__main__":
    main()
