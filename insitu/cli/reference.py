"""The reference tables of the documentation, generated from the code.

`docs/generate.py` puts them into the pages of docs/reference/. The tests compare the descriptions
of this module with the metrics of the sources.
"""

from collections.abc import Callable, Iterable, Sequence

import click

from insitu import errors
from insitu.analysis.finding_help import FINDING_HELP
from insitu.cli import COMMANDS, group
from insitu.entities import METRICS, MetricKind
from insitu.formats.base import EXPORTERS, IMPORTERS, load_exporter, load_importer
from insitu.run.options import USAGE

METRIC_DESCRIPTIONS = {
    "visits": "Number of times that the call path was entered.",
    "time": "Inclusive time: from entering the call path to leaving it, summed over all visits.",
    "time_exclusive": "Time without the functions that are called from this call path.",
    "time_waiting": "Share of `time` before the other ranks were there that this rank needs: in "
    "blocking collective calls until the last of them arrived, in calls that complete non-blocking "
    "collectives until the last of them started it, in point-to-point calls until the message was "
    "sent (late sender) or its receive was posted (late receiver). Known at the end of a run; "
    "between nodes for blocking collective calls and for calls that complete one other collective, "
    "where the clocks are known well enough (finding waiting-unclear).",
    "time_late_sender": "Share of `time_waiting` in receives of messages that were not sent yet.",
    "time_late_receiver": "Share of `time_waiting` in sends, or in calls that complete them, "
    "before the receive was posted; only synchronous and large messages wait for that.",
    "delay_cost": "Waiting of other ranks that this rank causes: it came last to a blocking "
    "collective call, or late to a message, and took longer in this call path than the ranks that "
    "wait for it. Waiting whose cause is unknown is not part of it. For communicators within one "
    "node.",
    "collective_time": "First quartile of the times of the sampled calls of a blocking collective, "
    "each from the last rank's entry to the last rank's exit: a robust time of the operation "
    "itself [VAL §3.2]. For communicators within one node.",
    "collective_time_min": "The smallest of these times.",
    "bytes_sent": "Bytes passed to an MPI call: messages sent, send buffers of collectives.",
    "bytes_received": "Bytes obtained from an MPI call: messages received, receive buffers of "
    "collectives.",
    "messages_sent": "Messages sent by point-to-point and one-sided calls.",
    "messages_received": "Messages received, counted in the call that completed the receive.",
    "comm_ranks": "Sizes of the communicators of collective calls, and of the groups of "
    "`MPI_Win_post` and `MPI_Win_start`, summed over the calls. Divide by `visits` for the mean.",
    "partners": "Distinct ranks that the point-to-point calls and neighbourhood collectives of "
    "this call path send to or receive from, or whose windows its one-sided calls access or lock, "
    "by their rank in `MPI_COMM_WORLD`. A non-blocking "
    "receive counts where it begins, a persistent call where it is created. Absent where a partner "
    "is unknown: of matched receives, in other programs, of persistent receives from any rank, and "
    "of non-blocking ones in communicators that have not all ranks in the same order.",
    "only_partner": "The rank in `MPI_COMM_WORLD` of the partner, where `partners` is 1. Not "
    "modelled.",
    "split_communicator": "1 where a call is on a communicator that has all ranks of "
    "`MPI_COMM_WORLD`, and that `MPI_Comm_split` or `MPI_Comm_create` has made; it may have fewer "
    "ranks in a larger run. 2 where all calls are on such communicators of `MPI_Comm_split_type`, "
    "whose ranks share a node. Communicators that are made from these count as they do. Not "
    "modelled.",
    "message_chain": "Receives of this call path in the longest chain of messages of the run, each "
    "sent after the one before it was received; the same on all its ranks. In an exchange with "
    "neighbours it grows with the steps only, in a sweep from rank to rank also with the number of "
    "ranks. Messages that all go in one direction, more of them than the chain has, count as the "
    "chain of one round. Known at the end of a run on one node, where all messages could be "
    "numbered.",
    "message_chain_time": "Time in that chain between receiving a message and sending the next, "
    "summed over `message_chain`; the same on all ranks of the call path. Not modelled.",
    "library_calls": "Calls of library functions of Python inside this one, which have no rows of "
    "their own: what `copy.deepcopy` calls for each part of what it copies.",
    "window_bytes": "Bytes of windows that `MPI_Win_allocate` and `MPI_Win_allocate_shared` "
    "allocated for this rank, over all calls. Windows on memory of the program are in its heap.",
    "bytes_read": "Bytes that calls such as `read`, `pread` and `fread` obtained from files.",
    "bytes_written": "Bytes that calls such as `write`, `pwrite`, `fwrite` and `fprintf` passed to "
    "files.",
    "bytes_mapped": "Sizes of mappings of files. What is read or written there is not seen.",
    "files_opened": "Regular files that `open` and `fopen` opened, without those of the kernel in "
    "`/proc` and `/sys`; `visits` counts these, failed calls and directories as well.",
    "files_shared": "Different files that every rank of the run opened, by this or another call "
    "path. Known, like the next, for call paths that open up to 32 files per rank.",
    "files_own": "Different files that no other rank opened. Known of more than 32 files per rank, "
    "too, where each is opened once.",
    "time_busy": "Time that the threads of a parallel region of OpenMP work, summed over its "
    "threads. What they take to begin, and their waiting at barriers and for tasks, is not part of "
    "it; waiting for locks is.",
    "time_barrier": "Time that the threads of a parallel region wait at barriers, its end "
    "included, and for tasks, summed over its threads.",
    "team_threads": "Threads that execute a parallel region, on average.",
    "imbalance": "Of a parallel region: 1 minus the mean of the threads' work divided by the "
    "longest work of a thread. 0 if all work equally long, 0.75 if only one of four threads works.",
    "device_time": "Time of a kernel, a copy or a memset on GPUs, summed over streams. It is no "
    "part of `time`, which is that of the host.",
    "bytes_copied": "Bytes that a GPU copies or sets.",
    "device_busy": "Time in which GPUs do something for the rank, summed over GPUs: what runs at "
    "the same time on a GPU counts once.",
    "device_idle": "Share of the time between the first and the last thing that a GPU does for the "
    "rank in which it does nothing for it.",
    "device_memory_peak": "Largest sum of the allocations of GPU memory, by `cudaMalloc` and "
    "others, at one time.",
    "memory_rss": "Resident memory of the rank at its end, or at the end of a phase. Shared pages "
    "count in full.",
    "memory_rss_peak": "Largest resident memory until then.",
    "memory_pss": "Memory of the rank; a page shared by n processes counts 1/n.",
    "memory_private": "Share of the memory that no other process maps.",
    "memory_shared": "Memory that other processes map as well, in full.",
    "memory_swap": "Memory swapped out to disk.",
    "memory_mpi": "Memory used by MPI: resident memory that `MPI_Init` added, plus heap growth in "
    "MPI calls and pages shared between ranks until `MPI_Finalize` [VAL §3.2].",
    "instructions": "Instructions in user space, where the kernel permits counting "
    "(`insitu doctor`).",
    "cpu_time": "Time that all threads of the rank spent on processors, in a phase or until its "
    "end. Ranks that share cores do not lengthen it; waiting in MPI does, where the library polls.",
    "processor_wait": "Time in which the main thread of the rank was ready to run but on no "
    "processor, from `MPI_Init` to `MPI_Finalize`, as the kernel counts it: other processes "
    "used the processors. Recorded for each rank, not modelled.",
    "blocked_time": "Time in which the rank was blocked outside MPI calls, neither on a processor "
    "nor ready to run: in locks, in files, asleep. From `MPI_Init` to `MPI_Finalize`, as the "
    "kernel counts it, a lower bound. Absent if other threads or child processes worked. Recorded "
    "for each rank, not modelled.",
    "time_mpi": "Time in MPI calls during a phase.",
    "energy": "Energy of the node while the ranks ran, divided by its ranks, where powercap or the "
    "pm_counters of Cray nodes can be read: of processor packages, or of the whole node. Other "
    "jobs on the node count.",
    "cycles": "Processor cycles in user space, where the kernel permits counting.",
    "iteration_time": "Median time of an iteration of the main loop. Recorded at the function that "
    "the loop calls, or at the program if it calls `insitu.phase`.",
    "iteration_variation": "Coefficient of variation of the iteration times: an estimate of the "
    "noise from a single run.",
    "allocations": "Heap blocks allocated by the call path and its callees.",
    "bytes_allocated": "Size of these blocks, as rounded by the allocator.",
    "heap_growth": "Bytes allocated minus bytes freed: what the call path leaves behind. Negative "
    "if it frees blocks that others allocated.",
    "heap_peak": "Largest heap memory of the whole rank while the call path ran.",
    "position_x": "Grid position of the rank along the first axis of the largest Cartesian "
    "communicator (`MPI_Cart_create`). Used for behaviour classes, not modelled.",
    "position_y": "Grid position along the second axis.",
    "position_z": "Grid position along the third axis.",
    "position_t": "Grid position along the fourth axis. Communicators with more axes are ignored.",
}
KINDS = {
    MetricKind.COUNTER: "counter",
    MetricKind.GAUGE: "gauge",
    MetricKind.POSITION: "position",
}


