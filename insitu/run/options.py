"""The command line of `insitu run`."""

from dataclasses import dataclass, field

from insitu.collectors.steering import Steering
from insitu.entities import RANKS, parse_assignment
from insitu.errors import UsageError

USAGE = """usage: insitu run [-n RANKS] [--campaign DIR] [--param NAME=VALUE]... [--] COMMAND...

Run a program and measure each of its ranks. COMMAND is a Python script, -m MODULE, -c CODE, an
executable, or a launcher with its own options (mpiexec, srun, ...). `--` ends insitu's options.

  -n, --ranks RANKS     start this many ranks with mpiexec; also -np
  --campaign DIR        the campaign that stores the run (default: PROGRAM.insitu)
  --param NAME=VALUE    a parameter of this run, besides the number of ranks p; may be repeated
  --mpiexec PATH        use this mpiexec (default: beside this Python, else the one on PATH)
  --beat SECONDS        interval between two messages of an agent (default: 1)
  --agent MODE          on: send values while the program runs (default); off: keep the tables for
                        `insitu ingest`; spool: copy the tables into the campaign, for nodes that
                        share its disk but cannot open sockets
  --sample HZ|off       sample the functions of unchanged compiled programs HZ times per CPU second,
                        at most 200 times (default: 97); where it is given, also those that Python
                        programs call
  --heap on|off|mmap    measure heap memory per call path (default: on); mmap also measures memory
                        that the program maps itself
  --files on|off        measure calls that open, read, write and map files: bytes, calls and time
                        per call path (default: on)
  --gpu on|off          count and time what GPUs of NVIDIA do for the program (default: on)
  --budget SHARE|off    limit the cost of timing functions; beyond it, the functions with the most
                        calls for the least time are no longer timed, and named at the end of the
                        run (default: 2%)
  --only PATTERN        time only functions that match: of a module, as in `solver.*` or `*.step`,
                        or of a file, as in `*/lib/*`; may be repeated. FILE.json of `insitu
                        detect`: only functions that depend on a parameter, and their callers
  --skip PATTERN        do not time functions that match; their time counts for their callers
  --package NAME        time the functions inside an installed package, such as gpaw, like those of
                        the program; may be repeated
  --depth N             time functions up to N calls below the program
  --recursion fold|keep record a recursive function in one row, or one per level (default: fold)
  --c-functions         also time functions written in C that Python code calls
  --iterations N        let the program end its main loop after N iterations, where it asks with
                        `if insitu.phase(step): break` or `if (insitu_iteration()) break;`
  --result FILE         append the outcome of the run to FILE, as one line of JSON
  -q, --quiet           print only errors
  -h, --help            print this help

Inside a rank (mpiexec -n 4 python -m insitu.run ...; srun ...), it measures that rank.
"""
MAX_SAMPLES_PER_S = 200  # timers of CPU time tick 250 times per second on most kernels
MAX_PATTERNS = 250  # WORDS of native/code.c, less some to spare
MAX_PACKAGES = 8  # each is looked for in every folder of modules
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
    "--sample": "sample",
    "--files": "files",
    "--gpu": "gpu",
    "--budget": "budget",
    "--only": "only",
    "--skip": "skip",
    "--package": "packages",
    "--depth": "depth",
    "--recursion": "recursion",
    "--iterations": "iterations",
    "--result": "result",
}


@dataclass(slots=True)
class Options:
    """The parsed command line; see USAGE."""

    command: list[str] = field(default_factory=list)
    ranks: int | None = None
    campaign: str = ""
    parameters: dict[str, float] = field(default_factory=dict)
    mpiexec: str = ""
    beat: float = 1.0
    agent: str = "on"
    heap: str = "on"
    sample: int = 97  # per second of CPU time, 0 for off; a prime number meets no period
    samples_python: bool = False
    files: str = "on"
    gpu: str = "on"
    iterations: int = 0  # of the main loop that suffice, 0 for all
    result: str = ""
    steering: Steering = field(default_factory=Steering)
    is_quiet: bool = False
    wants_help: bool = False


