"""Listing the runs of a campaign."""

from collections.abc import Sequence
from dataclasses import dataclass

from insitu.analysis.board import RunRow, stored_row
from insitu.campaign.base import Store
from insitu.campaign.load import load_experiment
from insitu.campaign.node_facts import RunNode, nodes_of
from insitu.campaign.selection import select_runs
from insitu.campaign.store import open_store
from insitu.entities import Finding, RunKey, RunRecord
from insitu.errors import CampaignError
from insitu.modeling.base import CROWDED
from insitu.modeling.crowding import describe_crowding


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run of a campaign.

    Attributes:
        row: its state, ranks, times, host and command.
        is_used: whether the models contain it.
        findings: about this run, with the reason why it is not used.
        nodes: with their ranks and facts, as far as these were recorded.
    """

    row: RunRow
    is_used: bool
    findings: tuple[Finding, ...] = ()
    nodes: tuple[RunNode, ...] = ()


def list_runs(campaign: str) -> list[ListedRun]:
    """All runs of a campaign, the oldest first.

    Args:
        campaign: directory of the campaign.

    Raises:
        CampaignError: there is no campaign, or it cannot be read.
    """
    with open_store(campaign) as store:
        records = store.runs()
        selected, exclusions = select_runs(records)
        crowding = _crowding_findings(store, selected)

    used = {record.id for record in selected}
    runs = []
    for record in records:
        reasons = [finding for finding in exclusions if finding.where == str(record.key)]
        if record.id in used:
            reasons += crowding.get(record.key, ())
        findings = dict.fromkeys((*record.findings, *reasons))
        run = ListedRun(
            stored_row(record), record.id in used, tuple(findings), tuple(nodes_of(record))
        )
        runs.append(run)
    return sorted(runs, key=lambda run: run.row.started_at)


def _crowding_findings(store: Store, runs: Sequence[RunRecord]) -> dict[RunKey, list[Finding]]:
    """Why the times of each crowded run are not judged; nothing where values are damaged."""
    try:
        experiment = load_experiment(store, store.tables_on_disk().__getitem__, runs)
    except CampaignError:
        return {}  # whatever needs the values says so; the list of runs does not
    findings = {}
    for key in experiment.crowded_runs():
        text = f"{describe_crowding(experiment, [key])}: its times are not judged"
        findings[key] = [Finding(CROWDED, text)]
    return findings
