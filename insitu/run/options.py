"""The command line of `insitu run`: what it means, how it is read."""

from dataclasses import dataclass, field

from insitu.collectors.steering import Steering
from insitu.entities import RANKS, parse_assignment
from insitu.errors import UsageError

USAGE = """usage: insitu run [-n RANKS] [--campaign DIR] [--param NAME=VALUE]... [--] COMMAND...

Run a program and measure it. COMMAND is a Python script, -m MODULE, -c CODE, an executable, or a
launcher with its own options (mpiexec, srun, ...). `--` ends the options of insitu.

  -n, --ranks RANKS     start that many ranks with the mpiexec found here; also -np
  --campaign DIR        the campaign that the run belongs to (default: PROGRAM.insitu)
  --param NAME=VALUE    a parameter of this run, besides the number of ranks p; may be repeated
  --mpiexec PATH        another mpiexec than the one beside this Python or on PATH
  --beat SECONDS        how often totals are sent (default: 1)
  --agent HOW           on (default): send totals while the program runs; off: leave the tables
                        where they are for `insitu ingest`; spool: copy them into the campaign,
                        where nodes share its disk but no sockets
  --heap on|off|mmap    count heap memory per call path (default: on); with mmap also what
                        the program maps by itself
  --budget SHARE|off    what timing functions may cost; beyond it, those that are called most for
                        the least time are left out, and named at the end (default: 2%)
  --only PATTERN        time only functions like this: a module, `solver.*`, `*.step`, or a file,
                        `*/lib/*`; may be repeated
  --skip PATTERN        leave such functions out: they count as part of their callers
  --depth N             time functions down to N calls below the program
  --recursion fold|keep a function that calls itself is one row, or one per level (default: fold)
  --c-functions         time functions written in C as well, where Python calls them
  --result FILE         append what became of the run to FILE, as one line of JSON
  -q, --quiet           say nothing but errors
  -h, --help            show this page

Inside a rank (mpiexec -n 4 python -m insitu.run ...; srun ...) it wraps that rank.
"""
MAX_PATTERNS = 60
SWITCHES = ("-q", "--quiet", "--c-functions", "-h", "--help")
AGENTS = ("on", "off", "spool")
WITH_VALUE = {
    "-n": "ranks",
    "-np": "ranks",
    "--ranks": "ranks",
    "--campaign": "campaign",
    "--param": "param",
    "--mpiexec": "mpiexec",
    "--beat": "beat",
    "--agent": "agent",
    "--heap": "heap",
    "--budget": "budget",
    "--only": "only",
    "--skip": "skip",
    "--depth": "depth",
    "--recursion": "recursion",
    "--result": "result",
}


@dataclass(slots=True)
class Options:
    """The command line of insitu.run."""

    command: list[str] = field(default_factory=list)
    ranks: int | None = None
    campaign: str = ""
    parameters: dict[str, float] = field(default_factory=dict)
    mpiexec: str = ""
    beat: float = 1.0
    agent: str = "on"
    heap: str = "on"
    result: str = ""
    steering: Steering = field(default_factory=Steering)
    is_quiet: bool = False
    wants_help: bool = False


def parse(argv: list[str]) -> Options:
    """Read options up to the first word that is none of ours: that begins the program's own
    command line.

    Raises:
        UsageError: an unknown option, a missing or bad value, no command.
    """
    options = Options()
    words = list(argv)
    while words:
        word = words[0]
        if word == "--":
            words.pop(0)
            break
        if word in ("-m", "-c") or not word.startswith("-") or word == "-":
            break
        words.pop(0)
        name, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            options.wants_help = True
            return options
        if word in ("-q", "--quiet"):
            options.is_quiet = True
        elif word == "--c-functions":
            options.steering.has_builtins = True
        elif name in WITH_VALUE:
            if not equals:
                if not words:
                    raise UsageError(f"{name} wants a value; see insitu run --help")
                value = words.pop(0)
            _set(options, name, WITH_VALUE[name], value)
        else:
            raise UsageError(
                f"unknown option {word}; options of the program go behind its name, "
                "insitu's own are listed by insitu run --help"
            )
    if not words:
        raise UsageError("no command to run; see insitu run --help")
    options.command = words
    return options


def _set(options: Options, name: str, what: str, value: str) -> None:
    try:
        if what == "ranks":
            options.ranks = int(value) if value.isascii() and value.isdigit() else 0
            if options.ranks < 1:
                raise ValueError(f"'{value}' is not a number of ranks, as in -n 4")
        elif what == "beat":
            options.beat = _number(value)
            if not 0.05 <= options.beat <= 3600:
                raise ValueError(f"'{value}' is not between 0.05 and 3600 seconds")
        elif what == "param":
            parameter, number = parse_assignment(value)
            if parameter == RANKS:
                raise ValueError("p is the number of ranks: insitu counts it itself")
            if parameter in options.parameters:
                raise ValueError(f"{parameter} is given twice")
            options.parameters[parameter] = number
        elif what in ("budget", "only", "skip", "depth", "recursion"):
            _steer(options.steering, what, value)
        elif what == "agent" and value not in AGENTS:
            raise ValueError(f"'{value}' is none of {', '.join(AGENTS)}")
        elif what == "heap" and value not in ("on", "off", "mmap"):
            raise ValueError(f"'{value}' is none of on, off and mmap")
        else:
            setattr(options, what, value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error


def _steer(steering: Steering, what: str, value: str) -> None:
    """Set what concerns the function timer.

    Raises:
        ValueError: a value that makes no sense.
    """
    if what == "budget":
        steering.budget = 0.0 if value == "off" else _share(value)
    elif what == "depth":
        steering.depth = int(value) if value.isascii() and value.isdigit() else 0
        if not 1 <= steering.depth <= 1000:
            raise ValueError(f"'{value}' is not between 1 and 1000")
    elif what == "recursion":
        if value not in ("fold", "keep"):
            raise ValueError(f"'{value}' is neither fold nor keep")
        steering.keeps_recursion = value == "keep"
    else:
        patterns: tuple[str, ...] = getattr(steering, what)
        if not value or "\n" in value or len(patterns) == MAX_PATTERNS:
            raise ValueError(f"a pattern is one line, and there are at most {MAX_PATTERNS}")
        setattr(steering, what, (*patterns, value))


def _number(text: str) -> float:
    """Read a number; NaN, which is within no bounds, where it is none."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _share(text: str) -> float:
    """Read `2%` or `0.02`."""
    share = _number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < share < 1:
        raise ValueError(f"'{text}' is not a share of time, as in 2%")
    return share
