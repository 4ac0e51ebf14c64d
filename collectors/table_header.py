"""The header of a rank's table: its fields, in the order of `native/table.h`."""

import struct
from typing import Annotated, NamedTuple

U4 = Annotated[int, "I"]
U8 = Annotated[int, "Q"]
I4 = Annotated[int, "i"]
F8 = Annotated[float, "d"]


class Header(NamedTuple):
    """The fields of the header in the order of the file; each type names its struct format."""

    magic: Annotated[bytes, "8s"]
    version: U4
    header_bytes: U4
    rows_at: U8
    threads_at: U8
    names_at: U8
    meta_at: U8
    row_bytes: U4
    row_capacity: U4
    thread_bytes: U4
    thread_capacity: U4
    frame_bytes: U4
    frame_capacity: U4
    rows_used: U4
    threads_used: U4
    names_used: U8
    meta_used: U8
    rank: I4  # from the launcher, as `size`
    size: I4
    mpi_rank: I4  # from MPI, -1 while unknown
    mpi_size: I4
    pid: U8
    pid_started: U8  # clock ticks since boot
    created_ns: U8  # since 1970
    start_tick: U8
    start_ns: U8  # monotonic
    latest_tick: U8
    latest_ns: U8
    ended_ns: U8  # since 1970
    state: U4
    exit_status: I4
    mpi_state: U4
    is_tsc: U4
    memory_rss: U8
    memory_rss_peak: U8
    rows_refused: U8
    frames_refused: U8
    hook: Annotated[bytes, "24s"]
    columns: Annotated[bytes, "1024s"]
    cart_axes: I4
    cart_ranks: I4
    cart_0: I4
    cart_1: I4
    cart_2: I4
    cart_3: I4
    event_ns: F8
    budget: F8
    hook_ticks: U8
    throttled: U4
    loop_row: U4
    iterations: U8
    iteration_ticks: Annotated[bytes, "512s"]
    iteration_numbers: Annotated[bytes, "256s"]
    marks: U8
    latest_mark: Annotated[bytes, "24s"]
    memory_pss: U8
    memory_private: U8
    memory_shared: U8
    memory_swap: U8
    memory_mpi: U8
    instructions: U8
    cycles: U8
    subinterpreters: U8
    phases_at: U8
    phase_bytes: U4
    phases_used: U4
    named_marks: U8
    current_phase: U4
    previous_phase: U4
    collectives_at: U8
    collectives_used: U4
    collectives_sequence: U4
    threads_refused: U8
    stacks_unread: U8
    unread_object: Annotated[bytes, "40s"]
    root_pid: U8  # the first process of this rank, which may be a shell; 0 if unknown
    root_started: U8
    calls_misplaced: U8
    codes_refused: U8
    cpu_ns: U8  # processor time of the process at its end
    busy_threads: U4  # that used processors, 0 if unknown
    sample_hz: U4
    samples: U8
    samples_unread: U8
    sampling_refused: Annotated[bytes, "48s"]
    partners_at: U8
    partners_refused: U8
    opened_at: U8
    opened_used: U4
    opened_refused: U4
    messages_at: U8
    messages_used: U4
    messages_sequence: U4
    messages_level: U4
    message_pairs_level: U4
    refused_after_cancel: U8
    refused_after_gap: U8
    refused_without_order: U8
    refused_of_threads: U8
    refused_after_wildcard: U8
    intervals_at: U8
    intervals_used: U4
    intervals_sequence: U4
    intervals_threshold: U8
    first_tick: U8
    first_unslewed_ns: U8
    last_tick: U8
    last_unslewed_ns: U8  # 0 while the rank runs
    stopped: Annotated[bytes, "64s"]  # why nothing is measured any more although the process runs
    mpi_unseen: U8  # 1: initialised by a call that was not recorded, 2: by another library
    exits_unmatched: U8  # ends of compiled functions that were not open
    device_refused: Annotated[bytes, "96s"]  # why GPUs are not measured although they are used
    device_busy_ns: U8  # summed over devices, as the next one
    device_span_ns: U8  # from the first thing that they did to the last
    device_memory_peak: U8
    device_unattributed: U8  # records whose launch is unknown
    device_dropped: U8  # records that are lost
    samples_taken: U8  # inside of MPI calls, too
    samples_timing: U8  # those that hit the code that times compiled functions
    listed_at: U8
    listed_used: U8  # words of the lists of needed ranks
    uncompared_ticks: U8  # of collective calls whose waiting cannot be known
    uncompared_inter: U8  # how many there were, and why
    uncompared_unnumbered: U8
    uncompared_unlisted: U8
    collectives_started: U8  # non-blocking ones, and starts of persistent ones
    queued_ns: U8  # the main thread waited for a processor, without start-up; 0 if unknown
    blocked_ns: U8  # it was blocked outside MPI calls, likewise
    evaluator_replaced: U8  # whether another frame evaluator stood in the place of ours at the end
    unread: U4  # bits of UNREAD: what the process could not read about itself at its end
    unread_error: I4  # the error number
    samples_precise: U8  # of those taken: when the task clock ticked

    @property
    def messages_refused(self) -> int:
        """Messages whose number among those of their ranks is unknown."""
        return (
            self.refused_after_cancel
            + self.refused_after_gap
            + self.refused_without_order
            + self.refused_of_threads
            + self.refused_after_wildcard
        )

    @property
    def cart_coordinates(self) -> tuple[int, ...]:
        """Coordinates of the rank in the largest Cartesian communicator; () without one."""
        return (self.cart_0, self.cart_1, self.cart_2, self.cart_3)[: self.cart_axes]


FORMATS = tuple(kind.__metadata__[0] for kind in Header.__annotations__.values())
HEADER = struct.Struct("<" + "".join(FORMATS))
EMPTY_HEADER = Header._make(HEADER.unpack(bytes(HEADER.size)))


def locate_field(field: str) -> tuple[int, str]:
    """Return the offset and the struct format of a header field, for a writer in Python."""
    index = Header._fields.index(field)
    offset = struct.calcsize("<" + "".join(FORMATS[:index]))
    return offset, "<" + FORMATS[index]
