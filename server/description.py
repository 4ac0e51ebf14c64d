"""Read a run's parameters and configuration from the Hello messages of its agents."""

import json
import math
import shlex
from collections.abc import Iterable, Sequence

from insitu.campaign.node_facts import NODES
from insitu.entities import RANKS, Configuration
from insitu.errors import WireError
from insitu.server.file_kinds import without_files
from insitu.wire.messages import Bye, Hello

MAX_NODES = 4096  # whose facts are stored with a run


def parameters_of(hello: Hello) -> dict[str, float]:
    """The parameters of the run, without the number of ranks, which is `Hello.size`.

    Raises:
        WireError: the configuration is not a JSON object whose parameters are numbers.
    """
    parameters = _parse_configuration(hello).get("parameters", {})
    if not isinstance(parameters, dict):
        raise WireError("the parameters in Hello.configuration are not a JSON object")
    return {
        name: _finite_number(name, value) for name, value in parameters.items() if name != RANKS
    }


def configuration_of(sessions: Iterable[tuple[Hello, Bye | None]]) -> Configuration:
    """The configuration of the run, without its parameters.

    Values that differ between nodes are listed, separated by commas. The value `cost` is the
    measurement overhead: one JSON object per node, as its agent reports it in Bye. `threads` is the
    number of threads of a rank that used processors, as far as that is known.
    """
    values: dict[str, dict[str, None]] = {}  # texts by name, in the order of arrival
    listed = list(sessions)
    for hello, bye in listed:
        for name, value in _parse_configuration(hello).items():
            if name not in ("parameters", "node"):
                values.setdefault(name, {})[_as_text(value)] = None
        if bye is not None:
            values.setdefault("cost", {})[f"{hello.node} {without_files(bye.cost)}"] = None
            threads = _busy_threads(bye)
            if threads:
                values.setdefault("threads", {})[str(threads)] = None

    joined = {name: ", ".join(texts) for name, texts in values.items()}
    return Configuration.of(joined | {NODES: _nodes_text([hello for hello, _ in listed])})


def add_cost(configuration: Configuration, **values: object) -> Configuration:
    """The configuration with what concerns all nodes, as another JSON object of `cost`."""
    known = dict(configuration.values)
    texts = [known["cost"]] if "cost" in known else []
    return Configuration.of(known | {"cost": ", ".join([*texts, f"run {json.dumps(values)}"])})


def _nodes_text(hellos: Sequence[Hello]) -> str:
    """The nodes with their ranks and facts, as `insitu.campaign.node_facts` reads them."""
    nodes = []
    for hello in hellos[:MAX_NODES]:
        configuration = _parse_configuration(hello)
        facts = configuration.get("node")
        # The name of a node in messages differs between runs, so that containers have their own.
        name = configuration.get("host") or hello.node
        entry: dict[str, object] = {"name": name, "ranks": list(hello.ranks)}
        nodes.append(entry | (facts if isinstance(facts, dict) else {}))
    return json.dumps(nodes)


def _busy_threads(bye: Bye) -> int:
    """The largest number of busy threads of a rank of the node; 0 if it is not known."""
    try:
        cost = json.loads(bye.cost)
    except (ValueError, RecursionError):
        return 0
    threads = cost.get("threads") if isinstance(cost, dict) else None
    return threads if isinstance(threads, int) and threads > 0 else 0


def _parse_configuration(hello: Hello) -> dict[str, object]:
    try:
        configuration = json.loads(hello.configuration or "{}")
    except (ValueError, RecursionError) as error:
        raise WireError(f"Hello.configuration is not JSON: {error}") from error
    if not isinstance(configuration, dict):
        raise WireError("Hello.configuration is not a JSON object")
    return configuration


def _finite_number(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise WireError(f"parameter {name!r:.40} in Hello.configuration is not a finite number")


def _as_text(value: object) -> str:
    if isinstance(value, list):
        return shlex.join(str(word) for word in value)
    return value if isinstance(value, str) else json.dumps(value)
