"""Messages on standard error: errors, notes, and what a long-running command reports."""

from collections.abc import Callable

import click

from insitu.text import printable


def print_error(text: str) -> None:
    """Print an error in one line."""
    click.echo(f"insitu: {printable(' '.join(text.split()))}", err=True)


def print_note(text: str) -> None:
    """Print a note."""
    click.echo(f"note: {printable(text)}", err=True)


def message_printer(command: str) -> Callable[[str], None]:
    """Return a function that prints text, each line prefixed with the name of a command."""

    def print_message(text: str) -> None:
        for line in text.splitlines():
            click.echo(f"insitu {command}: {printable(line)}", err=True)

    return print_message
