"""`insitu report`: what a campaign tells, on paper."""

import os
import time

import click
import numpy as np

from insitu.analysis.summary import ExpectationLine, Summary, default_target, summarise
from insitu.campaign.config import load_config
from insitu.campaign.load import load_experiment
from insitu.campaign.store import SqliteStore, open_store
from insitu.cli.advise import proposals_of
from insitu.cli.output import campaign_argument, why_none
from insitu.cli.predict import coordinate
from insitu.errors import CampaignError, UsageError
from insitu.expectations.assess import Result, Status, assess
from insitu.expectations.entries import load_entries
from insitu.formats.verdicts import MARKS, WORDS, share
from insitu.modeling.base import ModelSet
from insitu.modeling.classes.match import ALL
from insitu.views.report.html import html
from insitu.views.report.markdown import markdown

SUFFIXES = (".html", ".md")
EXPECTATIONS = "expectations.toml"
ORDER = (Status.VIOLATED, Status.UNSETTLED, Status.NEAR, Status.MET)


@click.command(name="report")
@campaign_argument
@click.option(
    "-o", "--output", metavar="FILE", help="HTML or Markdown (.md); CAMPAIGN.html if not said."
)
@click.option(
    "--at",
    metavar="NAME=VALUE,...",
    help="The scale to look ahead to, as in p=65536; 16 times the largest if not said.",
)
@click.option(
    "--expect",
    type=click.Path(),
    metavar="FILE",
    help="Expectations to judge, as for `insitu check`; those in CAMPAIGN if not said.",
)
def command(campaign: str, output: str | None, at: str | None, expect: str | None) -> None:
    """Write what CAMPAIGN tells into one file: what grows, what will dominate, which ranks differ.

    The page loads nothing from elsewhere, runs no script, and prints well.
    """
    file = output or os.path.normpath(campaign).removesuffix(".insitu") + ".html"
    if not file.lower().endswith(SUFFIXES):
        raise UsageError(f"{file}: the suffix must be one of {', '.join(SUFFIXES)}")
    with open_store(campaign) as store:
        models = store.models()
        if not models.models:
            raise CampaignError(why_none(store, models))
        summary = _summary(store, models, campaign, at=at, expect=expect)
    made = time.strftime("%Y-%m-%d %H:%M")
    if file.lower().endswith(".md"):
        text = markdown(summary, made)
    else:
        text = html(summary, load_config(campaign).axis(_farthest(summary)), made)
    try:
        with open(file, "w", encoding="utf-8", newline="\n") as out:
            out.write(text)
    except OSError as error:
        raise UsageError(
            f"{file}: cannot be written: {error.strerror}; name another FILE with -o"
        ) from error
    click.echo(f"{file}: {len(summary.series)} models, {len(summary.findings)} findings")


def _summary(
    store: SqliteStore, models: ModelSet, campaign: str, *, at: str | None, expect: str | None
) -> Summary:
    experiment = load_experiment(store)
    expectations = expect or os.path.join(campaign, EXPECTATIONS)
    judged: list[ExpectationLine] = []
    if expect is not None or os.path.exists(expectations):
        results = assess(load_entries(expectations), experiment, models)
        judged = [_judged(one) for one in sorted(results, key=lambda one: ORDER.index(one.status))]
    target = default_target(models) if at is None else tuple(coordinate(at, models.parameters))
    name = load_config(campaign).name
    proposals = proposals_of(campaign, experiment, target)
    return summarise(
        name, store.runs(), models, target=target, expectations=judged, proposals=proposals
    )


def _judged(one: Result) -> ExpectationLine:
    of_class = "" if one.behaviour == ALL else f" of class {one.behaviour}"
    advice = f"; {one.advice}" if one.advice else ""
    return ExpectationLine(
        MARKS[one.status],
        WORDS[one.status],
        one.subject,
        one.metric + of_class,
        one.expected,
        f"{one.text}{advice}",
        share(one.probability),
    )


def _farthest(summary: Summary) -> str:
    """The parameter that the target moves most."""
    ratios = np.array(summary.target) / np.maximum(np.array(summary.largest), 1e-300)
    return summary.parameters[int(np.argmax(ratios))]
