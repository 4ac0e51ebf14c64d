"""The refit of a campaign: what it reads and the one call that fits every model.

The aggregator refits after each completed run, `insitu refit` refits everything. Both call
`load_refit_inputs` and `fit_models`. They live here because nothing below this floor may see the
campaign, the known dependencies and the models at once.
"""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

from insitu.campaign.base import Store
from insitu.campaign.config import find_dependencies_file, load_config
from insitu.campaign.load import TableCache, load_experiment
from insitu.design.dependency_file import load_products
from insitu.entities import CallPath
from insitu.modeling import modelers
from insitu.modeling.base import ModelSet
from insitu.modeling.classes.rules import ClassSettings
from insitu.modeling.dependencies import Products
from insitu.modeling.measurement import Experiment, RunTable


@dataclass(frozen=True, slots=True)
class RefitInputs:
    """Everything that a refit needs from the campaign; fitting touches no file."""

    experiment: Experiment
    classes: ClassSettings
    dependencies: Mapping[CallPath, Products]


def load_refit_inputs(
    store: Store,
    campaign: str,
    *,
    classes: ClassSettings | None = None,
    load_table: Callable[[str], RunTable] | None = None,
) -> RefitInputs:
    """Read the runs of a campaign, its class settings and its known dependencies.

    Args:
        store: the open store of the campaign.
        campaign: the campaign's directory, with campaign.toml and dependencies.json if any.
        classes: class settings to use instead of those in campaign.toml.
        load_table: returns the values of a run by its id; default: in memory while there is room.

    Raises:
        CampaignError: a run or campaign.toml cannot be read.
        UsageError: dependencies.json cannot be read.
    """
    if classes is None:
        classes = load_config(campaign).classes

    experiment = load_experiment(store, load_table or TableCache(store).load)
    dependencies = load_products(
        find_dependencies_file(campaign), experiment.callpaths(), experiment.parameters
    )

    return RefitInputs(experiment, classes, dependencies)


def fit_models(
    inputs: RefitInputs,
    *,
    modeler: str = modelers.DEFAULT,
    previous: ModelSet | None = None,
    touched: Collection[CallPath] | None = None,
    executor: Executor | None = None,
) -> ModelSet:
    """Group the ranks of every run into behaviour classes and fit a model to each class.

    Args:
        inputs: from `load_refit_inputs`.
        modeler: its name in `insitu.modeling.modelers`.
        previous: the models before, which stay as they are for call paths outside `touched`.
        touched: the call paths to fit again; None: all of them.
        executor: computes in parallel; the result is the same without it.

    Raises:
        ModelingError: no modeler has this name.
        UsageError: a class rule names something that a run does not have.
    """
    # scipy comes with this import, and an aggregator without a run does not need it.
    from insitu.modeling.pipeline import RefitOptions, remodel

    options = RefitOptions(
        modeler=modeler,
        classes=inputs.classes.method,
        threshold=inputs.classes.threshold,
        rules=inputs.classes.rules,
        dependencies=inputs.dependencies,
    )
    return remodel(
        inputs.experiment, options, previous=previous, touched=touched, executor=executor
    )
