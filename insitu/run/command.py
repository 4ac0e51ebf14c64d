"""`python -m insitu.run`: starts the ranks or, if it is a rank itself, becomes the program."""

import os
import sys

from insitu.campaign import layout
from insitu.collectors import rank
from insitu.errors import InsituError
from insitu.run.environment import (
    VARIABLES,
    campaign_directory,
    preload_environment,
    program_environment,
    rank_environment,
    restore_signals,
)
from insitu.run.options import USAGE, Options, parse
from insitu.text import write_unencodable


def main(argv: list[str] | None = None) -> None:
    """Run the command and exit with the exit code of the program."""
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
        if options.wants_help:
            print(USAGE, end="")
            sys.exit(0)

        is_rank = rank.find_rank(os.environ) is not None or VARIABLES in os.environ
        if is_rank and options.ranks is None:
            become_program(options)
        from insitu.run.supervise import supervise

        write_unencodable()
        exit_code = supervise(options)
    except InsituError as error:
        print(f"insitu: {error}", file=sys.stderr)
        exit_code = error.exit_code
    _leave(exit_code)


def _leave(exit_code: int) -> None:
    """End this process. PYTHONINSPECT, meant for the program, would make its end a prompt."""
    if sys.flags.inspect:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)
    sys.exit(exit_code)


def become_program(options: Options) -> None:
    """Replace this process, a rank, by the program, which measures itself. Does not return.

    Raises:
        LaunchError: the program does not exist or is not executable.
    """
    from insitu.launch.find import program_argv, program_path

    argv = program_argv(options.command)
    environment = program_environment()
    if VARIABLES not in environment:  # started by mpiexec or srun, not by `insitu run`
        import hashlib

        campaign = campaign_directory(options)
        run = hashlib.sha256(_job_identity(campaign).encode()).hexdigest()[:32]
        environment |= rank_environment(options, run, campaign)
        environment |= preload_environment(program_path(argv))

        own_rank = rank.find_rank(os.environ)
        if own_rank is not None and own_rank.rank == 0 and not options.is_quiet:
            _print_ingest_hint(campaign)

    sys.stdout.flush()
    sys.stderr.flush()
    restore_signals()
    os.execve(program_path(argv), argv, environment)


def _job_identity(campaign: str) -> str:
    """Return a text that only the ranks of this job share.

    It contains the launcher's name of the job or, without one, the process that started the ranks.
    """
    name = rank.job_name(os.environ)
    if not name:
        with open(f"/proc/{os.getppid()}/stat", encoding="ascii", errors="replace") as file:
            start_time = file.read().rpartition(")")[2].split()[19]  # field 22 of proc(5)
        name = f"parent={os.getppid()}@{start_time}"
    return f"{name} {campaign}"


def _print_ingest_hint(campaign: str) -> None:
    if not os.path.exists(os.path.join(campaign, layout.AGGREGATOR_ADDRESS)):
        print(
            f"insitu: no aggregator serves {campaign}; after the run: insitu ingest {campaign}",
            file=sys.stderr,
        )
