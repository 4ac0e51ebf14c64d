"""Names of functions shortened for display."""

import re
from collections.abc import Sequence

from insitu.entities import ARROW, CallPath
from insitu.function_names import SCOPE, split_function_name, without_arguments
from insitu.text import printable

MAX_UNUSED = 6  # characters of the width that a cut between frames may leave empty
MAX_SHORT = 40  # characters of a short name that still has its arguments
LAMBDA = re.compile(r"\{lambda\(.*?\)(#\d+)\}")  # of C++, with its arguments and its number
ADDRESS = re.compile(r"\+0x[0-9a-f]+$")  # of a function without a name, behind its file
# `package.module.function`, and no name of a file.
PACKAGED = re.compile(r"(?:[A-Za-z_]\w*\.){2,}(?!(?:py|exe|out)$)[A-Za-z_]\w*")
INNER = ".<locals>."  # between a function of Python and one that is defined in it


def short_name(frame: str) -> str:
    """The name of a function for sentences: shortened where it has more than MAX_SHORT characters.

    Arguments are dropped first, then those of templates: `app::Field<double>::sum(int)` becomes
    `app::Field::sum`, but only where it is long. `Grid.read.<locals>.<listcomp>` becomes
    `<listcomp> in Grid.read`.
    """
    outer, inner, name = frame.rpartition(INNER)
    if inner:
        return f"{name} in {outer.partition(INNER)[0]}"
    parts = split_function_name(frame)
    if SCOPE not in parts.name and not parts.arguments:
        return frame

    name = parts.name + parts.file
    for candidate in (frame.removeprefix(parts.result), name):
        if len(candidate) <= MAX_SHORT:
            return candidate
    return _without_templates(name)


def _without_templates(name: str) -> str:
    kept, depth = [], 0
    for character in name:
        depth += (character == "<") - (character == ">")
        if depth == 0 and character != ">":
            kept.append(character)
    return name if depth or not kept else "".join(kept)


def mark_templates(name: str) -> str:
    """`fem::solve<fem::Matrix<double>, int>` becomes `fem::solve<…>`."""
    kept, depth = [], 0
    for i, character in enumerate(name):
        is_list = depth > 0 or name[i - 1 : i].isidentifier() or name[i - 1 : i].isdigit()
        if character == "<" and is_list:
            depth += 1
            kept += ["<…>"] if depth == 1 else []
        elif character == ">" and depth > 0:
            depth -= 1
        elif depth == 0:
            kept.append(character)
    return name if depth else "".join(kept)


def name_with_caller(path: CallPath) -> str:
    """The name of a function; of an MPI call with its caller: `exchange->MPI_Wait`.

    A program calls MPI_Wait in many functions: the name alone says little.
    """
    if path.parent is None or not path.name.startswith(("MPI_", "PMPI_")):
        return path.name
    return f"{short_name(path.parent.name)}{ARROW}{path.name}"


def callers_unlike(path: CallPath, others: Sequence[CallPath], width: int) -> str:
    """The callers of a function in `width` characters, from where other call paths differ.

    Args:
        path: with at least one caller.
        others: call paths that end in the same function, or in one that looks the same.
        width: characters. Where not all callers from the differing one on fit, it and the last one
            are shown: `open_log->…->make_backup`.
    """
    *callers, _ = path.frames
    text = last_frames(ARROW.join(callers), width)
    alike = max((_count_alike(callers, other.frames[:-1]) for other in others), default=0)
    if alike == 0 or alike == len(callers):
        return text
    differing = callers[-alike - 1 :]
    n_whole = text.count(ARROW) + (not text.startswith("…"))
    if n_whole > alike:
        return text
    first, last = differing[0], differing[-1]
    between = f"{ARROW}…" if len(differing) > 2 else ""
    room = (width - len(between) - len(ARROW)) // 2
    return f"{fitted_name(first, room)}{between}{ARROW}{fitted_name(last, room)}"


def _count_alike(frames: Sequence[str], others: Sequence[str]) -> int:
    """How many of the last frames are the same."""
    alike = 0
    for one, other in zip(reversed(frames), reversed(others), strict=False):
        if one != other:
            break
        alike += 1
    return alike


def fitted_name(frame: str, width: int) -> str:
    """A short name in `width` characters: without what is around it, else with an ellipsis.

    Lambdas keep the function around them: their own names are numbers. Functions without a name,
    `libsolver.so+0x1a2b0`, keep their address.
    """
    name = printable(short_name(frame))
    inner, within, _ = name.partition(" in ")
    if len(name) > width and within and not inner.startswith("<"):
        name = inner
    if len(name) > width:
        name = _without_templates(without_arguments(LAMBDA.sub(r"{lambda\1}", name)))
    if PACKAGED.fullmatch(name):
        *outer, last = name.split(".")
        n_kept = int(last.startswith("__"))  # `__call__` alone would not say of which class
        while len(".".join((*outer, last))) > width and len(outer) > n_kept:
            outer = outer[1:]
        name = ".".join((*outer, last))
    while len(name) > width and SCOPE in name.partition(f"{SCOPE}{{lambda")[0]:
        name = name.partition(SCOPE)[2]
    if len(name) <= width:
        return name
    address = ADDRESS.search(name)
    kept = min(len(address[0]), width - 2) if address else width - 1 - (width - 1) // 2
    return f"{name[: width - 1 - kept]}…{name[-kept:]}"


def last_frames(callpath: str, width: int) -> str:
    """Shorten a call path to `width` characters: an ellipsis, then its last frames.

    Argument lists are dropped first, then those of templates. The cut is between frames where that
    leaves little of the width unused, else within a frame.
    """
    if len(printable(callpath)) <= width:
        return printable(callpath)
    for shorten in (without_arguments, mark_templates):
        callpath = printable(ARROW.join(map(shorten, callpath.split(ARROW))))
        if len(callpath) <= width:
            return callpath

    tail = callpath[-(width - 1) :].removeprefix(ARROW[1:]) if width > 1 else ""
    # From the second character on: an arrow at the very start would cut off nothing.
    _, arrow, frames = tail[1:].partition(ARROW)
    at_frame = f"…{ARROW}{frames}"
    has_little_unused = len(at_frame) >= width - MAX_UNUSED
    return at_frame if arrow and has_little_unused else f"…{tail}"
