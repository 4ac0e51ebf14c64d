"""The function timer in Python, for machines without a compiler.

It records the same call paths as the native hook, but no MPI calls, and costs ten times as much.
The tests of the native hook compare the two.
"""

import gc
import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from opcode import opmap
from types import CodeType, FrameType
from typing import NoReturn

from insitu.collectors import table, table_header
from insitu.collectors.rank import RankInfo
from insitu.collectors.steering import Steering, matches_any

ROWS = 16_384
ROW_BYTES = 64
NAMES_BYTES = 2 << 20
META_BYTES = 64 << 10
COLUMNS = b"visits 1 all 32;time s all 40;time_exclusive s all 48;library_calls 1 library 56;"
VISITS, TIME, TIME_EXCLUSIVE, LIBRARY_CALLS = 4, 5, 6, 7  # the same offsets in words of 8 bytes
RESUME = opmap["RESUME"]
RETURNS = [opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in opmap]
GENERATOR = 0x20 | 0x80 | 0x200  # co_flags of generators, coroutines, asynchronous generators

# Items of an open frame: its row, its start, the time of its callees, whether it adds no inclusive
# time (a direct recursion), and the number of open calls inside it that are not recorded.
ROW, START, CALLEES, FOLDED, SKIPPED = range(5)


class _Stack:
    """The open calls of one thread."""

    def __init__(self, root: int, now: int) -> None:
        # A list is faster than an object with fields. See ROW and the following constants.
        self.frames: list[list[int]] = [[root, now, 0, 0, 0]]
        self.codes: list[object] = [None]  # the code of each frame; the name for a region


