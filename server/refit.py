"""The refit of a campaign: what it reads and the one call that fits every model.

The aggregator refits after each completed run, `insitu refit` refits everything. Both call
`load_refit_inputs` and `fit_models`. They live here because nothing below this floor may see the
campaign, the known dependencies and the models at once.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from insitu.campaign.base import Store
from insitu.campaign.config import find_dependencies_file, load_config
from insitu.campaign.load import TableCache, load_experiment, load_usual_program
from insitu.campaign.selection import select_runs
from insitu.design.dependency_file import load_products
from insitu.entities import CallPath
from insitu.modeling import modelers
from insitu.modeling.base import ClassMeans, ModelSet
from insitu.modeling.classes.rules import ClassSettings
from insitu.modeling.dependencies import Products
from insitu.modeling.measurement import Experiment, RunTable


@dataclass(frozen=True, slots=True)
class RefitInputs:
    """Everything that a refit needs from the campaign.

    previous: class means of the refit before, None to begin from scratch. evidence: ids of the runs
    in which classes are found, whose values a later refit may need again.
    """

    experiment: Experiment
    classes: ClassSettings
    dependencies: Mapping[CallPath, Products]
    previous: ClassMeans | None = None
    evidence: frozenset[str] = frozenset()


def load_refit_inputs(
    store: Store,
    campaign: str,
    *,
    classes: ClassSettings | None = None,
    load_table: Callable[[str], RunTable] | None = None,
    previous: ClassMeans | None = None,
) -> RefitInputs:
    """Read the runs of a campaign, its class settings and its known dependencies.

    Only the runs whose values the refit uses are read, see `runs_to_read`.

    Args:
        store: the open store of the campaign.
        campaign: the campaign's directory, with campaign.toml and dependencies.json if any.
        classes: class settings to use instead of those in campaign.toml.
        load_table: returns the values of a run by its id; default: in memory while there is room.
        previous: class means of the refit before.

    Raises:
        CampaignError: a run or campaign.toml cannot be read.
        UsageError: dependencies.json cannot be read.
    """
    # scipy comes with this import, and an aggregator without a run does not need it.
    from insitu.modeling.class_means import runs_to_read

    if classes is None:
        classes = load_config(campaign).classes

    selected, _ = select_runs(store.runs())
    experiment = load_experiment(store, store.tables_on_disk().__getitem__, selected)
    used, chosen = runs_to_read(experiment, classes, previous)
    evidence = frozenset(selected[index].id for index in chosen)
    load = load_usual_program(selected, load_table or TableCache(store).load)
    runs = []
    for index, (record, (key, table)) in enumerate(zip(selected, experiment.runs, strict=True)):
        runs.append((key, load(record.id) if index in used else table))
    experiment = replace(experiment, runs=tuple(runs))

    dependencies = load_products(
        find_dependencies_file(campaign), experiment.callpaths(), experiment.parameters
    )
    return RefitInputs(experiment, classes, dependencies, previous, evidence)


def fit_models(
    inputs: RefitInputs,
    *,
    modeler: str = modelers.DEFAULT,
    executor: Executor | None = None,
) -> tuple[ModelSet, ClassMeans]:
    """Group the ranks of every run into behaviour classes and fit a model to each class.

    Args:
        inputs: from `load_refit_inputs`.
        modeler: its name in `insitu.modeling.modelers`.
        executor: computes in parallel; the result is the same without it.

    Returns:
        The models, and the class means for the next refit.

    Raises:
        ModelingError: no modeler has this name.
        UsageError: a class rule names something that a run does not have.
        CampaignError: values of a run are damaged.
    """
    from insitu.modeling.pipeline import RefitOptions, remodel_again

    options = RefitOptions(
        modeler=modeler,
        classes=inputs.classes.method,
        threshold=inputs.classes.threshold,
        rules=inputs.classes.rules,
        dependencies=inputs.dependencies,
    )
    return remodel_again(inputs.experiment, options, previous=inputs.previous, executor=executor)
