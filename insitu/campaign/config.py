"""campaign.toml: what the user says about a campaign.

    name = "Heat on a plate"      # the directory's name where it is not said

    [parameters]                  # units of parameters, for people
    n = "cells"

    [classes]                     # see classes.py
    way = "paper"

    [levels] and [run]            # the runs that `insitu campaign` makes

The file is optional, and so is everything in it.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from insitu.campaign.classes import class_settings
from insitu.errors import CampaignError
from insitu.modeling.classes.rules import ClassSettings

FILE = "campaign.toml"
DEPENDENCIES = "dependencies.json"
KEYS = ("name", "parameters", "classes", "levels", "run")


@dataclass(frozen=True, slots=True)
class Config:
    """A campaign as people call it; `units` by name of the parameter."""

    name: str
    units: Mapping[str, str] = field(default_factory=dict)
    classes: ClassSettings = field(default_factory=ClassSettings)

    def axis(self, parameter: str) -> str:
        """A parameter for people: `n [cells]`."""
        unit = self.units.get(parameter, "")
        return f"{parameter} [{unit}]" if unit else parameter


def load_config(path: str) -> Config:
    """Read campaign.toml of the campaign in directory `path`.

    Raises:
        CampaignError: it cannot be read, or says something that has no meaning.
    """
    file = os.path.join(path, FILE)
    default = os.path.basename(os.path.abspath(path)).removesuffix(".insitu")
    data = load_settings(path)
    name, units = data.get("name", default), data.get("parameters", {})
    if not isinstance(name, str):
        raise CampaignError(f'{file}: name is not a text, as in name = "heat"')
    if not isinstance(units, dict) or not all(isinstance(unit, str) for unit in units.values()):
        raise CampaignError(f'{file}: [parameters] holds a unit per name, as in n = "cells"')
    return Config(name, units, class_settings(data.get("classes", {}), file))


def find_dependencies_file(path: str) -> str:
    """What `insitu detect` found of the program of the campaign in directory `path`; "" for none.

    It lies in the campaign, or where [run] says it, seen from beside the campaign.

    Raises:
        CampaignError: campaign.toml cannot be read.
    """
    own = os.path.join(path, DEPENDENCIES)
    if os.path.exists(own):
        return own
    run = load_settings(path).get("run")
    said = run.get("dependencies") if isinstance(run, dict) else None
    other = os.path.join(os.path.dirname(os.path.abspath(path)), str(said or ""))
    return other if said and os.path.exists(other) else ""


def load_settings(path: str) -> dict[str, Any]:
    """What campaign.toml of the campaign in directory `path` holds; empty where there is none.

    Raises:
        CampaignError: it cannot be read, or has a key that has no meaning.
    """
    file = os.path.join(path, FILE)
    try:
        with open(file, "rb") as stream:
            data = tomllib.load(stream)
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CampaignError(f"{file}: not TOML: {error}") from error
    except OSError as error:
        raise CampaignError(f"{file}: cannot be read: {error.strerror}") from error
    unknown = sorted(set(data) - set(KEYS))
    if unknown:
        raise CampaignError(f"{file}: unknown key '{unknown[0]}'; there are {', '.join(KEYS)}")
    return data