class PythonTimer:
    """Fills a table through sys.setprofile.

    A RecursionError of the program ends the measurement: Python removes the profile function.

    Raises:
        OSError: the table cannot be created.
    """

    wakes_agent = False

    def __init__(
        self,
        path: str,
        info: RankInfo,
        program: str,
        meta: str,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.clock = clock
        self.children: dict[tuple[int, object], int] = {}  # rows by parent, code or name
        self.kinds: list[int] = []  # of the rows
        self.parents: list[int] = []  # of the rows
        self.codes: dict[int, object] = {}  # code of the rows
        self.open_frames: list[int] = []  # of the rows
        self.levels: list[int] = []  # depth of the rows in the call tree
        self.starts: dict[CodeType, int] = {}  # offset of the first instruction of generators
        self.ignored: dict[CodeType, bool] = {}

        # Prefixes of files.
        self.library: tuple[str, ...] = ()
        self.user: tuple[str, ...] = ()
        self.insitu: tuple[str, ...] = ()

        self.steering = Steering()
        self.iterations = self.iteration_limit = 0
        self.lock = threading.Lock()
        self.local = threading.local()
        self.names_used = table.NAMES_START

        self._make_file(path + ".new", info, meta.encode())
        self._add_row(0, table.PROGRAM, program, "", 0)
        self._count(0, 1, 0, 0)
        os.rename(path + ".new", path)  # readers never see an incomplete table

        self.main = _Stack(0, clock())
        self.open_frames[0] += 1
        self.local.stack = self.main
        self.pid = os.getpid()
        self.program: CodeType | None = None  # the code of __main__
        self.uncaught: Callable[[BaseException], None] | None = None

    def start(
        self,
        prefixes: tuple[str, str, str],
        steering: Steering,
        uncaught: Callable[[BaseException], None],
    ) -> None:
        """Install the profile function in this thread and in later ones.

        The arguments are those of `NativeTimer.start`. The budget has no effect, and built-in
        functions are not recorded.
        """
        self.library, self.user, self.insitu = (
            tuple(filter(None, text.split("\n"))) for text in prefixes
        )
        self.steering = steering
        self.uncaught = uncaught
        call_when_uncaught(uncaught)
        if sys.version_info < (3, 12):
            sys.exit = _exit
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)

    def end(self, status: int, is_aborted: bool = False) -> None:
        """Close the open frames and mark the table as ended, or as ended by MPI_Abort."""
        if os.getpid() != self.pid:
            return

        sys.setprofile(None)
        now = self.clock()
        while self.main.frames:
            self._pop(self.main, now)

        fields: dict[str, str] = {}
        try:
            with open("/proc/self/status", encoding="ascii", errors="replace") as file:
                fields = dict(line.split(":", 1) for line in file if ":" in line)
        except OSError as error:  # a sandbox; the program must not see it
            self._set("unread", 1)  # memory at the end
            self._set("unread_error", error.errno or 0)
        for field, name in (("memory_rss", "VmRSS"), ("memory_rss_peak", "VmHWM")):
            self._set(field, int(fields.get(name, "0").split()[0]) * 1024)
        self._set("cpu_ns", time.process_time_ns())
        self._set("exit_status", status)
        self._set("ended_ns", time.time_ns())
        self._set("state", table.ABORTED if is_aborted else table.ENDED)

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        """Handle a call or a return; the interpreter calls this."""
        if event == "call":
            stack = getattr(self.local, "stack", None) or self._thread_stack()
            self.enter(stack, frame)
        elif event == "return":
            if frame.f_code is self.program:
                self._report_exit(frame)
            stack = getattr(self.local, "stack", None)
            if stack is not None:
                self.leave(stack, frame.f_code)

    def _report_exit(self, frame: FrameType) -> None:
        """Report a SystemExit that ends the program; no excepthook is called for it."""
        if frame.f_code.co_code[frame.f_lasti] in RETURNS or self.uncaught is None:
            return
        errors = [item for item in gc.get_objects() if issubclass(type(item), SystemExit)]
        for error in sorted(errors, key=lambda error: not _leaves(error, frame)):
            trace = error.__traceback__
            if trace is None or trace.tb_frame is frame:
                self.uncaught(error)
                return

    def enter(self, stack: _Stack, frame: FrameType) -> None:
        """Record that a function starts or a generator resumes."""
        now = self.clock()
        code = frame.f_code
        top = stack.frames[-1]
        is_library = self._is_library(code)
        is_inside = self.kinds[top[ROW]] == table.LIBRARY or len(stack.frames) == 1
        is_start = not code.co_flags & GENERATOR or frame.f_lasti == self._first_resume(code)

        if (
            code.co_name == "<module>"
            and len(stack.frames) == 1
            and frame.f_globals.get("__name__") == "__main__"
        ):
            # The body of the program is the root of all call paths, which exists already.
            self.program = code
            self._push(stack, top[ROW], code, now, folded=1, visits=0)
        elif self._is_ignored(code, frame.f_globals):
            return
        elif top[SKIPPED] and is_library and is_inside:
            self._skip_library_call(top, int(is_start))
        elif (
            stack.codes[-1] is code
            and self.kinds[top[ROW]] != table.LIBRARY
            and not self.steering.keeps_recursion
        ):
            self._push(stack, top[ROW], code, now, folded=1, visits=int(is_start))
        elif (row := self.children.get((top[ROW], code))) is not None:
            self._push(stack, row, code, now, folded=0, visits=int(is_start))
        elif self._is_deepest(top[ROW]):
            top[SKIPPED] += not code.co_flags & GENERATOR
        elif is_library and is_inside:
            self._skip_library_call(top, int(is_start))
        elif not is_library and (row := self._find_open(top[ROW], code)):
            self.children[(top[ROW], code)] = row
            self._push(stack, row, code, now, folded=1, visits=int(is_start))
        else:
            name = _row_name(code, frame.f_globals)
            kind = table.LIBRARY if is_library else table.PYTHON
            row = self._add_row(top[ROW], kind, name, code.co_filename, code.co_firstlineno)
            if row:
                self.children[(top[ROW], code)] = row
                self.codes[row] = code
            self._push(
                stack,
                row or top[ROW],
                code,
                self.clock(),
                folded=int(not row),
                visits=int(bool(row and is_start)),
            )

    def _skip_library_call(self, top: list[int], calls: int) -> None:
        """A library function inside another one has no row: the outermost counts its calls."""
        top[SKIPPED] += 1
        if self.kinds[top[ROW]] == table.LIBRARY:
            self.words[(self.rows_at + top[ROW] * ROW_BYTES) // 8 + LIBRARY_CALLS] += calls

    def leave(self, stack: _Stack, code: CodeType) -> None:
        """Record that a function returns, yields or is left by an exception."""
        now = self.clock()
        if self.ignored.get(code) and code not in stack.codes:
            return
        top = stack.frames[-1]
        is_inside = self.kinds[top[ROW]] == table.LIBRARY or len(stack.frames) == 1
        if top[SKIPPED] and is_inside and self._is_library(code):
            top[SKIPPED] -= 1
        elif top[SKIPPED] and stack.codes[-1] is not code and self._is_deepest(top[ROW]):
            top[SKIPPED] -= not code.co_flags & GENERATOR
        else:
            self._close(stack, code, now)

    def region_enter(self, name: str) -> None:
        """Begin a region of the program."""
        stack = getattr(self.local, "stack", None) or self._thread_stack()
        now, top = self.clock(), stack.frames[-1]
        if stack.codes[-1] is name:
            self._push(stack, top[ROW], name, now, folded=1, visits=1)
            return
        row = self.children.get((top[ROW], name))
        if row is None:
            row = self.children[(top[ROW], name)] = self._add_row(
                top[ROW], table.REGION, name, "", 0
            )
        if row:
            self._push(stack, row, name, now, folded=0, visits=1)

    def region_leave(self, name: str) -> None:
        """End a region of the program."""
        stack = getattr(self.local, "stack", None)
        if stack is not None:
            self._close(stack, name, self.clock())

    def phase(self, name: str, is_named: bool) -> bool:
        """Return whether the iterations suffice: only the native hook measures phases."""
        self.iterations += not is_named
        return 0 < self.iteration_limit < self.iterations and not is_named

    def limit_iterations(self, limit: int) -> None:
        """Have so many iterations suffice; 0 for all."""
        self.iteration_limit = limit

    def _close(self, stack: _Stack, code: object, now: int) -> None:
        for depth in range(len(stack.frames) - 1, 0, -1):
            if stack.codes[depth] is code:
                while len(stack.frames) > depth:
                    self._pop(stack, now)
                return

    def _push(
        self, stack: _Stack, row: int, code: object, now: int, *, folded: int, visits: int
    ) -> None:
        self._count(row, visits, 0, 0)
        stack.frames.append([row, now, 0, int(folded or self.open_frames[row] > 0), 0])
        self.open_frames[row] += 1
        stack.codes.append(code)

    def _pop(self, stack: _Stack, now: int) -> None:
        row, start, inside, folded, _ = stack.frames.pop()
        stack.codes.pop()
        self.open_frames[row] -= 1
        elapsed = now - start
        self._count(row, 0, 0 if folded else elapsed, elapsed - inside)
        if stack.frames:
            stack.frames[-1][CALLEES] += elapsed

    def _thread_stack(self) -> _Stack:
        row = self._add_row(0, table.THREAD, "(thread)", "", 0)
        self._count(row, 1, 0, 0)
        stack = self.local.stack = _Stack(row, self.clock())
        self.open_frames[row] += 1
        return stack

    def _first_resume(self, code: CodeType) -> int:
        """The offset where the body of a generator starts. Later resumes are no new visits."""
        if code not in self.starts:
            self.starts[code] = next(
                i for i in range(0, len(code.co_code), 2) if code.co_code[i] == RESUME
            )
        return self.starts[code]

    def _is_library(self, code: CodeType) -> bool:
        file = code.co_filename
        if self.user and file.startswith(self.user):
            return False
        return (
            file.startswith(("<", *self.library))
            or "/site-packages/" in file
            or "/dist-packages/" in file
        )

    def _is_ignored(self, code: CodeType, namespace: dict[str, object]) -> bool:
        if code not in self.ignored:
            name, file, steering = _row_name(code, namespace), code.co_filename, self.steering
            is_wanted = not steering.only or matches_any(steering.only, name, file)
            self.ignored[code] = (
                (bool(self.insitu) and file.startswith(self.insitu))
                or not is_wanted
                or matches_any(steering.skip, name, file)
            )
        return self.ignored[code]

    def _find_open(self, parent: int, code: object) -> int:
        """The row of the same function further up, in mutual recursion; 0 if there is none."""
        row = 0 if self.steering.keeps_recursion else parent
        while row and self.codes.get(row) is not code:
            row = self.parents[row]
        return row

    def _is_deepest(self, row: int) -> bool:
        return 0 < self.steering.depth <= self.levels[row]

    # ---- the table ------------------------------------------------------------------------------

    def _make_file(self, path: str, info: RankInfo, meta: bytes) -> None:
        rows_at = table.HEADER_BYTES + META_BYTES
        names_at = rows_at + ROWS * ROW_BYTES
        threads_at = names_at + NAMES_BYTES
        total = threads_at + table.THREAD_HEAD.size

        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(file, 0, total)
            self.map = mmap.mmap(file, total)
        except OSError:
            os.unlink(path)
            raise
        finally:
            os.close(file)

        self.rows_at, self.names_at = rows_at, names_at
        self.words = memoryview(self.map).cast("Q")
        with open("/proc/self/stat", encoding="ascii", errors="replace") as stat:
            started = int(stat.read().rpartition(")")[2].split()[19])
        now = time.monotonic_ns()

        # The capacity for frames stays 0: a live reader sees the totals of finished calls only.
        header = table_header.EMPTY_HEADER._replace(
            magic=table.MAGIC,
            version=table.VERSION,
            header_bytes=table.HEADER_BYTES,
            rows_at=rows_at,
            threads_at=threads_at,
            names_at=names_at,
            meta_at=table.HEADER_BYTES,
            row_bytes=ROW_BYTES,
            row_capacity=ROWS,
            thread_bytes=table.THREAD_HEAD.size,
            thread_capacity=1,
            frame_bytes=table.FRAME.size,
            names_used=table.NAMES_START,
            meta_used=len(meta),
            rank=info.rank,
            size=info.size,
            mpi_rank=-1,
            mpi_size=-1,
            pid=os.getpid(),
            pid_started=started,
            root_pid=info.root[0],
            root_started=info.root[1],
            created_ns=time.time_ns(),
            start_tick=now,
            start_ns=now,
            latest_tick=now,
            latest_ns=now,
            state=table.RUNNING,
            hook=b"setprofile",
            columns=COLUMNS,
        )
        table_header.HEADER.pack_into(self.map, 0, *header)
        self.map[table.HEADER_BYTES : table.HEADER_BYTES + len(meta)] = meta

    def _set(self, field: str, value: int) -> None:
        at, code = table_header.locate_field(field)
        struct.pack_into(code, self.map, at, value)

    def _add_row(self, parent: int, kind: int, name: str, file: str, line: int) -> int:
        text = name.encode(errors="surrogatepass")[:1000]
        path = file.encode(errors="surrogatepass")[-1000:]
        record = (table.NAME.size + len(text) + len(path) + 7) // 8 * 8  # aligned to 8 bytes

        with self.lock:
            row = len(self.kinds)
            if row >= ROWS or self.names_used + record > NAMES_BYTES:
                return 0

            at = self.names_at + self.names_used
            table.NAME.pack_into(self.map, at, line, len(text), len(path))
            self.map[at + 8 : at + 8 + len(text) + len(path)] = text + path

            start = self.rows_at + row * ROW_BYTES
            row_head = (parent, 0, 0, self.names_used, kind)
            struct.pack_into("<5I", self.map, start + table.ROW_PARENT, *row_head)

            self.kinds.append(kind)
            self.parents.append(parent)
            self.open_frames.append(0)
            self.levels.append(self.levels[parent] + (kind != table.THREAD) if row else 0)
            self.names_used += record
            self._set("names_used", self.names_used)
            self._set("rows_used", row + 1)
        return row

    def _count(self, row: int, visits: int, time_ns: int, exclusive_ns: int) -> None:
        at = (self.rows_at + row * ROW_BYTES) // 8
        self.words[at + VISITS] += visits
        self.words[at + TIME] += time_ns
        self.words[at + TIME_EXCLUSIVE] += exclusive_ns


def _row_name(code: CodeType, namespace: dict[str, object]) -> str:
    module = namespace.get("__name__")
    if not isinstance(module, str) or module == "__main__":
        return code.co_qualname
    if module.startswith(("importlib._bootstrap", "_frozen_importlib")):
        return "(import)"
    return module if code.co_name == "<module>" else f"{module}.{code.co_qualname}"


def _leaves(error: SystemExit, frame: FrameType) -> bool:
    """Whether the exception was raised where the frame is left.

    Before Python 3.12, an exception that was never caught has no traceback.
    """
    trace = error.__traceback__
    return trace is None or trace.tb_lasti == frame.f_lasti


def _exit(status: object = None, /) -> NoReturn:
    """Replace sys.exit of Python 3.11, whose exception is no object until something catches it."""
    raise SystemExit(status)


def call_when_uncaught(uncaught: Callable[[BaseException], None]) -> None:
    """Call `uncaught` with an exception that nothing caught, after its traceback is printed."""
    original = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: object) -> None:
        original(kind, error, trace)  # type: ignore[arg-type]
        uncaught(error)

    sys.excepthook = excepthook
