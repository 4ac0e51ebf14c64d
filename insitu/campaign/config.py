"""campaign.toml: the settings of a campaign.

    name = "Heat on a plate"      # default: the name of the directory
    target = "p=65536"            # what views look ahead to, see insitu/modeling/target.py
    machine = "memory=2e9"        # of the target, see insitu/analysis/diagnosis/machine.py
    scaling = "strong"            # or "weak"; default: as the measurements show

    [parameters]                  # units of parameters, for display
    n = "cells"

    [classes]                     # see classes.py
    way = "paper"

    [levels] and [run]            # the runs that `insitu campaign` makes

The file and each of its keys are optional.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from insitu.campaign.classes import class_settings
from insitu.campaign.layout import CAMPAIGN_FILE, DEPENDENCIES_FILE
from insitu.entities import RANKS, SCALINGS, RunRecord, parse_assignment
from insitu.errors import CampaignError
from insitu.modeling.classes.rules import ClassSettings

KEYS = ("name", "target", "machine", "scaling", "parameters", "classes", "levels", "run")


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of a campaign.

    Attributes:
        name: of the campaign.
        units: of its parameters, by name.
        classes: how behaviour classes are found.
        target: values of parameters that all views look ahead to; what [run] predicts by default.
        machine: what the diagnosis assumes of the target, as a text.
        scaling: "weak" or "strong" if the user says so.
    """

    name: str
    units: Mapping[str, str] = field(default_factory=dict)
    classes: ClassSettings = field(default_factory=ClassSettings)
    target: Mapping[str, float] = field(default_factory=dict)
    machine: str = ""
    scaling: str = ""

    def axis(self, parameter: str) -> str:
        """The label of a parameter with its unit: `n [cells]`."""
        unit = self.units.get(parameter, "")
        return f"{parameter} [{unit}]" if unit else parameter


def load_config(path: str) -> Config:
    """Read campaign.toml of the campaign in directory `path`.

    Raises:
        CampaignError: the file cannot be read, or a value is not valid.
    """
    file = os.path.join(path, CAMPAIGN_FILE)
    data = load_settings(path)

    default = os.path.basename(os.path.abspath(path)).removesuffix(".insitu")
    name = data.get("name", default)
    if not isinstance(name, str):
        raise CampaignError(f'{file}: name must be a string, as in name = "heat"')

    units = data.get("parameters", {})
    if not isinstance(units, dict) or not all(isinstance(unit, str) for unit in units.values()):
        raise CampaignError(f'{file}: [parameters] must hold units by name, as in n = "cells"')

    classes = class_settings(data.get("classes", {}), file)
    run = data.get("run")
    predicted = run.get("predict", "") if isinstance(run, dict) else ""
    target, key = (data["target"], "target") if "target" in data else (predicted, "predict")
    return Config(
        name,
        units,
        classes,
        target=_parse_target(target, file, key),
        machine=_parse_machine(data.get("machine", ""), file),
        scaling=_parse_scaling(data.get("scaling", ""), file),
    )


def unused_target_notes(path: str, runs: Iterable[RunRecord]) -> list[str]:
    """A note for each parameter in the target of campaign.toml that no run has.

    Raises:
        CampaignError: campaign.toml cannot be read.
    """
    names = {RANKS: None}
    for run in runs:
        names |= dict.fromkeys(name for name, _ in run.key.parameters)
    return [
        f"{CAMPAIGN_FILE}: target: no run has a parameter '{name}', so it is ignored; there are"
        f" {', '.join(names)}"
        for name in load_config(path).target
        if name not in names
    ]


def _parse_target(text: object, file: str, key: str) -> dict[str, float]:
    """Parse `p=65536, n=256`, the value of a key; an empty text is no target."""
    if not isinstance(text, str):
        raise CampaignError(f'{file}: {key} must be a string, as in {key} = "p=65536"')
    try:
        values = dict(parse_assignment(item) for item in text.split(",") if text)
    except ValueError as error:
        raise CampaignError(f"{file}: {key}: {error}") from error
    if min(values.values(), default=1.0) <= 0:
        raise CampaignError(f'{file}: {key}: values must be above 0, as in {key} = "p=65536"')
    return values


def _parse_machine(text: object, file: str) -> str:
    if not isinstance(text, str):
        raise CampaignError(f'{file}: machine must be a string, as in machine = "memory=2e9"')
    return text


def _parse_scaling(text: object, file: str) -> str:
    if text not in ("", *SCALINGS):
        raise CampaignError(f"{file}: scaling must be {' or '.join(map(repr, SCALINGS))}")
    return str(text)


def find_dependencies_file(path: str) -> str:
    """The path of the known dependencies of the campaign in directory `path`; "" if there are none.

    `insitu detect` writes the file into the campaign. `dependencies` in [run] of campaign.toml may
    name another file, relative to the campaign's parent directory.

    Raises:
        CampaignError: campaign.toml cannot be read.
    """
    own_file = os.path.join(path, DEPENDENCIES_FILE)
    if os.path.exists(own_file):
        return own_file

    run = load_settings(path).get("run")
    name = run.get("dependencies") if isinstance(run, dict) else None
    if not name:
        return ""
    file = os.path.join(os.path.dirname(os.path.abspath(path)), str(name))
    return file if os.path.exists(file) else ""


def load_settings(path: str) -> dict[str, Any]:
    """The content of campaign.toml in directory `path`; empty if the file does not exist.

    Raises:
        CampaignError: the file cannot be read, or it has an unknown key.
    """
    file = os.path.join(path, CAMPAIGN_FILE)
    try:
        with open(file, "rb") as stream:
            data = tomllib.load(stream)
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CampaignError(f"{file}: not valid TOML: {error}") from error
    except OSError as error:
        raise CampaignError(f"{file}: cannot be read: {error.strerror}") from error

    unknown = sorted(set(data) - set(KEYS))
    if unknown:
        raise CampaignError(f"{file}: unknown key '{unknown[0]}'; valid are {', '.join(KEYS)}")

    return data
