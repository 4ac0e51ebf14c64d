"""What `campaign.toml` says about the runs of a campaign: the command, its parameters, how often.

[levels]
p = [1, 2, 4, 8]                      # the number of ranks
n = "64..512:4"                       # four values in equal ratios

[run]
command = "./heat.py --cells {n}"     # as behind `insitu run --`
launcher = "mpiexec"                  # or srun, flux; sbatch; psij:pbs, psij:lsf, psij:flux
repetitions = 3                       # or "auto"
design = "full"                       # or sparse, deduced, advise
dependencies = "dependencies.json"    # of `insitu detect`: wanted by deduced, welcome to advise
predict = "p=1024, n=4096"            # what is asked, for advise
goal = 0.05                           # relative uncertainty of it that is enough
timeout_s = 600                       # the longest that a run may take
budget_core_h = 10                    # no run is begun that would go beyond it
sbatch = ["--partition=test"]         # options of the batch system
psij = { queue_name = "test", per_node = 64 }
setup = ["module load openmpi"]       # lines of a job script before the program
"""

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
AUTO = 0  # repetitions until the mean is known well enough
GOAL = 0.05  # relative uncertainty of a prediction that is enough, where nobody says another
TIMEOUT_S = 24 * 3600.0  # of a run, where nobody says another
_KINDS: Mapping[str, tuple[type, ...]] = {
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
    "srun": (list,),
    "flux": (list,),
    "sbatch": (list,),
    "psij": (dict,),
    "setup": (list,),
}


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """The runs that a campaign should have.

    levels: values by parameter, `p` among them. repetitions: of each configuration, AUTO for as
    many as its noise asks for. budget_core_h: infinite where none was given. predict, goal: what is
    asked of design "advise", and how sure is sure enough. psij: as `launch/portable.py` reads it.
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
    srun: tuple[str, ...] = ()
    flux: tuple[str, ...] = ()
    sbatch: tuple[str, ...] = ()
    psij: Mapping[str, Any] = field(default_factory=dict)
    setup: tuple[str, ...] = ()


def parse_campaign_plan(data: Mapping[str, Any], where: str) -> CampaignPlan:
    """Read the tables `levels` and `run`.

    Args:
        data: what campaign.toml holds.
        where: the file's name, for errors.

    Raises:
        UsageError: something is missing or has no meaning; the text says what to write.
    """
    for table, example in (("levels", "p = [1, 2, 4, 8]"), ("run", 'command = "./heat.py"')):
        if not isinstance(data.get(table), dict):
            raise UsageError(
                f"{where}: no table [{table}], as in {example}; see `insitu campaign --help`"
            )
    run = data["run"]
    for name, value in run.items():
        kinds = _KINDS.get(name)
        if kinds is None:
            raise UsageError(f"{where}: [run] knows no '{name}'; there are {', '.join(_KINDS)}")
        if not isinstance(value, kinds) or isinstance(value, bool):
            wanted = " or ".join({"str": "text"}.get(k.__name__, k.__name__) for k in kinds)
            raise UsageError(f"{where}: [run] {name} is no {wanted}")
    if not run.get("command"):
        raise UsageError(f'{where}: [run] wants a command, as in command = "./heat.py {{n}}"')
    command = run["command"]
    study = CampaignPlan(
        command=tuple(shlex.split(command)) if isinstance(command, str) else _words(run, "command"),
        levels=_levels(data["levels"], where),
        launcher=_one_of(
            run.get("launcher", "mpiexec"), (*LAUNCHERS, *PSIJ), f"{where}: [run] launcher"
        ),
        mpiexec=run.get("mpiexec", ""),
        repetitions=_repetitions(run.get("repetitions", 1), where),
        design=_one_of(run.get("design", "full"), DESIGNS, f"{where}: [run] design"),
        dependencies=run.get("dependencies", ""),
        predict=run.get("predict", ""),
        goal=float(run.get("goal", GOAL)),
        timeout_s=float(run.get("timeout_s", TIMEOUT_S)),
        budget_core_h=float(run.get("budget_core_h", "inf")),
        srun=_words(run, "srun"),
        flux=_words(run, "flux"),
        sbatch=_words(run, "sbatch"),
        psij=run.get("psij", {}),
        setup=_words(run, "setup"),
    )
    if study.design == "deduced" and not study.dependencies:
        raise UsageError(
            f"{where}: a deduced design wants the file of `insitu detect`, as in"
            ' dependencies = "dependencies.json"'
        )
    if study.design == "advise" and not study.predict:
        raise UsageError(
            f'{where}: design = "advise" wants what is to be predicted, as in'
            ' predict = "p=1024, n=4096"'
        )
    if study.timeout_s <= 0 or study.budget_core_h <= 0 or study.goal <= 0:
        raise UsageError(f"{where}: [run] timeout_s, budget_core_h and goal are above 0")
    return study


def _levels(data: Mapping[str, Any], where: str) -> dict[str, tuple[float, ...]]:
    found = {}
    for name, given in data.items():
        values = given if isinstance(given, list) else [given]
        is_number = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        if not isinstance(given, str) and not is_number:
            raise UsageError(f'{where}: [levels] {name} holds no values; write [1, 2] or "1..8:4"')
        text = given if isinstance(given, str) else ",".join(number(value) for value in values)
        try:
            _, found[name] = parse_levels(f"{name}={text}")
        except UsageError as error:
            raise UsageError(f"{where}: [levels] {error}") from error
    ranks = found.get(RANKS, ())
    if not ranks or not all(value.is_integer() for value in ranks):
        raise UsageError(f"{where}: [levels] wants p, the numbers of ranks, as in p = [1, 2, 4, 8]")
    return {RANKS: ranks} | found


def _repetitions(value: object, where: str) -> int:
    if value == "auto":
        return AUTO
    if not isinstance(value, int) or value < 1:
        raise UsageError(f'{where}: [run] repetitions is a number above 0 or "auto"')
    return value


def _one_of(value: str, known: tuple[str, ...], what: str) -> str:
    if value not in known:
        raise UsageError(f"{what} is '{value}'; there are {', '.join(known)}")
    return value


def _words(run: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(map(str, run.get(name, ())))
