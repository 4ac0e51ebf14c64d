"""The manual page, `insitu.1`, generated from the help texts of all commands.

`python -m insitu.cli.manual` writes the file; the wheel installs it in share/man/man1.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from insitu import __version__, errors
from insitu.cli import COMMANDS, HELP, group
from insitu.run.options import USAGE

FILE = Path(__file__).with_name("insitu.1")
VERBATIM = "\b"  # marks a paragraph that click does not wrap
EXIT_CODES = {0: "success", 1: "an expectation is violated, or a run of a campaign failed"}
FILES = {
    "NAME.insitu/campaign.db": "the runs of a campaign, its classes and models",
    "NAME.insitu/campaign.toml": "name, units, levels and class rules; optional",
    "NAME.insitu/expectations.toml": "expectations that `insitu report` judges; optional",
}


def page() -> str:
    """Return the page in roff."""
    return "\n".join([*_head(), *_commands(), *_tail()]) + "\n"


def _head() -> Iterator[str]:
    yield f'.TH INSITU 1 "" "insitu {__version__}" "User Commands"'
    yield from (".SH NAME", "insitu \\- scalability models of MPI programs, made while they run")
    yield from (".SH SYNOPSIS", ".B insitu", ".I COMMAND", "[\\fIARGUMENTS\\fR]")
    yield ".SH DESCRIPTION"
    yield from _paragraphs(HELP)
    yield ".SH COMMANDS"


def _commands() -> Iterator[str]:
    for name, (_, words) in COMMANDS.items():
        yield f'.SS "insitu {name}"'
        if name == "run":
            yield from (_roff(f"{words.capitalize()}."), ".PP", *_verbatim(USAGE.strip()))
            continue
        context = click.Context(group, info_name="insitu", **group.context_settings)
        command = group.get_command(context, name)
        assert command is not None
        yield from _command(name, command, context, words)


def _command(
    name: str, command: click.Command, context: click.Context, words: str
) -> Iterator[str]:
    """Yield the usage, the help and the options of a command, then those of its subcommands."""
    inside = click.Context(command, info_name=name, parent=context)
    usage = " ".join(command.collect_usage_pieces(inside))
    yield from (f"\\fBinsitu {name}\\fR {_roff(usage)}", ".PP")
    yield from _paragraphs(command.help or words)
    for parameter in command.get_params(inside):
        record = parameter.get_help_record(inside)
        if record is not None and record[1] and not record[0].endswith("--help"):
            yield from (".TP", f"\\fB{_roff(record[0])}\\fR", _roff(record[1]))

    if isinstance(command, click.Group):
        for inner, subcommand in sorted(command.commands.items()):
            yield ".PP"
            yield from _command(f"{name} {inner}", subcommand, inside, words)


def _tail() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = dict(EXIT_CODES)
    for kind in kinds:
        if issubclass(kind, errors.InsituError) and kind.exit_code not in codes:
            codes[kind.exit_code] = " ".join((kind.__doc__ or "").split()).rstrip(".")
    for code, words in sorted(codes.items()):
        yield from (".TP", f"\\fB{code}\\fR", _roff(words))
    yield from (".PP", _roff("`insitu run` ends with the exit code of the program."))
    yield ".SH FILES"
    for file, words in FILES.items():
        yield from (".TP", f"\\fI{_roff(file)}\\fR", _roff(words))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text, filled unless they are marked with VERBATIM."""
    text = inspect.cleandoc(text)  # Python 3.13 does this itself
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.split("\n")
        if lines[0].strip() == VERBATIM:
            yield from _verbatim("\n".join(lines[1:]))
        else:
            yield _roff(" ".join(" ".join(lines).split()))
        yield ".PP"


def _verbatim(text: str) -> Iterator[str]:
    yield ".nf"
    yield from map(_roff, text.split("\n"))
    yield ".fi"


def _roff(text: str) -> str:
    """Escape text for roff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
