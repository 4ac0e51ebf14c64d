"""What agents say a run is: its parameters, and all else that was set."""

import json
import math
import shlex
from collections.abc import Iterable

from insitu.entities import RANKS, Configuration
from insitu.errors import WireError
from insitu.wire.messages import Bye, Hello


def parameters_of(hello: Hello) -> dict[str, float]:
    """The parameters that were set for the run; the number of ranks is known otherwise.

    Raises:
        WireError: its configuration is not a JSON object whose parameters are numbers.
    """
    parameters = _described(hello).get("parameters", {})
    if not isinstance(parameters, dict):
        raise WireError("the parameters in Hello.configuration are no JSON object")
    return {name: _number(name, value) for name, value in parameters.items() if name != RANKS}


def configuration_of(said: Iterable[tuple[Hello, Bye | None]]) -> Configuration:
    """What was set besides the parameters; values that differ between nodes are listed.

    `cost` is what measuring cost, one JSON object of its agent per node.
    """
    values: dict[str, dict[str, None]] = {}
    for hello, bye in said:
        for name, value in _described(hello).items():
            if name != "parameters":
                values.setdefault(name, {})[_text(value)] = None
        if bye is not None:
            values.setdefault("cost", {})[f"{hello.node} {bye.cost}"] = None
    return Configuration.of({name: ", ".join(texts) for name, texts in values.items()})


def _described(hello: Hello) -> dict[str, object]:
    try:
        described = json.loads(hello.configuration or "{}")
    except (ValueError, RecursionError) as error:
        raise WireError(f"Hello.configuration is no JSON: {error}") from error
    if not isinstance(described, dict):
        raise WireError("Hello.configuration is no JSON object")
    return described


def _number(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise WireError(f"parameter {name!r:.40} in Hello.configuration is no finite number")


def _text(value: object) -> str:
    if isinstance(value, list):
        return shlex.join(str(part) for part in value)
    return value if isinstance(value, str) else json.dumps(value)
