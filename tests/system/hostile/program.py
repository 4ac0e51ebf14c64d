"""What a hostile program is, and how it is started.

In the words of a command, `{python}` is the interpreter, `{script}` the file in `programs/`,
`{program}` the compiled program, `{build}` its folder, `{folder}` the empty folder of the run,
`{programs}` the folder of the files, `{repository}` that of insitu, `{cache}` that of optional
packages, and `{pyenv}/3.6` an interpreter of pyenv.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Program:
    """A program, and what has to be there for it.

    Attributes:
        name: of the entry in the table.
        file: in `programs/`; a `.c`, `.cc` or `.f90` file is compiled.
        words: the command (default: the interpreter and the script, or the program).
        flags: of the compiler.
        ranks: that mpiexec starts; 0 starts the program without mpiexec.
        packages: modules that the interpreter must have.
        tools: commands or files that must exist.
        environment: more variables.
        counts: calls of functions in rank 0, by name.
        differs: a regular expression of lines that differ between any two runs.
        are_ranks_equal: which rank makes a call is chance, so only sums over ranks are compared.
        mpis: the MPI libraries with which it runs.
        is_fast: part of the plain tests, with one MPI and one Python.
        has_witness: compare signals, limits, environment and descriptors as well.
        seconds: after which it counts as a hang.
        options: of `insitu run`.
    """

    name: str
    file: str = ""
    words: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    ranks: int = 2
    packages: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    differs: str = ""
    are_ranks_equal: bool = False
    mpis: tuple[str, ...] = ("mpich", "openmpi")
    is_fast: bool = False
    has_witness: bool = True
    seconds: float = 90
    options: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()  # the only Pythons with which it runs

    @property
    def is_python(self) -> bool:
        """Whether the interpreter matters."""
        return not self.file.endswith((".c", ".cc", ".f90"))


SHELL = ("sh", "-c")
