"""The call paths of a run, and the dictionaries in which its nodes number them."""

from dataclasses import dataclass, field

import numpy as np

from insitu.entities import ARROW, CallPath
from insitu.errors import WireError
from insitu.modeling.measurement import IntArray
from insitu.wire.digest import EMPTY_DIGEST, extend_digest
from insitu.wire.messages import ROWS_PER_PATHS, Paths

MAX_FRAMES = 8_000_000  # in all call paths of a run; a chain of recursion needs depth²/2 of them


class CallPaths:
    """The call paths of all nodes of a run, numbered by path ids in the order of arrival.

    `prefixes` has the digest of every prefix of every dictionary that was sent with its names: a
    node whose dictionary begins with the same rows does not need to send them.
    """

    def __init__(self) -> None:
        """Create an empty collection."""
        self.all: list[CallPath] = []
        self.parents: list[int] = []  # the path id of each parent; a root is its own parent
        self.prefixes: dict[bytes, tuple[Dictionary, int]] = {}
        self._children: dict[tuple[int, str], int] = {}
        self._ids: dict[CallPath, int] = {}
        self._frames = 0

    def path_id(self, parent: int, name: str) -> int:
        """The path id of a frame below the call path `parent`, or of a root where that is -1.

        Raises:
            WireError: the run has too many call paths, or they are too deep.
        """
        path_id = self._children.get((parent, name))
        if path_id is not None:
            return path_id

        frame = name.replace(ARROW, "→")  # an arrow separates frames where call paths are written
        frames_above = self.all[parent].frames if parent >= 0 else ()
        callpath = CallPath((*frames_above, frame))
        path_id = self._ids.setdefault(callpath, len(self.all))

        if path_id == len(self.all):
            self._frames += len(callpath.frames)
            if self._frames > MAX_FRAMES:
                raise WireError(f"the call paths of a run have more than {MAX_FRAMES} frames")
            self.parents.append(parent if parent >= 0 else path_id)
            self.all.append(callpath)

        self._children[parent, name] = path_id
        return path_id


@dataclass(slots=True)
class Dictionary:
    """The call paths of one node, by row; rows are only appended.

    Nodes with the same call paths share these lists, so they are replaced, never changed in place.
    """

    callpaths: CallPaths
    path_ids: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    parents: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    digest: bytes = EMPTY_DIGEST

    def __len__(self) -> int:
        """The number of known rows."""
        return len(self.names)

    def extend(self, paths: Paths) -> None:
        """Append the rows that are new. Rows after a gap are ignored: the agent sends them again.

        Raises:
            WireError: a row names a parent that does not precede it.
        """
        if paths.first > len(self):
            return

        parents = np.frombuffer(paths.parents, "<u4").tolist()
        lines = np.frombuffer(paths.lines, "<u4").tolist()
        path_ids = self.path_ids.tolist()

        for i in range(len(self) - paths.first, len(parents)):
            row, parent = len(path_ids), parents[i]
            name, file = paths.names[i], paths.files[i]
            if parent > row:
                raise WireError(f"row {row} of the dictionary names row {parent} as its parent")

            above = -1 if parent == row else path_ids[parent]
            path_ids.append(self.callpaths.path_id(above, name))
            self.digest = extend_digest(self.digest, parent, name, file, lines[i])
            self.callpaths.prefixes.setdefault(self.digest, (self, row + 1))

        new = len(path_ids) - len(self)
        if new:
            self.path_ids = np.array(path_ids, dtype=np.intp)
            self.parents = [*self.parents, *parents[-new:]]
            self.names = [*self.names, *paths.names[-new:]]
            self.files = [*self.files, *paths.files[-new:]]
            self.lines = [*self.lines, *lines[-new:]]

    def adopt(self, rows: int, digest: bytes) -> None:
        """Take the rows with this digest from another node; nothing if the digest is unknown."""
        source, known_rows = self.callpaths.prefixes.get(digest, (self, 0))
        if known_rows != rows or rows <= len(self):
            return

        is_all = rows == len(source)
        self.path_ids = source.path_ids if is_all else source.path_ids[:rows]
        self.parents = source.parents if is_all else source.parents[:rows]
        self.names = source.names if is_all else source.names[:rows]
        self.files = source.files if is_all else source.files[:rows]
        self.lines = source.lines if is_all else source.lines[:rows]
        self.digest = digest

    def to_paths(self) -> list[Paths]:
        """All rows, in messages that fit into frames."""
        return [
            self._rows(first, min(first + ROWS_PER_PATHS, len(self)))
            for first in range(0, len(self), ROWS_PER_PATHS)
        ]

    def _rows(self, first: int, end: int) -> Paths:
        return Paths(
            first=first,
            parents=np.asarray(self.parents[first:end], "<u4").tobytes(),
            names=tuple(self.names[first:end]),
            files=tuple(self.files[first:end]),
            lines=np.asarray(self.lines[first:end], "<u4").tobytes(),
        )
