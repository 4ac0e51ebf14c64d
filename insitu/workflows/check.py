"""Judging whether a campaign grows as expected, or no faster than an accepted one."""

from collections.abc import Sequence
from dataclasses import dataclass

from insitu.analysis.cost import MIN_SHARE, measured_shares
from insitu.campaign.load import load_experiment
from insitu.campaign.selection import describe_stale_models
from insitu.campaign.store import open_store
from insitu.entities import is_start_up
from insitu.errors import UsageError
from insitu.expectations.assess import assess, find_judgeable
from insitu.expectations.baseline import bounds_from_baseline
from insitu.expectations.entries import Entry, load_entries
from insitu.expectations.result import Result, Status
from insitu.formats.verdicts import CheckReport, write_report
from insitu.modeling.base import ModelSet
from insitu.text import list_some
from insitu.units import percent
from insitu.workflows.selection import load_models

MAX_REASONS = 5  # where no expectation can be judged
UNCOVERED_SHARE = 2 * MIN_SHARE  # of the cost: what had almost enough to be accepted has that now


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The result of each expectation, and what could not be judged.

    Attributes:
        report: the results.
        notes: sentences on runs that the models lack, and on what the baseline does not cover.
        unjudged: why an expectation could not be judged, one sentence for each.
    """

    report: CheckReport
    notes: tuple[str, ...]
    unjudged: tuple[str, ...] = ()

    @property
    def results(self) -> Sequence[Result]:
        """One result per expectation and series."""
        return self.report.results

    @property
    def is_violated(self) -> bool:
        """Whether at least one expectation is violated."""
        return any(result.status is Status.VIOLATED for result in self.results)


def check_expectations(
    campaign: str,
    expectations: str | None = None,
    *,
    baseline: str | None = None,
    outputs: Sequence[str] = (),
) -> CheckOutcome:
    """Compare the models of a campaign with expectations, an accepted campaign, or both.

    Args:
        campaign: directory of the campaign.
        expectations: TOML file of expectations.
        baseline: directory of an accepted campaign; nothing may grow faster than there.
        outputs: files to write as well: JUnit .xml, .sarif or Markdown .md.

    Raises:
        CampaignError: a campaign cannot be read, or has no models.
        UsageError: neither expectations nor a baseline, or no expectation can be judged.
    """
    if expectations is None and baseline is None:
        raise UsageError("name a file of expectations, or an accepted campaign with --baseline")
    entries = load_entries(expectations) if expectations else []
    with open_store(campaign) as store:
        models = load_models(store)
        experiment = load_experiment(store)

    notes: list[str] = []
    if baseline is not None:
        with open_store(baseline) as store:
            bounds, notes = bounds_from_baseline(load_models(store), models, entries)
        entries = [*entries, *bounds]

    judgeable, unjudged = find_judgeable(entries, experiment, models)
    judged = {id(entry) for entry in judgeable}
    impossible = zip((entry for entry in entries if id(entry) not in judged), unjudged, strict=True)
    results = assess(judgeable, experiment, models) if judgeable else []
    report = CheckReport(campaign, expectations or "", tuple(results), tuple(impossible))
    for output in outputs:
        write_report(report, output)
    if unjudged and not judgeable:
        rest = len(unjudged) - MAX_REASONS
        more = f"; and {rest} more" if rest > 0 else ""
        raise UsageError("; ".join(unjudged[:MAX_REASONS]) + more)
    if baseline is None:
        notes += _describe_uncovered(entries, models)
    notes = [*describe_stale_models(models.findings), *notes]
    return CheckOutcome(report, tuple(notes), tuple(unjudged))


def _describe_uncovered(entries: Sequence[Entry], models: ModelSet) -> list[str]:
    """That an accepted file has no expectation for what is expensive now: it was cheap, or is new.

    Files that a user writes have expectations of what the user chose.
    """
    if not any(entry.accepted for entry in entries):
        return []
    uncovered = [
        (share, path)
        for path, share in measured_shares(models).items()
        if share >= UNCOVERED_SHARE
        and not is_start_up(path)
        and not any(entry.is_about(path) for entry in entries)
    ]
    uncovered.sort(reverse=True)
    names = [f"{path} ({percent(share)} of the cost)" for share, path in uncovered]
    if not names:
        return []
    listed = list_some(names, MAX_REASONS)
    return [
        f"no expectation for {listed}: new, below {MIN_SHARE:.0%} or not clear when growth was"
        " accepted; `--accept` writes a new file"
    ]
