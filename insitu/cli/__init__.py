"""The insitu command line: its commands, and the only code that prints errors and exits.

Each command is a module of this folder with a click command named `command`, imported when needed.
"""

import errno
import gc
import os
import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

import click

from insitu import __version__
from insitu.blas_threads import use_one_blas_thread
from insitu.errors import CampaignError, InsituError
from insitu.text import write_unencodable

# name: (group, short help); the module is insitu.cli.NAME unless listed below
COMMANDS = {
    "run": ("Measure", "run a program and measure each of its ranks"),
    "init": ("Measure", "begin a campaign: write its campaign.toml"),
    "serve": ("Measure", "collect the runs of a campaign as they are measured"),
    "relay": ("Measure", "relay between the agents of many nodes and the aggregator"),
    "ingest": ("Measure", "ingest the tables that ranks left without an aggregator"),
    "import": ("Measure", "import measurements of other tools"),
    "watch": ("Look", "watch runs, call paths and models, in a terminal or a browser"),
    "diagnose": ("Look", "say what will limit the program on more ranks"),
    "efficiency": ("Look", "show load balance, communication and scaling as in POP reports"),
    "runs": ("Look", "list the runs of a campaign, and how they ended"),
    "models": ("Look", "show how each call path grows, the most expensive first"),
    "classes": ("Look", "show which ranks behave alike"),
    "predict": ("Look", "predict values at scales that were not measured"),
    "diff": ("Look", "show what changed between two campaigns of a program"),
    "report": ("Look", "write a report on one page (HTML, Markdown)"),
    "check": ("Look", "check whether call paths grow as expected (exit code 1 if not)"),
    "plot": ("Look", "draw measured points with their models (PNG, SVG, PDF)"),
    "detect": ("Plan", "detect which call path depends on which parameter"),
    "design": ("Plan", "design the smallest experiment that shows how a program scales"),
    "campaign": ("Plan", "make all runs that campaign.toml requests"),
    "advise": ("Plan", "propose the run that improves a prediction most per core hour"),
    "export": ("Keep", "export a campaign for other tools: Extra-P, tables, functions"),
    "refit": ("Keep", "fit classes and models again from the measured runs"),
    "omit": ("Keep", "leave disturbed runs out of the models, or use them again"),
    "label": ("Keep", "add parameters to runs that were measured without them"),
    "explain": ("Keep", "explain a finding, and what to do about it"),
    "doctor": ("Keep", "check what works on this machine, and what to do about the rest"),
}
_MODULES = {"import": "insitu.cli.import_"}  # `import` is a keyword of Python
STARTS_PROGRAMS = ("run", "campaign", "detect", "doctor")  # programs inherit the environment
COMPLETE = "_INSITU_COMPLETE"  # set by a shell that requests completions, as in bash_source
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
GARBAGE_THRESHOLD = 100_000  # new objects after which garbage in cycles is collected
BROKEN_PIPE = 141  # 128 + SIGPIPE
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

HELP = """Scalability models of MPI programs, made while they run.

\b
Measure a program at several scales, then show how it grows:
    insitu run -n 4 --campaign heat.insitu -- ./heat.py --cells 256
    insitu models heat.insitu
"""


class CommandTable(click.Group):
    """The table as a click group. Listing the commands imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(_MODULES.get(cmd_name, f"insitu.cli.{cmd_name}"))
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its name; for an unknown name, suggest similar ones.

        Raises:
            click.UsageError: there is no such command.
        """
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            similar = get_close_matches(args[0], COMMANDS, 2, 0.5)
            hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
            ctx.fail(f"no command '{args[0]}'{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, (group_name, short_help) in COMMANDS.items():
            groups.setdefault(group_name, []).append((name, short_help))

        for group_name, rows in groups.items():
            with formatter.section(group_name):
                formatter.write_dl(rows, col_max=10)


@click.group(
    cls=CommandTable,
    help=HELP,
    epilog="See `insitu COMMAND --help` for a command. A campaign is a directory, usually named"
    " NAME.insitu.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(__version__, message="insitu %(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Print the help if there is no command; users see HELP instead of this text."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, or complete it for a shell, and exit."""
    instruction = os.environ.get(COMPLETE)
    if instruction is not None:
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(group, {}, "insitu", COMPLETE, instruction))

    write_unencodable()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # warnings of libraries do not help users of a command
    # Refits hold millions of objects and hardly any garbage in cycles: with the default of 700, the
    # collector takes up to a sixth of their processor time.
    gc.set_threshold(GARBAGE_THRESHOLD)
    sys.exit(call(sys.argv[1:] if arguments is None else list(arguments)))


def call(arguments: Sequence[str]) -> int:
    """Run one command, print its errors, and return the exit code."""
    if arguments and arguments[0] not in STARTS_PROGRAMS:
        use_one_blas_thread(os.environ)
    try:
        with group.make_context("insitu", list(arguments)) as context:
            group.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except InsituError as error:
        _print_error(str(error))
        return error.exit_code
    except click.ClickException as error:
        failed = getattr(error, "ctx", None)
        hint = f"; see `{failed.command_path} --help`" if failed is not None else ""
        _print_error(error.format_message().rstrip(".") + hint)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output at exit, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        _print_error(f"{where}{error.strerror}; free some space and try again")
        return CampaignError.exit_code


def _print_error(text: str) -> None:
    from insitu.cli.messages import print_error

    print_error(text)
