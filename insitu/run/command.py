"""python -m insitu.run: outside MPI it launches the ranks, inside a rank it wraps the
application."""

import os
import sys

from insitu.campaign.layout import AGGREGATOR_ADDRESS
from insitu.collectors import rank
from insitu.errors import InsituError
from insitu.run.environment import campaign_directory, preload, rank_environment
from insitu.run.options import USAGE, Options, parse


def wrap(options: Options) -> None:
    """Inside a rank: become the program, measured. Does not return."""
    from insitu.launch.find import program_argv

    argv = program_argv(options.command)
    environment = dict(os.environ)
    if "INSITU_RUN" not in environment:
        import hashlib

        campaign = campaign_directory(options)
        run = hashlib.sha256(_job(campaign).encode()).hexdigest()[:32]
        environment |= rank_environment(options, run, campaign) | preload(argv, options)
        info = rank.find_rank(os.environ)
        if info is not None and info.rank == 0 and not options.is_quiet:
            _tell_where(campaign)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(argv[0], argv, environment)


def _job(campaign: str) -> str:
    """What the ranks of this job share: the launcher's name for it, else the process that started
    them."""
    name = rank.job_name(os.environ)
    if not name:
        with open(f"/proc/{os.getppid()}/stat", encoding="ascii", errors="replace") as file:
            started = file.read().rpartition(")")[2].split()[19]
        name = f"parent={os.getppid()}@{started}"
    return f"{name} {campaign}"


def _tell_where(campaign: str) -> None:
    if not os.path.exists(os.path.join(campaign, AGGREGATOR_ADDRESS)):
        print(
            f"insitu: no aggregator serves {campaign}; afterwards run: insitu ingest {campaign}",
            file=sys.stderr,
        )


def main(argv: list[str] | None = None) -> None:
    """The command; ends with the exit code of the program."""
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
        if options.wants_help:
            print(USAGE, end="")
            sys.exit(0)
        is_rank = rank.find_rank(os.environ) is not None or "INSITU_RUN" in os.environ
        if is_rank and options.ranks is None:
            wrap(options)
        from insitu.run.supervise import supervise

        sys.exit(supervise(options))
    except InsituError as error:
        print(f"insitu: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
