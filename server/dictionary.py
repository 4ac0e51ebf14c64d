"""The call paths of a run, as the dictionaries of its nodes name them."""

from dataclasses import dataclass, field

import numpy as np

from insitu.entities import ARROW, CallPath
from insitu.errors import WireError
from insitu.modeling.measurement import IntArray
from insitu.wire.digest import EMPTY_DIGEST, extend_digest
from insitu.wire.messages import ROWS_PER_PATHS, Paths

MAX_FRAMES = 8_000_000  # of all call paths of a run; a chain of recursion costs its square


class CallPaths:
    """The call paths of all nodes of a run, each at one place, in the order in which they came.

    `prefixes` has the digest of every beginning of every dictionary that came with its names: who
    begins alike need not send them.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.all: list[CallPath] = []
        self.parents: list[int] = []  # the place of each one's parent; a root is its own
        self.prefixes: dict[bytes, tuple[Dictionary, int]] = {}
        self._children: dict[tuple[int, str], int] = {}
        self._places: dict[CallPath, int] = {}
        self._frames = 0

    def place(self, parent: int, name: str) -> int:
        """The place of a frame below the call path at `parent`; -1 is above the root.

        Raises:
            WireError: the call paths of the run are too many or too deep.
        """
        found = self._children.get((parent, name))
        if found is None:
            frame = name.replace(ARROW, "→")
            callpath = CallPath((*(self.all[parent].frames if parent >= 0 else ()), frame))
            found = self._places.setdefault(callpath, len(self.all))
            if found == len(self.all):
                self._frames += len(callpath.frames)
                if self._frames > MAX_FRAMES:
                    raise WireError(f"more than {MAX_FRAMES} frames in the call paths of a run")
                self.parents.append(parent if parent >= 0 else found)
                self.all.append(callpath)
            self._children[parent, name] = found
        return found


@dataclass(slots=True)
class Dictionary:
    """The call paths of one node, by row; append-only.

    Its lists are shared with nodes whose call paths are the same: they are replaced, not changed.
    """

    callpaths: CallPaths
    places: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    parents: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    digest: bytes = EMPTY_DIGEST

    def __len__(self) -> int:
        """The number of rows that are known."""
        return len(self.names)

    def extend(self, paths: Paths) -> None:
        """Take the rows that are not known yet; rows behind a gap are left for the next time.

        Raises:
            WireError: a row names a parent that is not before it.
        """
        if paths.first > len(self):
            return
        parents = np.frombuffer(paths.parents, "<u4").tolist()
        lines = np.frombuffer(paths.lines, "<u4").tolist()
        places = self.places.tolist()
        for i in range(len(self) - paths.first, len(parents)):
            row, parent = len(places), parents[i]
            if parent > row:
                raise WireError(f"row {row} of the dictionary names row {parent} as its parent")
            above = -1 if parent == row else places[parent]
            places.append(self.callpaths.place(above, paths.names[i]))
            name, file = paths.names[i], paths.files[i]
            self.digest = extend_digest(self.digest, parent, name, file, lines[i])
            self.callpaths.prefixes.setdefault(self.digest, (self, row + 1))
        new = len(places) - len(self)
        if new:
            self.places = np.array(places, dtype=np.intp)
            self.parents = [*self.parents, *parents[-new:]]
            self.names = [*self.names, *paths.names[-new:]]
            self.files = [*self.files, *paths.files[-new:]]
            self.lines = [*self.lines, *lines[-new:]]

    def adopt(self, rows: int, digest: bytes) -> None:
        """Take the rows that another node of the run has sent; none where the digest is unknown."""
        source, known = self.callpaths.prefixes.get(digest, (self, 0))
        if known != rows or rows <= len(self):
            return
        is_all = rows == len(source)
        self.places = source.places if is_all else source.places[:rows]
        self.parents = source.parents if is_all else source.parents[:rows]
        self.names = source.names if is_all else source.names[:rows]
        self.files = source.files if is_all else source.files[:rows]
        self.lines = source.lines if is_all else source.lines[:rows]
        self.digest = digest

    def to_paths(self) -> list[Paths]:
        """All rows, in messages that fit into frames."""
        return [
            self._part(first, min(first + ROWS_PER_PATHS, len(self)))
            for first in range(0, len(self), ROWS_PER_PATHS)
        ]

    def _part(self, first: int, end: int) -> Paths:
        return Paths(
            first,
            np.asarray(self.parents[first:end], "<u4").tobytes(),
            tuple(self.names[first:end]),
            tuple(self.files[first:end]),
            np.asarray(self.lines[first:end], "<u4").tobytes(),
        )
