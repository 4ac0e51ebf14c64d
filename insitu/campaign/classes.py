"""`[classes]` of campaign.toml: how behaviour classes are found, and what the user knows of them.

    [classes]
    way = "paper"                     # relative distance alone [CLU]; "joint" where it is not said
    threshold = 0.15                  # its distance, 0.1 where it is not said

    [[classes.rules]]                 # the first that is about a call path and metric holds
    callpath = "*flux"                # patterns as of file names, of the path or its last frame
    metric = "time"
    ranks = ["corner: x in (0, nx-1) and y in (0, ny-1)", "edge: x in (0, nx-1) or y in (0, ny-1)"]

    [[classes.rules]]
    callpath = "*MPI_*"
    threshold = 0.5                   # another distance for these

`classes = "paper"` is short for a table with the way alone.
"""

from collections.abc import Mapping
from typing import Any

from insitu.errors import CampaignError, UsageError
from insitu.modeling.classes.rules import JOINT, PAPER, ClassSettings, Rules, parse_rule

KEYS = ("way", "threshold", "rules")
RULE_KEYS = ("callpath", "metric", "ranks", "threshold")


def class_settings(data: object, file: str) -> ClassSettings:
    """Read what campaign.toml says of classes.

    Args:
        data: the value of `classes`.
        file: for errors.

    Raises:
        CampaignError: it has no meaning.
    """
    if isinstance(data, str):
        data = {"way": data}
    if not isinstance(data, dict):
        raise CampaignError(f'{file}: classes is a table, or a way as in classes = "{PAPER}"')
    _check_keys(data, KEYS, f"{file}: [classes]")
    way = data.get("way", JOINT)
    if way not in (JOINT, PAPER):
        raise CampaignError(f'{file}: [classes] way is "{JOINT}" or "{PAPER}", not {way!r}')
    if "threshold" in data and way != PAPER:
        raise CampaignError(
            f'{file}: [classes] threshold is the distance of way = "{PAPER}"; for one call path '
            "write it into [[classes.rules]]"
        )
    rules = data.get("rules", [])
    if not isinstance(rules, list) or not all(isinstance(one, dict) for one in rules):
        raise CampaignError(f"{file}: rules of classes begin with [[classes.rules]]")
    settings = ClassSettings(way, rules=tuple(_rules(one, file) for one in rules))
    threshold = _threshold(data, f"{file}: [classes]")
    return settings if threshold is None else ClassSettings(way, threshold, settings.rules)


def _rules(data: Mapping[str, Any], file: str) -> Rules:  # Any: TOML
    where = f"{file}: [[classes.rules]]"
    _check_keys(data, RULE_KEYS, where)
    texts = data.get("ranks", [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise CampaignError(f'{where} ranks is a list of rules, as in ["root: rank == 0"]')
    if ("ranks" in data) == ("threshold" in data):
        raise CampaignError(f"{where} says either ranks or threshold")
    patterns = {name: data[name] for name in ("callpath", "metric") if name in data}
    if not all(isinstance(pattern, str) for pattern in patterns.values()):
        raise CampaignError(f'{where} callpath and metric are patterns, as in callpath = "*flux"')
    try:
        classes = tuple(map(parse_rule, texts))
    except UsageError as error:
        raise CampaignError(f"{where} {error}") from error
    return Rules(classes, threshold=_threshold(data, where), **patterns)


def _threshold(data: Mapping[str, Any], where: str) -> float | None:  # Any: TOML
    value = data.get("threshold")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise CampaignError(f"{where} threshold is a relative distance above 0, as in 0.1 for 10 %")
    return float(value)


def _check_keys(data: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:  # Any: TOML
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise CampaignError(f"{where}: unknown key '{unknown[0]}'; there are {', '.join(known)}")
