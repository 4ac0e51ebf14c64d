"""The insitu command: which commands there are; the only place that prints errors and exits.

A command is a module of this folder with a click command called `command`, imported when asked for.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

import click

from insitu import __version__
from insitu.errors import InsituError

# name: (group, what it does in a few words); the module is insitu.cli.NAME unless named below
COMMANDS = {
    "run": ("Measure", "run a program and measure each of its ranks"),
    "serve": ("Measure", "gather the runs of a campaign as they are measured"),
    "relay": ("Measure", "stand between the agents of many nodes and the aggregator"),
    "ingest": ("Measure", "bring in what ranks left behind when nobody listened"),
    "import": ("Measure", "bring in measurements of other tools"),
    "watch": ("Look", "see runs, call paths and models grow, live in the terminal or a browser"),
    "models": ("Look", "how each call path grows with the scale, costliest first"),
    "classes": ("Look", "which ranks behave alike"),
    "predict": ("Look", "what the models say for a scale not measured yet"),
    "report": ("Look", "what a campaign tells, on one page (HTML, Markdown)"),
    "check": ("Look", "whether call paths grow as expected, for tests (exit code 1 if not)"),
    "plot": ("Look", "draw measured points with their models (PNG, SVG, PDF)"),
    "detect": ("Plan", "learn which call path depends on which parameter, from tiny runs"),
    "design": ("Plan", "the fewest runs that show how a program scales"),
    "campaign": ("Plan", "make all runs that campaign.toml asks for; go on where it stopped"),
    "advise": ("Plan", "which run tells most per core-hour about a scale not measured"),
    "export": ("Keep", "write a campaign for other tools: Extra-P, tables, functions"),
    "refit": ("Keep", "make classes and models anew from the measured runs"),
    "omit": ("Keep", "leave disturbed runs out of the models, or take them back"),
    "doctor": ("Keep", "tell what works on this machine, what to do about the rest"),
}
_MODULES = {"import": "insitu.cli.importing"}  # import is a word of Python
COMPLETE = "_INSITU_COMPLETE"  # what a shell asks for, as in bash_source
INTERRUPTED = 130  # as a shell says it: 128 + SIGINT
BROKEN_PIPE = 141  # 128 + SIGPIPE

HELP = """Scalability models of MPI programs, made while they run.

\b
Measure a program at several scales, then look at how it grows:
    insitu run -n 4 --campaign heat.insitu -- ./heat.py --cells 256
    insitu models heat.insitu
"""


class Commands(click.Group):
    """The table as a click group: names and help are known without importing a command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(_MODULES.get(cmd_name, f"insitu.cli.{cmd_name}"))
        found: click.Command = module.command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; where there is none, name those that are spelt alike.

        Raises:
            click.UsageError: there is none.
        """
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            like = get_close_matches(args[0], COMMANDS, 2, 0.5)
            hint = f"; did you mean {' or '.join(like)}?" if like else ""
            ctx.fail(f"no command '{args[0]}'{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by group."""
        groups = dict.fromkeys(group for group, _ in COMMANDS.values())
        for group in groups:
            with formatter.section(group):
                formatter.write_dl(
                    [(name, text) for name, (of, text) in COMMANDS.items() if of == group],
                    col_max=10,
                )


@click.group(
    cls=Commands,
    help=HELP,
    epilog="`insitu COMMAND --help` tells more. A campaign is a directory, by custom NAME.insitu.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(__version__, message="insitu %(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Show the help when nothing is asked for; the text above is what people see."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, or complete one for a shell; ends with its exit code."""
    asked = os.environ.get(COMPLETE)
    if asked is not None:
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(group, {}, "insitu", COMPLETE, asked))
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # those of libraries tell nobody here anything
    sys.exit(call(sys.argv[1:] if arguments is None else list(arguments)))


def call(arguments: Sequence[str]) -> int:
    """Run one command, its errors printed; answers the exit code."""
    try:
        with group.make_context("insitu", list(arguments)) as context:
            group.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except InsituError as error:
        _say(str(error))
        return error.exit_code
    except click.ClickException as error:
        asked = getattr(error, "ctx", None)
        hint = f"; see `{asked.command_path} --help`" if asked is not None else ""
        _say(error.format_message().rstrip(".") + hint)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing to flush at exit
        return BROKEN_PIPE


def _say(text: str) -> None:
    from insitu.text import printable

    click.echo(f"insitu: {printable(' '.join(text.split()))}", err=True)
