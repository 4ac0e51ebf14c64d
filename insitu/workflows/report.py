"""Writing a report on a campaign: one file, HTML or Markdown."""

import os
import time
from dataclasses import dataclass, replace

import numpy as np

from insitu.analysis.cost import cost_metric
from insitu.analysis.predict import Point, coordinate_of
from insitu.analysis.scaling import measured_coordinates
from insitu.analysis.summary import (
    ExpectationLine,
    Summary,
    largest_measured,
    summarise,
)
from insitu.campaign.config import load_config
from insitu.campaign.load import load_experiment
from insitu.campaign.selection import select_runs
from insitu.campaign.store import open_store
from insitu.errors import UsageError
from insitu.expectations.assess import assess, find_judgeable
from insitu.expectations.entries import load_entries
from insitu.expectations.result import Result, Status
from insitu.formats.verdicts import MARKS, WORDS, share
from insitu.modeling.base import ALL, ModelSet
from insitu.modeling.measurement import Experiment
from insitu.modeling.target import default_target
from insitu.views.report.html import html
from insitu.views.report.markdown import markdown
from insitu.whole_files import write_whole_file
from insitu.workflows.advise import propose_toward
from insitu.workflows.diagnosis import diagnose_store

SUFFIXES = (".html", ".md")
EXPECTATIONS = "expectations.toml"
STATUS_ORDER = (Status.VIOLATED, Status.UNSETTLED, Status.UNJUDGED, Status.NEAR, Status.MET)
TINY = 1e-300  # instead of a largest value of 0, which would divide by zero


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report that was written: its file, and its content as data."""

    file: str
    summary: Summary


def write_report(
    campaign: str, file: str = "", *, at: Point | None = None, expectations: str | None = None
) -> WrittenReport:
    """Write a report: what grows, what will dominate the cost, which ranks differ.

    Args:
        campaign: directory of the campaign.
        file: where to write; the suffix is one of SUFFIXES. Default: CAMPAIGN.html.
        at: the point to look ahead to; default: `target` of campaign.toml, else 64 times the
            largest number of ranks, at most 65,536.
        expectations: TOML file to judge; default: expectations.toml of the campaign, if any.

    Raises:
        CampaignError: there is no campaign, it cannot be read, or it has no complete run.
        UsageError: an argument makes no sense, or the file cannot be written.
    """
    file = file or os.path.normpath(campaign).removesuffix(".insitu") + ".html"
    if not file.lower().endswith(SUFFIXES):
        raise UsageError(f"{file}: the suffix must be one of {', '.join(SUFFIXES)}")

    summary = summarise_campaign(campaign, at=at, expectations=expectations)

    written_at = time.strftime("%Y-%m-%d %H:%M")
    if file.lower().endswith(".md"):
        text = markdown(summary, written_at)
    else:
        text = html(summary, load_config(campaign).axis(_farthest_parameter(summary)), written_at)

    try:
        write_whole_file(file, lambda output: output.write(text.encode()))
    except OSError as error:
        raise UsageError(
            f"{file}: cannot write: {error.strerror}; name another FILE with -o"
        ) from error

    return WrittenReport(file, summary)


def summarise_campaign(
    campaign: str, *, at: Point | None = None, expectations: str | None = None
) -> Summary:
    """Return the content of a report as data; see `write_report`."""
    with open_store(campaign) as store:
        experiment = load_experiment(store)
        models = store.models()
        if not models.models:  # a single run has a profile
            models = replace(models, parameters=experiment.parameters)
        runs = store.runs()
        measured = measured_coordinates(models)
        if at is None:
            largest = largest_measured(models, select_runs(runs)[0])
            chosen = load_config(campaign).target
            target = default_target(models.parameters, largest, chosen, measured)
        else:
            target = tuple(coordinate_of(at, models.parameters, measured=measured))
        diagnosis = diagnose_store(store, at=at, loaded=(experiment, models))

    cost = cost_metric(models)
    is_crowded = any(entry.crowding for entry in models.models if entry.key.metric == cost)
    return summarise(
        load_config(campaign).name,
        runs,
        models,
        target=target,
        expectations=_judge(campaign, experiment, models, expectations),
        proposals=propose_toward(
            campaign, experiment, models, target, are_times_known=not is_crowded
        ),
        diagnosis=diagnosis,
    )


def _judge(
    campaign: str, experiment: Experiment, models: ModelSet, expectations: str | None
) -> list[ExpectationLine]:
    """Return the results of all expectations, violated ones first; empty without expectations."""
    file = expectations or os.path.join(campaign, EXPECTATIONS)
    if expectations is None and not os.path.exists(file):
        return []
    judgeable, _ = find_judgeable(load_entries(file), experiment, models)
    results = assess(judgeable, experiment, models)
    results.sort(key=lambda result: STATUS_ORDER.index(result.status))
    return [_report_line(result) for result in results]


def _report_line(result: Result) -> ExpectationLine:
    class_text = "" if result.behaviour == ALL else f" of class {result.behaviour}"
    advice = f"; {result.advice}" if result.advice else ""
    return ExpectationLine(
        mark=MARKS[result.status],
        word=WORDS[result.status],
        subject=result.subject,
        series=result.metric + class_text,
        expected=result.expected,
        text=f"{result.text}{advice}",
        sure=share(result.probability),
    )


def _farthest_parameter(summary: Summary) -> str:
    """Return the parameter whose target is most times its largest measured value."""
    ratios = np.array(summary.target) / np.maximum(np.array(summary.largest), TINY)
    return summary.parameters[int(np.argmax(ratios))]