def metrics() -> str:
    """All metrics, in the order of `METRIC_DESCRIPTIONS`."""
    by_name = {metric.name: metric for metric in METRICS}
    rows = []
    for name, description in METRIC_DESCRIPTIONS.items():
        metric = by_name[name]
        rows.append((f"`{name}`", metric.unit, KINDS[metric.kind], description))

    return _table(("Metric", "Unit", "Kind", "Meaning"), rows)


def findings() -> str:
    """All finding codes, sorted."""
    rows = [(f"`{code}`", entry.meaning, entry.action) for code, entry in FINDING_HELP.items()]
    return _table(("Finding", "Meaning", "What to do"), rows)


def export_formats() -> str:
    """The formats of `insitu export`, with the suffixes of their files."""
    rows = []
    for name in EXPORTERS:
        writer = load_exporter(name)
        rows.append((f"`{name}`", f"`{writer.suffix}`", _summary(writer)))

    return _table(("Format", "Suffix", "Content"), rows)


def import_formats() -> str:
    """The formats of `insitu import`."""
    rows = [("`jsonl`", "Extra-P's JSON Lines, with a value or one value per rank.")]
    rows += [(f"`{name}`", _summary(load_importer(name))) for name in IMPORTERS]
    return _table(("Format", "Files"), rows)


