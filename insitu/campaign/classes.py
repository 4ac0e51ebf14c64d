"""`[classes]` of campaign.toml: how behaviour classes are computed, and what the user adds.

    [classes]
    way = "paper"                     # relative distance alone [CLU]; default: "joint"
    threshold = 0.15                  # the relative distance; default: 0.1

    [[classes.rules]]                 # the first rule that matches a call path and metric applies
    callpath = "*flux"                # glob pattern for the call path or its last frame
    metric = "time"
    ranks = ["corner: x in (0, nx-1) and y in (0, ny-1)", "edge: x in (0, nx-1) or y in (0, ny-1)"]

    [[classes.rules]]
    callpath = "*MPI_*"
    threshold = 0.5                   # another distance for these call paths

`classes = "paper"` is short for a table with `way` alone.
"""

from collections.abc import Mapping
from typing import Any

from insitu.errors import CampaignError, UsageError
from insitu.modeling.classes.rules import JOINT, PAPER, ClassSettings, Rules, parse_rule

KEYS = ("way", "threshold", "rules")
RULE_KEYS = ("callpath", "metric", "ranks", "threshold")
MAX_THRESHOLD = 1e9  # a relative distance that no measured values have


def class_settings(data: object, file: str) -> ClassSettings:
    """Read the value of `classes` in campaign.toml.

    Args:
        data: the value, as parsed from TOML.
        file: the name of the file, for messages.

    Raises:
        CampaignError: the value is not valid.
    """
    if isinstance(data, str):
        data = {"way": data}
    if not isinstance(data, dict):
        raise CampaignError(f'{file}: classes must be a table or a string, as in "{PAPER}"')
    _check_keys(data, KEYS, f"{file}: [classes]")

    method = data.get("way", JOINT)
    if method not in (JOINT, PAPER):
        raise CampaignError(f'{file}: [classes] way must be "{JOINT}" or "{PAPER}", not {method!r}')
    if "threshold" in data and method != PAPER:
        raise CampaignError(
            f'{file}: [classes] threshold requires way = "{PAPER}"; to set a threshold for one call'
            " path, write it into [[classes.rules]]"
        )

    rules = data.get("rules", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise CampaignError(f"{file}: rules of classes must be tables headed [[classes.rules]]")
    settings = ClassSettings(method, rules=tuple(_read_rules(rule, file) for rule in rules))

    threshold = _read_threshold(data, f"{file}: [classes]")
    return settings if threshold is None else ClassSettings(method, threshold, settings.rules)


def _read_rules(data: Mapping[str, Any], file: str) -> Rules:  # Any: TOML
    where = f"{file}: [[classes.rules]]"
    _check_keys(data, RULE_KEYS, where)

    texts = data.get("ranks", [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise CampaignError(f'{where} ranks must be a list of rules, as in ["root: rank == 0"]')
    if ("ranks" in data) == ("threshold" in data):
        raise CampaignError(f"{where} must have either ranks or threshold")

    patterns = {name: data[name] for name in ("callpath", "metric") if name in data}
    if not all(isinstance(pattern, str) for pattern in patterns.values()):
        raise CampaignError(
            f'{where} callpath and metric must be patterns, as in callpath = "*flux"'
        )

    try:
        classes = tuple(map(parse_rule, texts))
    except UsageError as error:
        raise CampaignError(f"{where} {error}") from error
    return Rules(classes, threshold=_read_threshold(data, where), **patterns)


def _read_threshold(data: Mapping[str, Any], where: str) -> float | None:  # Any: TOML
    value = data.get("threshold")
    if value is None:
        return None

    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < MAX_THRESHOLD:
        raise CampaignError(
            f"{where} threshold must be a relative distance above 0, as in 0.1 for 10 %"
        )
    return float(value)


def _check_keys(data: Mapping[str, Any], valid: tuple[str, ...], where: str) -> None:  # Any: TOML
    unknown = sorted(set(data) - set(valid))
    if unknown:
        raise CampaignError(f"{where}: unknown key '{unknown[0]}'; valid are {', '.join(valid)}")
