"""The user's settings for the function timer, and their form in a rank's environment."""

from fnmatch import fnmatchcase

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from collections.abc import Iterable

VARIABLE = "INSITU_HOOK"
BUDGET = 0.02  # share of a rank's time that the function timer may take


class Steering:
    """Which functions are recorded, and at what cost."""

    __slots__ = ("budget", "depth", "has_builtins", "keeps_recursion", "only", "packages", "skip")

    def __init__(
        self,
        *,
        budget: float = BUDGET,
        only: tuple[str, ...] = (),
        skip: tuple[str, ...] = (),
        packages: tuple[str, ...] = (),
        depth: int = 0,
        keeps_recursion: bool = False,
        has_builtins: bool = False,
    ) -> None:
        """Set the options.

        Args:
            budget: share of time; 0 means no limit.
            only: patterns of functions to record; none means all.
            skip: patterns of functions not to record.
            packages: names of installed packages whose functions are recorded as the program's.
            depth: largest depth of a call path; 0 means no limit.
            keeps_recursion: record each level of a recursion as a call path of its own.
            has_builtins: record built-in functions, too.
        """
        self.budget = budget
        self.only = only
        self.skip = skip
        self.packages = packages
        self.depth = depth
        self.keeps_recursion = keeps_recursion
        self.has_builtins = has_builtins

    def __str__(self) -> str:
        """One setting per line, for the environment."""
        lines = [f"budget {self.budget}", f"depth {self.depth}"]
        lines += [f"only {pattern}" for pattern in self.only]
        lines += [f"skip {pattern}" for pattern in self.skip]
        lines += [f"package {name}" for name in self.packages]
        if self.keeps_recursion:
            lines.append("recursion")
        if self.has_builtins:
            lines.append("builtins")
        return "\n".join(lines)


def matches_any(patterns: "Iterable[str]", name: str, file: str) -> bool:
    """Whether a pattern matches: functions and whole modules by name, or files with a slash.

    The rank itself uses the same rule in native/code.c.
    """
    for pattern in patterns:
        if "/" in pattern:
            if fnmatchcase(file, pattern):
                return True
        elif fnmatchcase(name, pattern) or name.startswith(pattern + "."):
            return True
    return False


def parse_steering(text: str) -> Steering:
    """Parse the result of `str`. Settings that the text does not contain keep their defaults."""
    steering = Steering()
    for line in text.split("\n"):
        word, _, value = line.partition(" ")
        if word == "budget":
            steering.budget = float(value)
        elif word == "depth":
            steering.depth = int(value)
        elif word == "only":
            steering.only += (value,)
        elif word == "skip":
            steering.skip += (value,)
        elif word == "package":
            steering.packages += (value,)
        elif word == "recursion":
            steering.keeps_recursion = True
        elif word == "builtins":
            steering.has_builtins = True
    return steering
