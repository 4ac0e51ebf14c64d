"""Short names of C++ functions, as a person would write them."""

import re

from insitu.function_names import split_function_name

FORMS = 3  # of a name: without arguments, with them, as the compiler wrote it
# Arguments of templates that are what they are by default, where they come last.
DEFAULTS = re.compile(
    r"std::(allocator|char_traits|less|default_delete|hash|equal_to)<|std::ratio<1l, 1l>"
)
VERSIONS = re.compile(r"\bstd::(__cxx11|__1)::")  # namespaces of the ABI
OPERATOR = re.compile(r"(?<!\w)operator(?!\w)")
# Of a lambda, which has no other function: by GCC, and by Clang.
CALL = re.compile(r"(?<=\})::operator\(\)\Z|(?<=\$_)(\d+)::operator\(\)\Z")
# Functions that do nothing but call another: the start of a thread, and what std::function calls,
# where the other one is among the arguments of the template; a lambda as a plain function.
THREAD = re.compile(r"std::thread::_State_impl<std::thread::_Invoker<std::tuple<(.*)>>>::_M_run\b")
HANDLER = re.compile(r"std::_Function_handler<(.*)>::_M_invoke\b")
PLAIN_LAMBDA = re.compile(r"(.*\{lambda\(.*\})::_FUN\b")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
OPENING, CLOSING = "<({[", ">)}]"


def short_forms(full: str) -> tuple[str, str, str]:
    """The forms of a demangled name, the shortest first.

    `void sim::run<std::vector<double, std::allocator<double> > >(int)` becomes
    `sim::run<std::vector<double>>`, `sim::run<std::vector<double>>(int)`, and itself.
    """
    parts = split_function_name(full)
    name = _without_enclosing_arguments(parts.name)
    name = CALL.sub(lambda match: match[1] or "", name)
    try:
        short = _abbreviate(name)
        long = short + _abbreviate(parts.arguments) + parts.qualifiers
    except ValueError:
        return full, full, full  # its brackets are no pairs, as in operator<
    return short, long, full


def identifiers(short: str) -> list[str]:
    """The identifiers of a name and of its scopes, without arguments of templates."""
    plain, depth = [], 0
    for character in short:
        depth += (character in OPENING) - (character in CLOSING)
        if depth == 0:
            plain.append(character)
    return [word for word in IDENTIFIER.findall("".join(plain)) if word != "operator"]


def called_function(name: str) -> str | None:
    """What a function made by the compiler does nothing but call, by its short name.

    None for other functions, "" for a call through a pointer.
    """
    thread, handler, plain = THREAD.match(name), HANDLER.match(name), PLAIN_LAMBDA.match(name)
    if plain:
        return plain[1]
    if not thread and not handler:
        return None
    function = _items(thread[1])[0] if thread else _items(handler[1])[-1] if handler else ""
    return function if "{lambda" in function or "$_" in function else ""


def _items(text: str) -> list[str]:
    """The items of a list that is separated by commas, without those in brackets."""
    items, depth = [""], 0
    for character in text:
        depth += (character in OPENING) - (character in CLOSING)
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
    return [item.strip() for item in items]


def _without_enclosing_arguments(name: str) -> str:
    """A name whose enclosing functions have no arguments: `step(int) const::{lambda()#1}`."""
    kept, start, depth, opened = [], 0, 0, 0
    for i, character in enumerate(name):
        depth += (character in OPENING) - (character in CLOSING)
        if character == "(" and depth == 1:
            opened = i
        elif character == ")" and depth == 0:
            rest = name[i + 1 :].removeprefix(" const")
            is_part = opened == 0 or name[:opened].endswith(("operator", "::", " "))
            if rest.startswith("::") and not is_part:
                kept.append(name[start:opened])
                start = len(name) - len(rest)
    return "".join((*kept, name[start:]))


def _abbreviate(text: str) -> str:
    """A name or a list of types, without default arguments of templates.

    Raises:
        ValueError: its brackets are no pairs.
    """
    operator = OPERATOR.search(text)
    head, tail = (text[: operator.start()], text[operator.start() :]) if operator else (text, "")
    short, _ = _abbreviate_until(VERSIONS.sub("std::", head), 0, "")
    return short.replace("std::basic_string<char>", "std::string") + tail


def _abbreviate_until(text: str, at: int, closing: str) -> tuple[str, int]:
    """What precedes a closing bracket, abbreviated, and the index of that bracket."""
    items, item = [], ""
    while at < len(text) and text[at] != closing:
        character = text[at]
        if character in OPENING:
            pair = CLOSING[OPENING.index(character)]
            inside, at = _abbreviate_until(text, at + 1, pair)
            item += character + inside + pair
        elif character in CLOSING:
            raise ValueError(text)
        elif character == "," and closing:
            items.append(_without_enclosing_arguments(item.strip()))
            item = ""
        else:
            item += character
        at += 1
    if closing and at == len(text):
        raise ValueError(text)

    items.append(_without_enclosing_arguments(item.strip()) if closing else item)
    while closing == ">" and len(items) > 1 and DEFAULTS.match(items[-1]):
        items.pop()
    return ", ".join(items), at