def parse(argv: list[str]) -> Options:
    """Parse options up to the first word that is not one of ours: there the command begins.

    Raises:
        UsageError: an unknown option, a missing or invalid value, or no command.
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
                    raise UsageError(f"{name} requires a value; see insitu run --help")
                value = words.pop(0)
            _set(options, name, WITH_VALUE[name], value)
        else:
            raise UsageError(
                f"unknown option {word}; options of the program go after its name; for the options "
                "of insitu, see insitu run --help"
            )

    if not words:
        raise UsageError("no command to run; see insitu run --help")
    options.command = words
    return options


def _set(options: Options, name: str, what: str, value: str) -> None:
    """Set the attribute `what` from the value of the option `name`."""
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
                raise ValueError("p is the number of ranks, which insitu counts itself")
            if parameter in options.parameters:
                raise ValueError(f"{parameter} is given twice")
            options.parameters[parameter] = number
        elif what == "sample":
            options.sample = 0 if value == "off" else _whole_number(value)
            options.samples_python = options.sample > 0
            if value != "off" and not 1 <= options.sample <= MAX_SAMPLES_PER_S:
                raise ValueError(f"'{value}' is neither off nor between 1 and {MAX_SAMPLES_PER_S}")
        elif what == "iterations":
            options.iterations = _whole_number(value)
            if options.iterations < 1:
                raise ValueError(f"'{value}' is not a number of iterations, as in --iterations 5")
        elif what in ("budget", "only", "skip", "packages", "depth", "recursion"):
            _steer(options.steering, what, value)
        elif what == "agent" and value not in AGENTS:
            raise ValueError(f"'{value}' is not one of {', '.join(AGENTS)}")
        elif what == "heap" and value not in ("on", "off", "mmap"):
            raise ValueError(f"'{value}' is not one of on, off, mmap")
        elif what in ("files", "gpu") and value not in ("on", "off"):
            raise ValueError(f"'{value}' is neither on nor off")
        else:
            setattr(options, what, value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error


def _steer(steering: Steering, what: str, value: str) -> None:
    """Set an option of the function timer.

    Raises:
        ValueError: the value is invalid.
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
    elif what == "packages":
        if not all(map(str.isidentifier, value.split("."))):
            raise ValueError(f"'{value}' is not the name of a package, as in --package gpaw")
        if len(steering.packages) == MAX_PACKAGES:
            raise ValueError(f"expected at most {MAX_PACKAGES} packages")
        steering.packages += (value,)
    else:
        patterns = [*getattr(steering, what), value]
        if what == "only" and value.endswith(".json"):
            patterns[-1:] = _relevant_functions(value)
        if not value or "\n" in value or len(patterns) > MAX_PATTERNS:
            raise ValueError(f"expected at most {MAX_PATTERNS} patterns of one line each")
        setattr(steering, what, tuple(patterns))


def _relevant_functions(path: str) -> tuple[str, ...]:
    """Return patterns of the functions that a file of `insitu detect` calls relevant.

    Raises:
        UsageError: the file cannot be read, or names no such function.
    """
    from insitu.design.dependency_file import load_structure, relevant_patterns  # rarely needed

    patterns = relevant_patterns(load_structure(path))
    if not patterns:
        raise UsageError(f"--only {path}: no function in it depends on a parameter")
    return patterns


def _whole_number(text: str) -> int:
    """Parse a number of digits; 0, which is within no bounds, if it is not one."""
    return int(text) if text.isascii() and text.isdigit() else 0


def _number(text: str) -> float:
    """Parse a number; NaN, which is within no bounds, if it is not one."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _share(text: str) -> float:
    """Parse `2%` or `0.02`."""
    share = _number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < share < 1:
        raise ValueError(f"'{text}' is not a share of time, as in 2%")
    return share
