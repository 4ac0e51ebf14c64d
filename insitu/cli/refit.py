"""`insitu refit`: fit classes and models again."""

import click

from insitu.cli.options import campaign_argument, json_option
from insitu.cli.output import count_text, print_findings, print_json
from insitu.launch.executors import EXECUTORS, WorkerFinished, open_executor
from insitu.modeling.base import ModelSet
from insitu.modeling.classes.rules import JOINT, PAPER
from insitu.modeling.modelers import DEFAULT, MODELERS
from insitu.workflows.refit import ClassOptions, refit_campaign


@click.command(name="refit")
@campaign_argument
@click.option(
    "-m",
    "--modeler",
    type=click.Choice(list(MODELERS)),
    default=DEFAULT,
    show_default=True,
    help="The method that fits the models.",
)
@click.option(
    "-c",
    "--classes",
    "method",
    type=click.Choice([JOINT, PAPER]),
    help="Group ranks by all evidence, or as in [CLU] (default: as campaign.toml says).",
)
@click.option(
    "--threshold",
    type=float,
    metavar="X",
    help="Relative distance at which --classes paper begins a new cluster (default: 0.1).",
)
@click.option(
    "-r",
    "--rule",
    "rules",
    multiple=True,
    metavar="NAME: EXPRESSION",
    help="Define a class of ranks, such as 'root: rank == 0'; may be repeated.",
)
@click.option(
    "--executor",
    "executor_name",
    type=click.Choice(EXECUTORS),
    default=EXECUTORS[0],
    show_default=True,
    help="Compute in this process, in one process per core, or in the ranks of mpiexec.",
)
@json_option
def command(
    *,
    campaign: str,
    modeler: str,
    method: str | None,
    threshold: float | None,
    rules: tuple[str, ...],
    executor_name: str,
    is_json: bool,
) -> None:
    """Fit the classes and models of CAMPAIGN again from its runs.

    Classes and models follow from the runs and can be fitted again at any time. The settings in
    campaign.toml apply to every refit, options only to this one. To spread the work over many
    ranks: `mpiexec -n 64 python -m insitu refit CAMPAIGN --executor mpi`.
    """
    classes = ClassOptions(method, threshold, rules)
    try:
        with open_executor(executor_name) as executor:
            refit = refit_campaign(campaign, modeler=modeler, classes=classes, executor=executor)
    except WorkerFinished:
        return  # this rank computed for rank 0, which prints

    print_findings(refit.findings, is_json=is_json)
    if is_json:
        print_json([model_counts(refit.models)])
    else:
        click.echo(model_sentence(refit.models))


def model_counts(models: ModelSet) -> dict[str, object]:
    """Return how many models and classes there are, as JSON."""
    return {
        "models": len(models.models),
        "classes": _count_classes(models),
        "parameters": list(models.parameters),
    }


def model_sentence(models: ModelSet) -> str:
    """Return how many models and classes there are, as in `1 model, 1 class over p`."""
    model_text = count_text(len(models.models), "model")
    class_text = count_text(_count_classes(models), "class", "classes")
    return f"{model_text}, {class_text} over {', '.join(models.parameters)}"


def _count_classes(models: ModelSet) -> int:
    classes = set()
    for clusters in models.clusters:
        for name in clusters.names:
            classes.add((clusters.callpath, clusters.metric, name))
    return len(classes)
