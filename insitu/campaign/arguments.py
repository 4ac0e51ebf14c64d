"""Runs whose programs were started with arguments that differ by more than their parameters.

A setting that somebody changed between runs looks like growth with the number of ranks.
"""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations

from insitu.entities import Finding, RunKey, RunRecord

ARGUMENTS_DIFFER = "arguments-differ"
MAX_LISTED_COORDINATES = 3  # of each command
MAX_LISTED_COMMANDS = 3
MAX_PARAMETERS = 5  # combinations of more are not tried
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
ADVICE = "name what varies, as in --param n=256"

Parameters = tuple[tuple[str, float], ...]
Words = tuple[str, ...]


def find_different_arguments(runs: Sequence[RunRecord]) -> list[Finding]:
    """Report arguments that differ although no parameter does, or between some scales only.

    Arguments that differ with every value of a parameter follow it, as the size of a problem that
    grows with the number of ranks.
    """
    commands: dict[Parameters, dict[Words, str]] = {}
    for run in runs:
        command = run.configuration.get("command")
        if command:
            used = commands.setdefault(run.key.parameters, {})
            used.setdefault(_arguments(command, run.configuration.get("program")), command)

    findings = []
    for parameters, used in commands.items():
        if len(used) > 1:
            coordinate = _coordinate(parameters)
            text = (
                f"runs at {coordinate} were started with different commands,"
                f" `{'`, `'.join(sorted(used.values()))}`: {ADVICE}"
            )
            findings.append(Finding(ARGUMENTS_DIFFER, text, coordinate))
    if findings:
        return findings

    arguments = {parameters: words for parameters, (words,) in commands.items()}
    if _follow_parameters(arguments):
        return []
    return [Finding(ARGUMENTS_DIFFER, _describe(arguments))]


def _arguments(command: str, program: str) -> Words:
    """The arguments of a program, and the variables that its command sets.

    What stands before the program, such as `timeout 60`, `mpiexec -n 4` or another path, starts it
    in another way and is no argument.
    """
    words = split_command(command)
    names = [os.path.basename(word) for word in words]
    start = names.index(program) if program in names else 0
    settings = tuple(word for word in words[:start] if _SETTING.match(word))
    return (*settings, *words[start + 1 :])


def _follow_parameters(arguments: Mapping[Parameters, Words]) -> bool:
    """Whether the arguments are the same everywhere, or have one value per value of a parameter.

    Several parameters may determine them together.
    """
    if len(set(arguments.values())) < 2:
        return True
    names = sorted({name for parameters in arguments for name, _ in parameters})
    if len(names) > MAX_PARAMETERS:
        return True
    return any(
        _correspond(arguments, chosen)
        for count in range(1, len(names) + 1)
        for chosen in combinations(names, count)
    )


def _correspond(arguments: Mapping[Parameters, Words], names: Sequence[str]) -> bool:
    """Whether each combination of values of these parameters has arguments of its own."""
    pairs = set()
    for parameters, words in arguments.items():
        values = dict(parameters)
        pairs.add((tuple(values.get(name) for name in names), words))
    n_values = len({values for values, _ in pairs})
    n_words = len({words for _, words in pairs})
    return n_values == n_words == len(pairs)


def _describe(arguments: Mapping[Parameters, Words]) -> str:
    """Say which coordinates have which of the words that differ."""
    coordinates: dict[str, list[str]] = {}
    for parameters, text in zip(arguments, _differing_words(list(arguments.values())), strict=True):
        coordinates.setdefault(text, []).append(_coordinate(parameters))

    groups = []
    for text, names in list(coordinates.items())[:MAX_LISTED_COMMANDS]:
        more = ", …" if len(names) > MAX_LISTED_COORDINATES else ""
        shown = ", ".join(names[:MAX_LISTED_COORDINATES])
        groups.append(f"{f'`{text}`' if text else 'nothing'} at {shown}{more}")
    more = "; …" if len(coordinates) > MAX_LISTED_COMMANDS else ""
    return (
        f"the arguments of the program differ between runs, {'; '.join(groups)}{more}: what looks"
        f" like growth may be due to them; {ADVICE}"
    )


def _differing_words(arguments: Sequence[Words]) -> Iterator[str]:
    """Yield of each command the words that not all have, each with the option before it."""
    if len({len(words) for words in arguments}) > 1:
        common = set.intersection(*map(set, arguments))
        for words in arguments:
            yield shlex.join(word for word in words if word not in common)
        return

    differing = [
        index for index, words in enumerate(zip(*arguments, strict=True)) if len(set(words)) > 1
    ]
    for words in arguments:
        shown: list[str] = []
        for index in differing:
            option = words[index - 1] if index else ""
            if option.startswith("-") and index - 1 not in differing:
                shown.append(option)
            shown.append(words[index])
        yield shlex.join(shown)


def _coordinate(parameters: Parameters) -> str:
    return str(RunKey(parameters)).removesuffix("#0")


@lru_cache(maxsize=256)  # most runs of a campaign have one command
def split_command(command: str) -> Words:
    """Split a command that was stored as a JSON list or as a shell command line."""
    try:
        value = json.loads(command)
    except ValueError:
        value = None
    if isinstance(value, list):
        return tuple(str(word) for word in value)

    try:
        return tuple(shlex.split(command))
    except ValueError:  # unbalanced quotes
        return tuple(command.split())
