"""The parts of a function's name: its result type, arguments, qualifiers and source file."""

import re
from typing import NamedTuple

SCOPE = "::"
_OPENING, _CLOSING = "<({[", ">)}]"
_QUALIFIER = r"(?: const| volatile| noexcept| ?&&?)"
_QUALIFIERS = re.compile(rf"(?:(?<=\)){_QUALIFIER}+)?(?: \[clone [^]]*\])*\Z")
_QUALIFIED_SCOPE = re.compile(rf"{_QUALIFIER}+::")  # behind the arguments of an enclosing function
_FILE = re.compile(r" \([^()]+\)\Z")
_OPERATOR = re.compile(r"(?<!\w)operator(?!\w)")
_NO_ARGUMENTS = re.compile(r"(?:\A|::| |(?<!\w)operator)\Z")  # what precedes other parentheses


class FunctionName(NamedTuple):
    """The parts of a name. Joined, they are the name; all but `name` may be empty."""

    result: str  # `void `, with which names of templates begin
    name: str  # `sim::run<int>`, `operator()`, `(anonymous namespace)::solve`
    arguments: str  # `(int, double*)`
    qualifiers: str  # ` const`, ` [clone .part.0]`
    file: str  # ` (solver.c)`, which distinguishes functions of one name


def split_function_name(text: str) -> FunctionName:
    """Split the name of a function of any language; of C++ as a demangler writes it."""
    match = _FILE.search(text)
    file = match[0] if match else ""
    rest = text.removesuffix(file)

    match = _QUALIFIERS.search(rest)
    qualifiers = match[0] if match else ""
    rest = rest.removesuffix(qualifiers)

    arguments_start = _find_arguments(rest)
    arguments = rest[arguments_start:]
    name = rest[:arguments_start]

    result_length = _length_of_result(name) if arguments or SCOPE in name else 0
    return FunctionName(name[:result_length], name[result_length:], arguments, qualifiers, file)


def without_arguments(text: str) -> str:
    """`void solve<int>(int) const` becomes `solve<int>`. `init (solver.c)` keeps its file."""
    parts = split_function_name(text)
    return parts.name + parts.file


def _find_arguments(name: str) -> int:
    """Where the list of arguments begins: at the end if there is none."""
    if not name.endswith(")"):
        return len(name)
    depth = 0
    for i in range(len(name) - 1, -1, -1):
        depth += (name[i] == ")") - (name[i] == "(")
        if depth == 0:
            return len(name) if _NO_ARGUMENTS.search(name[:i]) else i
    return len(name)


def _length_of_result(name: str) -> int:
    """The length of the result type, with the space behind it."""
    operator = _OPERATOR.search(name)
    end = operator.start() if operator else len(name)
    depth = length = 0
    for i, character in enumerate(name[:end]):
        depth += (character in _OPENING) - (character in _CLOSING)
        if character == " " and depth == 0 and not _QUALIFIED_SCOPE.match(name, i):
            length = i + 1
    return length if depth == 0 else 0
