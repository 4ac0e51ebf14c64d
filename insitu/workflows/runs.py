"""Listing the runs of a campaign."""

from dataclasses import dataclass

from insitu.analysis.board import RunRow, stored_row
from insitu.campaign.catalogue import open_catalogue
from insitu.campaign.node_facts import RunNode, nodes_of
from insitu.campaign.selection import select_runs
from insitu.entities import Finding


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
    with open_catalogue(campaign) as catalogue:
        records = catalogue.runs()

    selected, exclusions = select_runs(records)
    used = {record.id for record in selected}
    runs = []
    for record in records:
        reasons = [finding for finding in exclusions if finding.where == str(record.key)]
        findings = dict.fromkeys((*record.findings, *reasons))
        run = ListedRun(
            stored_row(record), record.id in used, tuple(findings), tuple(nodes_of(record))
        )
        runs.append(run)
    return sorted(runs, key=lambda run: run.row.started_at)
