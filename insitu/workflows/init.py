"""Writing the campaign.toml of a new campaign."""

import json
import os
import shlex
import tomllib
from collections.abc import Sequence

from insitu.campaign.layout import CAMPAIGN_FILE
from insitu.design.campaign_plan import parse_campaign_plan
from insitu.design.levels import parse_levels
from insitu.entities import number
from insitu.errors import CampaignError, UsageError

# Not only powers of two: other numbers of ranks tell laws from the neighbours in a grid.
DEFAULT_RANKS = "p=2,3,4,6,8,12"
SUFFIX = ".insitu"
TEMPLATE = """\
# What the diagnosis looks ahead to; without these lines it chooses, and says what it assumes.
# target = "p=65536"
# machine = "memory=512e9, ranks_per_node=128"
# scaling = "strong"    # or "weak"

# The runs that `insitu campaign run {name}` makes; `insitu campaign plan {name}` prints them.
[levels]
{levels}
[run]
command = {command}
launcher = "{launcher}"
repetitions = 1      # or "auto": as many as the noise requires
timeout_s = {timeout_s}      # time limit of a run
"""
TIMEOUT_S = 3600


def init_campaign(
    campaign: str,
    command: Sequence[str],
    *,
    levels: Sequence[str] = (),
    launcher: str = "mpiexec",
) -> str:
    """Write campaign.toml into the directory of a campaign, and return the path of the file.

    Args:
        campaign: the directory; it is created, with the suffix .insitu if the name has none.
        command: words of the command line, with parameters in braces: `heat.py --cells {n}`.
        levels: values of parameters, such as "n=64..512:4"; p is the number of ranks.
        launcher: starts the runs, see `insitu.design.campaign_plan`.

    Raises:
        CampaignError: the campaign has a campaign.toml already, or the file cannot be written.
        UsageError: a level, the launcher or the command makes no sense.
    """
    if not command:
        raise UsageError("name the program: insitu init heat -- ./heat.py --cells 64")

    if len(command) == 1 and not os.path.exists(command[0]):
        command = shlex.split(command[0])  # a whole command line in quotes

    values: dict[str, tuple[float, ...]] = {}
    for text in (DEFAULT_RANKS, *levels):
        name, numbers = parse_levels(text)
        values[name] = numbers
    lines = [f"{name} = [{', '.join(map(number, listed))}]" for name, listed in values.items()]

    path = campaign if campaign.endswith(SUFFIX) else campaign + SUFFIX
    file = os.path.join(path, CAMPAIGN_FILE)
    content = TEMPLATE.format(
        name=path,
        levels="\n".join(lines) + "\n",
        command=json.dumps(list(command)),
        launcher=launcher,
        timeout_s=TIMEOUT_S,
    )
    parse_campaign_plan(tomllib.loads(content), file)  # refuses what `insitu campaign` would

    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        with open(file, "x", encoding="utf-8") as stream:
            stream.write(content)
    except FileExistsError:
        raise CampaignError(f"{file} exists; edit it, or name another campaign") from None
    except OSError as error:
        raise CampaignError(f"{file}: cannot be written: {error.strerror}") from error
    return file
