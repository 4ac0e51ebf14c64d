"""`insitu refit`: make classes and models anew."""

import click

from insitu.campaign.load import joined, load_experiment
from insitu.campaign.store import SqliteStore, open_store
from insitu.cli.output import campaign_argument, json_option, print_findings, print_json
from insitu.modeling.base import ModelSet
from insitu.modeling.modelers import DEFAULT, MODELERS
from insitu.modeling.pipeline import remodel


@click.command(name="refit")
@campaign_argument
@click.option(
    "--modeler", type=click.Choice(list(MODELERS)), default=DEFAULT, show_default=True, help="How."
)
@json_option
def command(campaign: str, modeler: str, is_json: bool) -> None:
    """Make the classes and models of CAMPAIGN anew from its measured runs.

    The runs are the truth, classes and models follow from them and may be made again at any time.
    """
    from insitu.server.rendezvous import Lock

    with open_store(campaign) as store, Lock(campaign):
        models = grow(store, modeler=modeler)
        _, left_out = joined(store.runs())
    print_findings([*left_out, *models.findings], is_json=is_json)
    if is_json:
        print_json([summary(models)])
    else:
        click.echo(sentence(models))


def grow(store: SqliteStore, *, modeler: str = DEFAULT) -> ModelSet:
    """Make all models of a campaign from its runs and keep them."""
    models = remodel(load_experiment(store), modeler=modeler)
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
    return f"{made['models']} models, {made['classes']} classes over {', '.join(models.parameters)}"
