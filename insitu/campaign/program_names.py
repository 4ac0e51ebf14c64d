"""Programs that are built for each number of ranks, and have that number in their name.

NPB's `cg.S.4` and `cg.S.8` are one program. Its call paths begin with the name without the number.
What a number in a name means is known from the run: `test_4` on 8 ranks has it for another reason.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from insitu.campaign.arguments import split_command
from insitu.entities import CallPath, Configuration, RunRecord

_INTERPRETER = re.compile(r"python[0-9.]*\Z")
_COUNT = re.compile(
    r"(?P<stem>.*?[^._-])(?:[._-]+(?:np|nprocs?|procs?|ranks?|tasks?|p|n)?[._-]?)?"
    r"0*(?P<count>[1-9][0-9]*)(?P<suffix>\.[A-Za-z]\w*)?\Z",
    re.IGNORECASE,
)


def application(configuration: Configuration) -> str:
    """The name of the measured program without its arguments; empty if it is unknown.

    The name that the ranks report comes first, since a launcher may start any program. Otherwise
    it is read from the command: `python -m pkg` gives `pkg`, `python3 app/heat.py --cells 4` gives
    `heat.py`.
    """
    if configuration.get("program"):
        return configuration["program"]

    words = split_command(configuration.get("command"))
    if words and _INTERPRETER.match(os.path.basename(words[0])):
        words = words[1:]
    if not words:
        return ""
    if words[0] in ("-m", "-c") and len(words) > 1:
        return words[1]
    return os.path.basename(words[0])


def without_rank_count(name: str, size: int) -> str:
    """The name of a program without the number of its ranks at the end; the same if it has none."""
    match = _COUNT.match(name)
    if match is None or int(match["count"]) != size:
        return name
    return match["stem"] + (match["suffix"] or "")


def usual_program(runs: Sequence[RunRecord]) -> str:
    """The program that most runs measured, "" if none is known.

    It is a name without the number of ranks where more runs have that in common than any name.
    """
    names = Counter[str]()
    stems = Counter[str]()
    for run in runs:
        name = application(run.configuration)
        if name:
            names[name] += 1
            stems[without_rank_count(name, run.key.size)] += 1

    ((name, count),) = names.most_common(1) or [("", 0)]
    ((stem, stem_count),) = stems.most_common(1) or [("", 0)]
    return stem if stem_count > count else name


def measures(run: RunRecord, program: str) -> bool:
    """Whether a run measured this program, as `usual_program` names it, or an unknown one."""
    name = application(run.configuration)
    return name in ("", program) or without_rank_count(name, run.key.size) == program


def begin_with(program: str, path: CallPath, name: str) -> CallPath:
    """The call path with another name of the program that it begins with; others are as before."""
    return CallPath((program, *path.frames[1:])) if path.frames[:1] == (name,) else path


def sites_of_usual_program(
    sites: Mapping[CallPath, tuple[str, int]], runs: Sequence[RunRecord]
) -> dict[CallPath, tuple[str, int]]:
    """Where functions are defined, also by the call paths that `load_experiment` returns."""
    program = usual_program(runs)
    names = {application(run.configuration) for run in runs if measures(run, program)}
    names -= {"", program}
    renamed = dict(sites)
    for path, site in sites.items():
        if path.frames and path.frames[0] in names:
            renamed.setdefault(begin_with(program, path, path.frames[0]), site)
    return renamed
