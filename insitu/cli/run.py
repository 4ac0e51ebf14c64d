"""`insitu run`: the same as `python -m insitu.run`, every argument passed on untouched."""

import click


class _Verbatim(click.Command):
    """A command that reads nothing of its arguments itself, not even `--` or `--help`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return ctx.args


@click.command(cls=_Verbatim, name="run", add_help_option=False)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Run a program and measure each of its ranks."""
    from insitu.run import main

    main(list(ctx.args))
