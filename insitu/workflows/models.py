"""Listing the models of a campaign."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from insitu.analysis.cost import measured_shares
from insitu.analysis.deviation import OFF_FORECAST
from insitu.campaign.selection import find_other_processes, is_omitted, select_runs
from insitu.campaign.store import open_store
from insitu.entities import CallPath, Finding, RunRecord
from insitu.modeling.base import ModelSet
from insitu.modeling.search import TOO_FEW_POINTS
from insitu.workflows.selection import (
    EVERY_SERIES,
    SeriesFilter,
    SeriesSelection,
    explain_missing_models,
    findings_about,
    select_series,
)


@dataclass(frozen=True, slots=True)
class ModelListing:
    """The selected models of a campaign.

    Attributes:
        models: all models of the campaign.
        selection: the selected ones, with the share of each call path in the cost.
        missing: why there are no models and what to do; empty if there are models.
        run_findings: runs that differ from their forecast, and runs that are not used for models.
        findings: about the selected call paths.
    """

    models: ModelSet
    selection: SeriesSelection
    missing: str
    run_findings: tuple[Finding, ...]
    findings: tuple[Finding, ...]

    @property
    def unmodelled_shares(self) -> Mapping[CallPath, float]:
        """Share of each call path whose time has no model yet, the most expensive first."""
        return self.models.rest


def list_models(campaign: str, series_filter: SeriesFilter = EVERY_SERIES) -> ModelListing:
    """List the models of a campaign, those of the most expensive call path first.

    Args:
        campaign: directory of the campaign.
        series_filter: which series to list.

    Raises:
        CampaignError: there is no campaign, or it cannot be read.
        UsageError: there are models, but none passes the filter.
    """
    with open_store(campaign) as store:
        models = store.models()
        missing = explain_missing_models(store, models)
        runs = store.runs()

    selection = select_series(models, measured_shares(models), series_filter)
    return ModelListing(
        models,
        selection,
        missing,
        run_findings=(*_deviations(runs), *_about_runs(runs)),
        findings=tuple(_unreported_findings(models, selection)),
    )


def _about_runs(runs: Sequence[RunRecord]) -> list[Finding]:
    """Why runs are left out, and what was not measured in those that are used."""
    selected, exclusions = select_runs(runs)
    return [*exclusions, *find_other_processes(selected)]


def _deviations(runs: Sequence[RunRecord]) -> list[Finding]:
    """Return the findings about runs that differ from their forecast, newest run first."""
    findings: list[Finding] = []
    for run in reversed(runs):
        if not is_omitted(run):
            findings += [finding for finding in run.findings if finding.code == OFF_FORECAST]
    return findings


def _unreported_findings(models: ModelSet, selection: SeriesSelection) -> list[Finding]:
    """Return the findings about the selection, without those that `missing` or the list of call
    paths without a model report."""
    findings = findings_about(models, selection.callpaths)
    return [
        finding
        for finding in findings
        if finding.code != TOO_FEW_POINTS or (models.models and not finding.where)
    ]
