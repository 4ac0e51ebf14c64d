"""What the commands that agents speak to have in common: options, sentences for people."""

from collections.abc import Callable

import click

from insitu.text import printable

bind_option = click.option(
    "--bind",
    "address",
    default="",
    metavar="tcp://HOST:PORT",
    help="Listen for agents on other machines, encrypted; the default is this machine.",
)
beat_option = click.option(
    "--beat",
    "heartbeat_s",
    type=click.FloatRange(0.01, 3600.0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two messages of an agent; the same for the aggregator and its relays.",
)


def speaker(name: str) -> Callable[[str], None]:
    """What prints sentences of a command on standard error, its name before each line."""

    def say(text: str) -> None:
        for line in text.splitlines():
            click.echo(f"insitu {name}: {printable(line)}", err=True)

    return say