def exit_codes() -> str:
    """The exit codes of all commands."""
    descriptions = {0: "Success.", 1: "An expectation is violated (`insitu check`)."}
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.InsituError):
            descriptions.setdefault(kind.exit_code, " ".join((kind.__doc__ or "").split()))
    descriptions[errors.InsituError.exit_code] = "Internal error in insitu. Please report it."

    rows = [(str(code), text) for code, text in sorted(descriptions.items())]
    return _table(("Code", "Meaning"), rows)


def command_groups() -> str:
    """The commands by group, each with a line of help."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for name, (heading, words) in COMMANDS.items():
        link = f"[`insitu {name}`](#insitu-{name})"
        sections.setdefault(heading, []).append((link, words))

    tables = [_table((heading, ""), rows) for heading, rows in sections.items()]
    return "\n\n".join(tables)


def commands() -> str:
    """The help of every command as a section of its own."""
    sections = []
    for name in COMMANDS:
        sections.append(f"## insitu {name}\n\n```text\n{command_help(name)}\n```")
        for inner in subcommands(name):
            help_text = command_help(name, inner)
            sections.append(f"### insitu {name} {inner}\n\n```text\n{help_text}\n```")

    return "\n\n".join(sections)


def subcommands(name: str) -> list[str]:
    """The subcommands of a command, sorted; most have none."""
    command = group.get_command(click.Context(group), name)
    return sorted(command.commands) if isinstance(command, click.Group) else []


def command_help(name: str, inner: str = "") -> str:
    """What `insitu NAME --help` prints at a width of 100 columns; INNER is a subcommand."""
    if name == "run":
        return USAGE.strip()
    parent = click.Context(group, info_name="insitu", **group.context_settings)
    command = group.get_command(parent, name)
    assert command is not None
    if inner:
        assert isinstance(command, click.Group)
        parent = click.Context(command, info_name=name, parent=parent)
        command = command.commands[inner]
        name = inner
    context = click.Context(command, info_name=name, parent=parent, terminal_width=100)
    return command.get_help(context).strip()


TABLES: dict[str, Callable[[], str]] = {
    "command_groups": command_groups,
    "commands": commands,
    "exit_codes": exit_codes,
    "export_formats": export_formats,
    "findings": findings,
    "import_formats": import_formats,
    "metrics": metrics,
}


def _summary(format_: object) -> str:
    """The docstring of a format's class, as one line."""
    return " ".join((type(format_).__doc__ or "").split())


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
