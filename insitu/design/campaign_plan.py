"""The plan of a campaign in `campaign.toml`: the command, its parameters, and the repetitions.

[levels]
p = [1, 2, 4, 8]                      # the number of ranks
n = "64..512:4"                       # four values in equal ratios

[run]
command = "./heat.py --cells {n}"     # as after `insitu run --`
launcher = "mpiexec"                  # or srun, flux; sbatch; psij:pbs, psij:lsf, psij:flux
repetitions = 3                       # or "auto"
design = "full"                       # or sparse, deduced, advise
dependencies = "dependencies.json"    # of `insitu detect`: required by deduced, used by advise
predict = "p=1024, n=4096"            # what to predict, for advise
goal = 0.05                           # relative uncertainty of the prediction that is enough
timeout_s = 600                       # time limit of a run
budget_core_h = 10                    # no run starts that would exceed it
only = ["dependencies.json"]          # time only these functions, as `insitu run --only`
iterations = 5                        # of the main loop that suffice, as `insitu run --iterations`
sbatch = ["--partition=test"]         # options of the batch system
psij = { queue_name = "test", per_node = 64 }
setup = ["module load openmpi"]       # lines of a job script before the command
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from insitu.design.levels import parse_levels
from insitu.entities import RANKS, number
from insitu.errors import UsageError

LAUNCHERS = ("mpiexec", "srun", "flux", "sbatch")
PSIJ = ("psij:pbs", "psij:pbs_classic", "psij:lsf", "psij:flux", "psij:slurm", "psij:local")
DESIGNS = ("full", "deduced", "sparse", "advise")
AUTO = 0  # repeat until the mean is known precisely enough
GOAL = 0.05  # default relative uncertainty of a prediction that is enough
TIMEOUT_S = 24 * 3600.0  # default time limit of a run
_TYPES: Mapping[str, tuple[type, ...]] = {
    "command": (str, list),
    "launcher": (str,),
    "mpiexec": (str,),
    "repetitions": (int, str),
    "design": (str,),
    "dependencies": (str,),
    "predict": (str,),
    "goal": (int, float),
    "timeout_s": (int, float),
    "budget_core_h": (int, float),
    "only": (list,),
    "packages": (list,),
    "iterations": (int,),
    "srun": (list,),
    "flux": (list,),
    "sbatch": (list,),
    "psij": (dict,),
    "setup": (list,),
}


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """The runs that a campaign should have.

    Attributes:
        command: words of the command line, with parameters in braces.
        levels: values by parameter, `p` among them.
        launcher: one of LAUNCHERS or PSIJ.
        mpiexec: path of mpiexec, "" for the default one.
        repetitions: of each configuration, AUTO for as many as its noise requires.
        design: one of DESIGNS.
        dependencies: path of the file of `insitu detect`, "" if there is none.
        predict: coordinate to predict, for design "advise".
        goal: relative uncertainty of that prediction that is enough.
        timeout_s: time limit of a run.
        budget_core_h: limit of all runs together, infinite by default.
        only: patterns of the functions to time, or files of `insitu detect`; empty for all.
        packages: installed packages whose functions are timed like those of the program.
        iterations: of the main loop after which a program may end it, 0 for all [DET §3.3].
        srun, flux, sbatch: options of these launchers.
        psij: attributes of the job, as `launch/portable.py` reads them.
        setup: lines of a job script before the command.
    """

    command: tuple[str, ...]
    levels: Mapping[str, tuple[float, ...]]
    launcher: str = "mpiexec"
    mpiexec: str = ""
    repetitions: int = 1
    design: str = "full"
    dependencies: str = ""
    predict: str = ""
    goal: float = GOAL
    timeout_s: float = TIMEOUT_S
    budget_core_h: float = float("inf")
    only: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    iterations: int = 0
    srun: tuple[str, ...] = ()
    flux: tuple[str, ...] = ()
    sbatch: tuple[str, ...] = ()
    psij: Mapping[str, Any] = field(default_factory=dict)
    setup: tuple[str, ...] = ()


def parse_campaign_plan(data: Mapping[str, Any], where: str) -> CampaignPlan:
    """Parse the tables `levels` and `run`.

    Args:
        data: content of campaign.toml.
        where: the file's name, for errors.

    Raises:
        UsageError: something is missing or invalid; the message says what to write.
    """
    for table, example in (("levels", "p = [1, 2, 4, 8]"), ("run", 'command = "./heat.py"')):
        if not isinstance(data.get(table), dict):
            raise UsageError(
                f"{where}: no table [{table}]; add it, as in {example};"
                " see `insitu campaign --help`"
            )

    run = data["run"]
    _check_types(run, where)
    if not run.get("command"):
        raise UsageError(f'{where}: [run] needs a command, as in command = "./heat.py {{n}}"')
    command = run["command"]
    words = tuple(shlex.split(command)) if isinstance(command, str) else _words(run, "command")

    plan = CampaignPlan(
        command=words,
        levels=_parse_levels(data["levels"], where),
        launcher=_check_choice(
            run.get("launcher", "mpiexec"), (*LAUNCHERS, *PSIJ), f"{where}: [run] launcher"
        ),
        mpiexec=run.get("mpiexec", ""),
        repetitions=_parse_repetitions(run.get("repetitions", 1), where),
        design=_check_choice(run.get("design", "full"), DESIGNS, f"{where}: [run] design"),
        dependencies=run.get("dependencies", ""),
        predict=run.get("predict", ""),
        goal=float(run.get("goal", GOAL)),
        timeout_s=float(run.get("timeout_s", TIMEOUT_S)),
        budget_core_h=float(run.get("budget_core_h", "inf")),
        only=_words(run, "only"),
        packages=_words(run, "packages"),
        iterations=run.get("iterations", 0),
        srun=_words(run, "srun"),
        flux=_words(run, "flux"),
        sbatch=_words(run, "sbatch"),
        psij=run.get("psij", {}),
        setup=_words(run, "setup"),
    )
    _check_plan(plan, where)
    return plan


def _check_types(run: Mapping[str, Any], where: str) -> None:
    for name, value in run.items():
        types = _TYPES.get(name)
        if types is None:
            raise UsageError(
                f"{where}: [run] has no key '{name}'; its keys are {', '.join(_TYPES)}"
            )
        if not isinstance(value, types) or isinstance(value, bool):
            names = [{"str": "text"}.get(kind.__name__, kind.__name__) for kind in types]
            raise UsageError(f"{where}: [run] {name} must be {' or '.join(names)}")


def _check_plan(plan: CampaignPlan, where: str) -> None:
    if plan.design == "deduced" and not plan.dependencies:
        raise UsageError(
            f"{where}: a deduced design needs the file of `insitu detect`, as in"
            ' dependencies = "dependencies.json"'
        )
    if plan.design == "advise" and not plan.predict:
        raise UsageError(
            f'{where}: design = "advise" needs the coordinate to predict, as in'
            ' predict = "p=1024, n=4096"'
        )
    for name, values in plan.levels.items():
        if name != RANKS and len(values) > 1 and f"{{{name}" not in " ".join(plan.command):
            raise UsageError(
                f"{where}: [levels] {name} has {len(values)} values, but the command does not"
                f" contain {{{name}}}: every run would be the same; write it where the program"
                " takes the value"
            )
    _check_options(plan, where)
    if plan.timeout_s <= 0 or plan.budget_core_h <= 0 or plan.goal <= 0:
        raise UsageError(f"{where}: [run] timeout_s, budget_core_h and goal must be above 0")
    if plan.iterations < 0:
        raise UsageError(f"{where}: [run] iterations must be above 0, or 0 for all")


def _check_options(plan: CampaignPlan, where: str) -> None:
    """Refuse parameters where they are not replaced: they would reach the launcher as written."""
    for key in ("srun", "flux", "sbatch", "setup"):
        for word in getattr(plan, key):
            for name in plan.levels:
                # ${name} is a variable of the shell.
                if re.search(rf"(?<!\$)\{{{name}\}}", word):
                    raise UsageError(
                        f"{where}: [run] {key}: '{word}' names {{{name}}}, which is replaced in"
                        f" command only; write the largest value here, and {{{name}}} in command,"
                        ' as in "env OMP_NUM_THREADS={threads} ./heat"'
                    )


def _parse_levels(data: Mapping[str, Any], where: str) -> dict[str, tuple[float, ...]]:
    levels = {}
    for name, value in data.items():
        text = value if isinstance(value, str) else _join_numbers(value)
        if text is None:
            raise UsageError(f'{where}: [levels] {name} has no values; write [1, 2] or "1..8:4"')
        try:
            _, levels[name] = parse_levels(f"{name}={text}")
        except UsageError as error:
            raise UsageError(f"{where}: [levels] {error}") from error

    ranks = levels.get(RANKS, ())
    if not ranks or not all(value.is_integer() for value in ranks):
        raise UsageError(f"{where}: [levels] needs p, the numbers of ranks, as in p = [1, 2, 4, 8]")
    return {RANKS: ranks} | levels


def _join_numbers(value: object) -> str | None:
    """Return a number or a list of numbers as text; None for anything else."""
    values: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(item, int | float) and not isinstance(item, bool) for item in values):
        return None
    return ",".join(number(item) for item in values)


def _parse_repetitions(value: object, where: str) -> int:
    if value == "auto":
        return AUTO
    if not isinstance(value, int) or value < 1:
        raise UsageError(f'{where}: [run] repetitions must be a number above 0 or "auto"')
    return value


def _check_choice(value: str, choices: tuple[str, ...], what: str) -> str:
    if value not in choices:
        raise UsageError(f"{what} is '{value}'; it must be one of {', '.join(choices)}")
    return value


def _words(run: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(map(str, run.get(name, ())))
