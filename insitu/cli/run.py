"""`insitu run`: the same as `python -m insitu.run`; passes every argument on unchanged."""

from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem


class _Verbatim(click.Command):
    """A command that does not parse its arguments, not even `--` or `--help`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return ctx.args

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete options before the program, then file names."""
        from insitu.run.options import SWITCHES, WITH_VALUE

        previous = ctx.args[-1] if ctx.args else ""
        is_value = previous in WITH_VALUE or previous in ("-m", "-c")

        if incomplete.startswith("-") and not is_value and not _has_program(ctx.args):
            options = [name for name in (*WITH_VALUE, *SWITCHES) if name.startswith("--")]
            return [CompletionItem(name) for name in options if name.startswith(incomplete)]
        return [CompletionItem(incomplete, type="file")]


def _has_program(words: Sequence[str]) -> bool:
    """Whether the words contain the program, not only options of insitu."""
    from insitu.run.options import WITH_VALUE

    remaining = iter(words)
    for word in remaining:
        if word in ("--", "-m", "-c") or not word.startswith("-"):
            return True
        if word in WITH_VALUE:
            next(remaining, None)
    return False


@click.command(cls=_Verbatim, name="run", add_help_option=False)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Run a program and measure each of its ranks."""
    from insitu.run.command import main

    main(list(ctx.args))
