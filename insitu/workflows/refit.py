"""Fitting the classes and models of a campaign again."""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from insitu.campaign.config import load_config
from insitu.campaign.selection import select_runs
from insitu.campaign.store import SqliteStore, open_store
from insitu.campaign.stored_values import release_connections
from insitu.entities import Finding
from insitu.errors import UsageError
from insitu.modeling.base import ModelSet
from insitu.modeling.classes.rules import PAPER, ClassSettings, Rules, parse_rule
from insitu.modeling.modelers import DEFAULT
from insitu.server.refit import fit_models, load_refit_inputs


@dataclass(frozen=True, slots=True)
class ClassOptions:
    """How ranks are grouped in this refit; what is not given is taken from campaign.toml.

    Attributes:
        method: "joint" (all evidence) or "paper" [CLU].
        threshold: relative distance at which the method "paper" begins a new cluster.
        rules: `NAME: EXPRESSION`; ranks for which the expression is true are of this class.
    """

    method: str | None = None
    threshold: float | None = None
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refit:
    """Models that were fitted again, with findings about them and about runs that are not used."""

    models: ModelSet
    findings: tuple[Finding, ...]


def refit_campaign(
    campaign: str,
    *,
    modeler: str = DEFAULT,
    classes: ClassOptions = ClassOptions(),
    executor: Executor | None = None,
) -> Refit:
    """Fit the classes and models of a campaign again from its runs, and store them.

    Args:
        campaign: directory of the campaign.
        modeler: name of the modeler, see `insitu.modeling.modelers.MODELERS`.
        classes: how ranks are grouped.
        executor: computes in parallel; the result is the same without it.

    Raises:
        CampaignError: the campaign cannot be read, or an aggregator is writing to it.
        UsageError: a rule, the threshold or dependencies.json makes no sense.
    """
    from insitu.server.discovery import WriterLock

    with open_store(campaign) as store, WriterLock(campaign):
        settings = _class_settings(load_config(campaign).classes, classes)
        models = refit_store(store, modeler=modeler, settings=settings, executor=executor)
        return Refit(models, find_all(store, models))


def refit_store(
    store: SqliteStore,
    *,
    modeler: str = DEFAULT,
    settings: ClassSettings | None = None,
    executor: Executor | None = None,
) -> ModelSet:
    """Fit all models of an open campaign and store them; the caller holds the lock.

    Args:
        store: the open campaign.
        modeler: name of the modeler.
        settings: how ranks are grouped; default: as campaign.toml says.
        executor: computes in parallel.

    Raises:
        UsageError: campaign.toml or dependencies.json makes no sense.
    """
    # Every process of an executor reads what it works on, instead of receiving it.
    load_table = None if executor is None else store.table_on_disk
    try:
        inputs = load_refit_inputs(store, store.path, classes=settings, load_table=load_table)
        models, class_means = fit_models(inputs, modeler=modeler, executor=executor)
    finally:
        release_connections()
    store.put_models(models, class_means=class_means)
    return models


def find_all(store: SqliteStore, models: ModelSet) -> tuple[Finding, ...]:
    """Findings about runs of a campaign that are not used, and about its models."""
    _, excluded = select_runs(store.runs())
    return (*excluded, *models.findings)


def _class_settings(settings: ClassSettings, options: ClassOptions) -> ClassSettings:
    """Return the settings of campaign.toml, replaced where options are given."""
    method, threshold = options.method, options.threshold
    if method is None:
        method = PAPER if threshold is not None else settings.method
    if threshold is not None and (method != PAPER or not 0 < threshold < np.inf):
        raise UsageError(
            f"--threshold is a relative distance above 0 and requires --classes {PAPER}"
        )
    rules = (Rules(tuple(map(parse_rule, options.rules))),) if options.rules else settings.rules
    return ClassSettings(method, settings.threshold if threshold is None else threshold, rules)
