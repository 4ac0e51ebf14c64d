"""`insitu run`: the same as `python -m insitu.run`, every argument passed on untouched."""

from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem


class _Verbatim(click.Command):
    """A command that reads nothing of its arguments itself, not even `--` or `--help`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return ctx.args

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The options of insitu.run up to the program, then whatever the shell knows."""
        from insitu.run.options import SWITCHES, WITH_VALUE

        before = ctx.args[-1] if ctx.args else ""
        is_value = before in WITH_VALUE or before in ("-m", "-c")
        if incomplete.startswith("-") and not is_value and not _has_program(ctx.args):
            words = (word for word in (*WITH_VALUE, *SWITCHES) if word.startswith("--"))
            return [CompletionItem(word) for word in words if word.startswith(incomplete)]
        return [CompletionItem(incomplete, type="file")]


def _has_program(words: Sequence[str]) -> bool:
    """Whether the program's own command line has begun."""
    from insitu.run.options import WITH_VALUE

    left = iter(words)
    for word in left:
        if word in ("--", "-m", "-c") or not word.startswith("-"):
            return True
        if word in WITH_VALUE:
            next(left, None)
    return False


@click.command(cls=_Verbatim, name="run", add_help_option=False)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Run a program and measure each of its ranks."""
    from insitu.run.command import main

    main(list(ctx.args))
