"""`insitu refit`: make classes and models anew."""

from collections.abc import Sequence
from concurrent.futures import Executor

import click
import numpy as np

from insitu.campaign.config import load_config
from insitu.campaign.selection import select_runs
from insitu.campaign.store import SqliteStore, open_store
from insitu.cli.output import (
    campaign_argument,
    counted,
    json_option,
    print_findings,
    print_json,
)
from insitu.errors import UsageError
from insitu.launch.executors import EXECUTORS, Served, open_executor
from insitu.modeling.base import ModelSet
from insitu.modeling.classes.rules import JOINT, PAPER, ClassSettings, Rules, parse_rule
from insitu.modeling.modelers import DEFAULT, MODELERS
from insitu.server.refit import fit_models, load_refit_inputs


@click.command(name="refit")
@campaign_argument
@click.option(
    "--modeler", type=click.Choice(list(MODELERS)), default=DEFAULT, show_default=True, help="How."
)
@click.option(
    "--classes",
    type=click.Choice([JOINT, PAPER]),
    help="How ranks are grouped, for this time: by all evidence, or as [CLU] does.",
)
@click.option(
    "--threshold", type=float, metavar="X", help="Relative distance of --classes paper, 0.1."
)
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="NAME: EXPRESSION",
    help="Ranks for which it is true are this class, as in 'root: rank == 0'.",
)
@click.option(
    "--executor",
    "where",
    type=click.Choice(EXECUTORS),
    default=EXECUTORS[0],
    show_default=True,
    help="Who computes: this process, one per core, or the ranks of mpiexec that run this.",
)
@json_option
def command(
    campaign: str,
    *,
    modeler: str,
    classes: str | None,
    threshold: float | None,
    rules: tuple[str, ...],
    where: str,
    is_json: bool,
) -> None:
    """Make the classes and models of CAMPAIGN anew from its measured runs.

    The runs are the truth, classes and models follow from them and may be made again at any time.
    What campaign.toml says of classes holds for every refit; options hold for this one. Large ones
    are spread with `mpiexec -n 64 python -m insitu refit CAMPAIGN --executor mpi`.
    """
    from insitu.server.discovery import WriterLock

    try:
        with open_executor(where) as team, open_store(campaign) as store, WriterLock(campaign):
            said = _said(load_config(campaign).classes, classes, threshold, rules)
            models = grow(store, modeler=modeler, said=said, executor=team)
            _, left_out = select_runs(store.runs())
    except Served:
        return
    print_findings([*left_out, *models.findings], is_json=is_json)
    if is_json:
        print_json([summary(models)])
    else:
        click.echo(sentence(models))


def _said(
    kept: ClassSettings, way: str | None, threshold: float | None, texts: Sequence[str]
) -> ClassSettings:
    """What is said of classes: by options, else by campaign.toml."""
    way = way or (PAPER if threshold is not None else kept.method)
    if threshold is not None and (way != PAPER or not 0 < threshold < np.inf):
        raise UsageError(f"--threshold is a distance above 0 and belongs to --classes {PAPER}")
    rules = (Rules(tuple(map(parse_rule, texts))),) if texts else kept.rules
    return ClassSettings(way, kept.threshold if threshold is None else threshold, rules)


def grow(
    store: SqliteStore,
    *,
    modeler: str = DEFAULT,
    said: ClassSettings | None = None,
    executor: Executor | None = None,
) -> ModelSet:
    """Make all models of a campaign from its runs and keep them.

    `said` of classes is what campaign.toml says, where it is not given.

    Raises:
        UsageError: its dependencies.json cannot be read.
    """
    inputs = load_refit_inputs(store, store.path, classes=said)
    models = fit_models(inputs, modeler=modeler, executor=executor)
    store.put_models(models)
    return models


def summary(models: ModelSet) -> dict[str, object]:
    """How much was made."""
    classes = {(one.callpath, one.metric, name) for one in models.clusters for name in one.names}
    return {
        "models": len(models.models),
        "classes": len(classes),
        "parameters": list(models.parameters),
    }


def sentence(models: ModelSet) -> str:
    """The same for a person."""
    made = summary(models)
    number = counted(made["models"], "model")
    groups = counted(made["classes"], "class", "classes")
    return f"{number}, {groups} over {', '.join(models.parameters)}"
