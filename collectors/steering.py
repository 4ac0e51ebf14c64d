"""What the user asks of the function timer, as it travels from `insitu run` to a rank."""

VARIABLE = "INSITU_HOOK"
BUDGET = 0.02  # of a rank's time


class Steering:
    """Which functions are recorded, and what that may cost."""

    __slots__ = ("budget", "depth", "has_builtins", "keeps_recursion", "only", "skip")

    def __init__(
        self,
        *,
        budget: float = BUDGET,
        only: tuple[str, ...] = (),
        skip: tuple[str, ...] = (),
        depth: int = 0,
        keeps_recursion: bool = False,
        has_builtins: bool = False,
    ) -> None:
        self.budget = budget  # a share of time, 0 for any
        self.only = only
        self.skip = skip
        self.depth = depth  # 0 for any
        self.keeps_recursion = keeps_recursion
        self.has_builtins = has_builtins

    def __str__(self) -> str:
        """One line per word, for the environment."""
        lines = [f"budget {self.budget}", f"depth {self.depth}"]
        lines += [f"only {pattern}" for pattern in self.only]
        lines += [f"skip {pattern}" for pattern in self.skip]
        lines += ["recursion"] * self.keeps_recursion + ["builtins"] * self.has_builtins
        return "\n".join(lines)


def read(text: str) -> Steering:
    """What `str` wrote; the defaults where nothing was."""
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
        elif word == "recursion":
            steering.keeps_recursion = True
        elif word == "builtins":
            steering.has_builtins = True
    return steering
