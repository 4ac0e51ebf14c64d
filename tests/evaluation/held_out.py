"""Limits planted in the programs of `plants/held_out`: what `insitu diagnose` says of each.

    python tests/evaluation/held_out.py [--only partition find_owner ...] [--keep DIRECTORY]

Each program runs as it is, with one limit, and with the argument `repaired`, without any. A plant
counts as named if a limit, a warning or an unclear statement is about its function, whatever its
kind. Every statement about a repaired program is listed. Needs MPICH in .venv, and gcc; a program
that cannot be compiled is left out, with its reason. docs/benchmarks/limits.md has the tables
of the days on which the programs were written.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from plants import SCALES, Statement, diagnose, function_of, make_command

SOURCES = Path(__file__).with_name("plants") / "held_out"
TARGET = "p=4096"
PLANTS = {  # what is planted, and the functions that may be named for it
    "partition.py": ("one rank owns 30 √p rows", ("sweep", "relax_row")),
    "reproducible_sum.py": ("allgather of all values", ("ordered_sum",)),
    "sample_sort.py": ("rank 0 sorts the keys of all", ("choose_splitters",)),
    "owners.py": ("p broadcasts in each step", ("share_blocks",)),
    "input_deck.py": ("rank 0 parses an input for all", ("read_loads", "parse_line")),
    "pair_costs.c": ("table of p² entries", ("build_costs",)),
    "sparse_exchange.c": ("all-to-all with two partners", ("exchange_all",)),
    "find_owner.c": ("linear search among p ranks", ("find_owner",)),
    "restart.c": ("each rank reads the blocks of all", ("read_restart",)),
    "ordered_exchange.f90": (  # which the compiler may have inlined
        "a barrier after each rank's message",
        ("exchange_ordered", "exchange_ordered.0", "MAIN__"),
    ),
    # Of 2026-11-29.
    "amr.py": ("each rank searches the blocks of all", ("regrid",)),
    "boundary.py": ("the last rank integrates the wall of all", ("integrate",)),
    "boxes.py": ("distances to the boxes of all", ("candidates",)),
    "cg.py": ("strong scaling, each rank receives the whole vector", ("multiply_gathered",)),
    "directory.py": ("allgather of all particles; p² costs on rank 0", ("build_directory",)),
    "logger.py": ("rank 0 receives the lines of all", ("collect",)),
    "report.py": ("rank 0 formats the cells of all", ("report",)),
    "skewed.py": ("the last rank has twice the mean work", ("update",)),
    "snapshot.py": ("a thread of rank 0 compresses the fields of all", ("snapshot", "compress")),
    "wavefront.py": ("a sweep along all ranks", ("sweep",)),
    "counter.c": ("one counter on rank 0", ("next_task",)),
    "ioread.c": ("each rank reads the whole file", ("load",)),
    "locks.c": ("all ranks lock one file in turn", ("append_block", "main", "locks")),
    "ordered_file.c": ("MPI_File_write_ordered in small pieces", ("write_lines",)),
    "puts.c": ("MPI_Put to all ranks", ("publish",)),
    "token.c": ("a token passes through all ranks", ("all_done",)),
    "chain.cpp": ("hash chains as long as p", ("find", "insert")),
    "dumps.cpp": ("p files in each step", ("dump",)),
    "neighbours.cpp": ("all ranks are neighbours", ("main", "run")),
    "particles_mig.cpp": ("messages to all ranks", ("main", "migrate_all")),
    "skip.cpp": ("each rank skips the random numbers before its own", ("skip",)),
    "flags.f90": ("reduction of an array over ranks", ("agree", "MAIN__", "main")),
    "scatter.f90": ("rank 0 sends to each rank", ("distribute",)),
    # Of the same day, later.
    "assignment.py": ("rank 0 broadcasts a list of all cells", ("assign",)),
    "baton.py": ("a baton passes through all ranks, by a file", ("wait_turn", "pass_on")),
    "gids.py": ("scans of a list of all points", ("local_number", "renumber")),
    "helpers.py": ("rank 0 starts a process per rank", ("describe_all", "describe")),
    "plugins.py": ("each rank imports p modules", ("load_plugins",)),
    "rotate.py": ("each rank looks at p files in each step", ("rotate", "all_logs")),
    "ancestors.c": ("recursion as deep as p", ("find_root",)),
    "groups.c": ("p communicators in each step", ("sum_around",)),
    "speculative.c": ("p receives, most of them cancelled", ("exchange_any",)),
    "types.c": ("datatypes of p blocks, never freed", ("describe_blocks",)),
    "chunks.cpp": (
        "each rank divides its work into p chunks",
        ("advance", "advance_all", "decompose", "main"),
    ),
    "retry.cpp": ("compare and swap, again while others were first", ("add_retrying",)),
    "allpairs.f90": ("a ring of all pairs", ("MAIN__", "main", "interact", "shift")),
    "slabs.f90": ("a halo that grows as √p", ("MAIN__", "main")),
    # Of the evening.
    "mesh_file.py": ("each rank parses the mesh of all", ("read_mesh", "<listcomp>")),
    "numbering.py": ("dictionary of the unknowns of all", ("fill", "__init__", "set_up")),
    "pic.py": ("rank 0 solves for the cells of all", ("solve_on_root",)),
    "rcb.py": ("each rank sorts the points of all", ("bisect", "partition")),
    "tasks.py": ("the master sorts the workers for each task", ("choose", "score")),
    "bfs.c": ("allgather of the frontiers of all", ("merge_frontiers",)),
    "checkpoint.c": ("the ranks write one after the other", ("checkpoint", "write_block")),
    "hybrid.c": ("the first thread sorts the keys of all", ("order_keys", "compare")),
    "offsets.c": ("MPI_Get from all ranks before this one", ("my_offset",)),
    "split.c": ("new communicators and datatypes in each step", ("make_stage", "column")),
    "fft.cpp": ("twiddle factors of the whole length", ("make_factors",)),
    "blocks.f90": ("each rank searches the blocks of all", ("find_neighbours", "MAIN__", "main")),
    # Of the night.
    "census.py": ("a reduction of dictionaries of all ranks", ("take_census", "merge")),
    "folders.py": ("rank 0 makes the folders of all ranks", ("prepare_output",)),
    "relay.py": ("the rank in the middle sends on what all send", ("forward",)),
    "dups.py": ("a communicator in each step, never freed", ("__init__",)),
    "aggregators.c": ("two ranks write for all", ("collect",)),
    "persistent.c": ("persistent requests in each step, never freed", ("make_halo",)),
    "histogram.c": ("exclusive locks of the window of one rank", ("add_counts",)),
    "coarse.cpp": ("each rank solves for the unknowns of all", ("solve", "main", "Coarse", "fill")),
    "registry.cpp": ("map of the boxes of all ranks", ("add_rank", "Layout", "registry")),
    "mandel.cpp": ("the ranks in the middle have the work", ("escape_time", "render_row", "main")),
    "rows.f90": ("a collective call for each row of all ranks", ("write_rows", "MAIN__", "main")),
    # Later that night, by an author who had read the rules.
    "barriers.cpp": ("a barrier for each rank in each step", ("in_turn",)),
    "events.py": ("a queue of the events of all ranks", ("run_window", "schedule")),
    "hub.c": ("one rank has an edge to all others", ("exchange",)),
    "names.c": ("each rank compares the names of all pairs", ("count_nodes",)),
    "tabulate.f90": ("each rank tabulates the cells of all", ("tabulate", "MAIN__", "main")),
    # Of 2026-11-30.
    "steering.py": ("rank 0 broadcasts what it keeps of all steps and ranks", ("steer",)),
    "wide_stencil.py": ("halos of ever more strips", ("fill_halo",)),
    "chunked.py": ("six chunks of work", ("main", "render", "trace", "my_rows")),
    "stagger.py": ("ranks sleep before they write", ("write_fields", "stagger.py")),
    "status_line.py": ("each rank formats the loads of all", ("status_line", "report")),
    "draws.py": ("tasks of heavy-tailed cost on random ranks", ("run_task", "main")),
    "leak.py": ("a cache of all steps", ("weights",)),
    "deep_halo.c": ("halos as deep as p / 2", ("exchange_halo", "main")),
    "hostlist.c": ("each rank parses a list of all hosts", ("parse_hosts", "make_list", "main")),
    "cross_sections.c": ("MPI_Get of a table of rank 0", ("load_cross_sections",)),
    "components.cpp": ("labels travel one rank a round", ("main", "label_components")),
    "elements.cpp": ("each rank visits all elements", ("assemble", "main")),
    "listeners.cpp": ("a thread for each other rank", ("pack_all", "main", "pack")),
    "pairs.cpp": ("all pairs of n bodies", ("find_pairs", "main")),
    "substeps.f90": ("time steps grow with p", ("advance", "stable_step", "integrate")),
    # Of the morning after.
    "rebalance.py": ("each rank assigns the tasks of all ranks", ("assign", "rebalance")),
    "executor.py": ("rank 0 hands out the samples of all ranks", ("run_pool", "main", "sample")),
    "node_sum.py": ("each rank adds the forces of all ranks", ("add_up",)),
    "ghosts.py": (
        "ever more ranks are within a fixed cut-off",
        ("fetch_ghosts", "accelerate", "within_reach", "bounds"),
    ),
    "pencils.py": ("two groups of ranks, whatever their number", ("start", "finish", "__init__")),
    "block_jacobi.py": (
        "a preconditioner with a block per rank",
        ("solve", "dot", "apply_operator", "precondition", "solve_block"),
    ),
    "parareal.py": (
        "each rank takes the coarse steps of all slices before its own",
        ("start_value", "coarse_step", "wrapper"),
    ),
    "merge_parts.py": ("rank 0 reads the part files of all", ("merge",)),
    "octants.c": ("sweeps over a grid of ranks", ("sweep_octant", "transport", "main")),
    "poll_all.c": (
        "each rank asks for messages of each other rank",
        ("look_for", "poll_mail", "main"),
    ),
    "receivers.c": ("a reduction of flags for all ranks", ("count_senders", "main")),
    "panels.cpp": (
        "strong scaling, one panel per rank",
        ("run", "factorise", "update", "main"),
    ),
    "splitters.cpp": (
        "an all-reduce for each rank and each halving",
        ("find_splitters", "bisect", "operator()", "main"),
    ),
    "async_io.cpp": (
        "a thread of rank 0 receives the frames of all",
        ("main", "encode", "start", "operator()", "{lambda()#1}"),
    ),
    "markers.f90": ("each rank resets markers of all columns", ("multiply", "MAIN__", "main")),
    "remainder.f90": (
        "strong scaling, the last rank has the rest",
        ("relax", "relax_plane", "MAIN__", "main"),
    ),
    # Later, by an author who had read the rules.
    "potential.py": ("potentials of the clusters of all ranks", ("add_potential",)),
    "sqlite_log.py": ("all ranks insert into one database", ("insert",)),
    "modes.py": ("strong scaling, each rank finds the same modes", ("find_modes",)),
    "observers.cpp": (
        "each rank notifies observers of all ranks",
        ("notify", "record", "main", "{lambda(double)#1}", "_M_invoke"),
    ),
    # Of the same day, later; with -O2, but without -g.
    "oddeven.c": ("as many rounds of exchanges as ranks", ("sort_blocks", "keep_half", "main")),
    "header.c": (
        "each rank reads an entry of each rank",
        ("find_offset", "create_dump", "write_dump", "main"),
    ),
    "key_space.c": ("a window for the keys of all ranks", ("make_table", "main")),
    "outboxes.cpp": ("a box of particles for each rank", ("make_outboxes", "Outboxes", "main")),
    "leaders.cpp": ("rank 0 receives from p / 4 leaders", ("sum_by_leaders", "main")),
    "leapfrog.cpp": (
        "strong scaling, each rank steps through the numbers of all",
        ("leap", "sample_paths", "main"),
    ),
    "steal.cpp": ("each rank looks for tasks of all ranks", ("take_task", "steal_all", "main")),
    "stations.f90": (
        "each rank reads a list up to its own entry",
        ("read_forcing", "write_list", "MAIN__", "main"),
    ),
    "probes.f90": (
        "a buffer for the probes of all on each rank",
        ("set_up_probes", "store_probes", "MAIN__", "main"),
    ),
    "gossip.py": ("ranks pass on the state of all ranks", ("gossip", "describe")),
    "diffuse.py": ("p² rounds until the load is even", ("spread_load", "give_to_neighbours")),
    "grid_search.py": ("each rank tries p² grids", ("surface", "choose_grid")),
    "shuffle.py": ("each rank shuffles the samples of all", ("epoch_indices",)),
    "tempering.py": (
        "rank 0 decides for the replicas of all",
        ("decide_swaps", "accepts", "swap_replicas"),
    ),
    "coupled.py": ("messages to each rank of another model", ("send_fluxes", "receive_fluxes")),
    "pareto.cpp": ("allgather of the elites of all", ("collect_elites", "main")),
    "wells.f90": ("allgather of the wells of all", ("share_wells", "MAIN__", "main")),
    # Of 2026-11-30, later still.
    "heartbeats.py": ("each rank lists the files of all", ("count_alive",)),
    "seeds.py": ("each rank makes the seeds of all", ("make_stream",)),
    "ensemble.py": ("p² products on each rank", ("make_products", "make_weights")),
    "lockfile.py": ("all ranks take one lock file in turn", ("acquire", "append")),
    "cache_cliff.py": (
        "a cache for six ranks, exceeded from seven on",
        ("fetch", "interpolate"),
    ),
    "fragments.py": ("rank 0 blends the fragments of all", ("composite", "blend")),
    "keepalive.py": ("neighbours, and few messages to all ranks", ("exchange",)),
    "transpose_strong.py": ("strong scaling, ever smaller messages to all", ("transpose",)),
    "tolerance.py": ("the tolerance of a rank is one p-th", ("integrate", "density", "main")),
    "kspace.c": ("each rank sums over p waves", ("structure_factors", "main")),
    "neighbour_lists.c": (
        "all ranks rebuild their lists when any of them must",
        ("rebuild", "borders", "main"),
    ),
    "fronts.cpp": (
        "rank 0 factors a front with an edge of √p",
        ("factor_tree", "eliminate", "extend_add", "assemble", "main"),
    ),
    "epochs.c": ("windows opened to all ranks", ("swap_edges", "make_group", "main")),
    "attach.cpp": ("a segment of a window for each rank", ("attach", "detach", "main")),
    "tally.f90": (
        "strong scaling, an all-reduce of all cells",
        ("reduce_tallies", "MAIN__", "main"),
    ),
    "vcycle.f90": (
        "2 p sweeps on the coarsest grid",
        ("solve_coarsest", "relax", "swap_ghosts", "cycle_from"),
    ),
    "private_bins.cpp": ("each thread has bins for all ranks", ("deposit", "deposit (parallel 1)")),
    "graph_root.c": (
        "rank 0 describes the edges of all",
        ("describe_edges", "weigh_edge", "main"),
    ),
    # Of 2026-11-30, in the afternoon.
    "colouring.py": ("a graph is coloured in p rounds", ("finished", "colour")),
    "merge_stats.py": ("a reduction of dictionaries with names of all ranks", ("summarise",)),
    "admission.py": ("refused clients ask again", ("admit", "serve", "ask", "obtain")),
    "clusters.py": ("points are compared with the clusters of all", ("assign",)),
    "adjoint.py": ("an all-reduce of the unknowns of all", ("apply_adjoint",)),
    "fiedler.py": ("each rank orders all ranks by an eigenvector", ("order_parts", "laplacian")),
    "jacobian.py": (
        "finite differences for the unknowns of all",
        ("build_jacobian", "perturbed", "residual"),
    ),
    "settings.py": ("a deep copy of the settings of all", ("freeze", "read_settings")),
    "collect_garbage.py": (
        "garbage collection among objects for all ranks",
        ("tidy", "make_proxies", "__init__"),
    ),
    "handout.py": ("strong scaling, rank 0 gives out all tasks", ("hand_out",)),
    "packets.c": ("a message in p packets", ("send_split", "main")),
    "hops.c": ("particles move by one rank in each of p rounds", ("shift", "migrate", "main")),
    "translate.c": ("each rank translates the ranks of all", ("find_peers", "main")),
    "tree_lists.c": ("lists that double in each round", ("exchange_lists", "main")),
    "journal.c": ("each rank reads the journal of all", ("find_last", "main")),
    "pvtu.cpp": ("rank 0 copies a text for each piece", ("add_piece", "write_index", "main")),
    "merge_sort.cpp": ("rank 0 merges the keys of all", ("merge_runs", "sort_tree", "main")),
    "vector_clock.cpp": ("a clock of all ranks in each message", ("exchange", "merge", "main")),
    "faces.cpp": ("strong scaling, each rank matches the faces of all", ("match_faces", "main")),
    "checkers.cpp": (
        "rank 0 receives and checks the blocks of all",
        ("receive_blocks", "check_blocks", "checksum"),
    ),
    "elliptic.f90": (
        "p times the iterations for p times the cells",
        ("solve", "multiply", "dot", "swap_edges", "MAIN__", "main"),
    ),
    "banded.f90": (
        "a band as wide as there are ranks",
        ("factor_band", "fill_band", "MAIN__", "main"),
    ),
    "monitor.f90": (
        "strong scaling, rank 0 gathers the whole field",
        ("collect", "statistics", "MAIN__", "main"),
    ),
    # Of the same day, in the evening.
    "degrees.py": ("rank 0 has the hubs of a graph", ("spread", "__init__", "degrees")),
    "merge_streams.py": ("rank 0 merges the traces of all", ("merge_two", "write_trace")),
    "control.py": ("a socket from rank 0 to each rank", ("next_step", "__init__")),
    "bin_owner.py": (
        "positions are compared with the bounds of all",
        ("count_leaving", "bin_owner.py", "<module>"),
    ),
    "box_table.py": ("a property adds up the boxes of all", ("starts", "start_of", "visit")),
    "select_lines.py": (
        "a pattern with the names of all",
        ("select", "make_selector", "<lambda>", "main", "<listcomp>"),
    ),
    "rational.py": ("exact fractions, as long as they have terms", ("add_exactly",)),
    "pivots.py": ("a row is broadcast for each pivot of all", ("eliminate", "main")),
    "housekeeping.py": (
        "each rank writes its journal in another step",
        ("flush", "add", "residual", "main"),
    ),
    "interleave.c": ("data sieving in a file of all ranks", ("dump", "main")),
    "ticket.c": ("a ticket lock in a window", ("acquire", "add_to_word", "add_total", "main")),
    "name_list.c": ("strcat of the names of all", ("join_names", "main", "name_list")),
    "fallback.c": ("rank 0 adds the parts, on many ranks only", ("sum_on_root", "add", "main")),
    "rotating.c": ("one rank encodes the frames of all, in turn", ("write_frame", "encode")),
    "multiway.cpp": (
        "one of the runs of all ranks is searched for each key",
        ("merge_heads", "main", "multiway"),
    ),
    "rank_of.cpp": (
        "distances in a set of the unknowns of all",
        ("number_of", "assemble", "distance", "__distance", "main"),
    ),
    "shards.cpp": ("four ranks keep what all add", ("serve", "apply", "update", "main")),
    "pair_chain.cpp": ("communicators of pairs in a chain", ("merge", "main")),
    "young.f90": ("√p times the checkpoints", ("write_checkpoint", "MAIN__", "main")),
    "legendre.f90": ("√p degrees at each point", ("to_grid", "MAIN__", "main")),
    "regions.f90": (
        "strong scaling, as many parallel regions",
        ("relax_colours", "relax_colours (parallel 1)", "MAIN__", "main"),
    ),
    # Of 2026-12-01; of the twenty-four, those about which something was wrong or missing at first.
    "coupling.py": ("the roots of two models gather and exchange all", ("exchange",)),
    "stepper_log.py": ("all ranks open one log in each step", ("write",)),
    "tree_reduce.py": ("a tree whose root has p / 2 children", ("reduce", "broadcast")),
    "prefix_cells.c": (
        "each rank counts what all ranks before it have",
        ("count_unknowns", "first_unknown"),
    ),
    "deal_blocks.cpp": ("strong scaling, blocks of a triangle in order", ("block",)),
    "dht.cpp": ("three ranks own all keys", ("route", "insert")),
    "contacts.c": ("each particle is compared with the slabs of all", ("find_slab", "classify")),
    # Of the same day, at noon; of twenty-one, those about which something was missing, or false.
    "snapshots.py": ("rank 0 writes the header of all after each block", ("write_header",)),
    "krylov.f90": ("an all-reduce for each pair of p vectors", ("dot", "orthogonalise")),
    "levels.py": ("all levels of the coarse grid on each rank", ("sum_level",)),
    "hilbert.py": ("each rank orders the blocks of all, time alone", ("order_blocks",)),
}
SECOND = {  # a further limit of a program
    "coupled.py": ("one rank regrids the fluxes of all", ("regrid", "regrid_cell")),
    "pareto.cpp": ("each rank compares all pairs of the elites", ("rank_front",)),
    "wells.f90": ("rank 0 solves for the wells of all", ("solve_wells",)),
}
SIZES = {  # name, values and target of a parameter besides p
    "leak.py": ("steps", (60, 120, 240), 100_000),
    "pairs.cpp": ("n", (1000, 2000, 4000), 100_000),
    "clusters.py": ("n", (1000, 2000, 4000), 100_000),
    "banded.f90": ("n", (1000, 2000, 4000), 100_000),
    "pivots.py": ("n", (8, 16, 32), 1000),
}
POWERS = (1, 2, 4, 8)
SCALES_OF = dict.fromkeys(
    ("translate.c", "tree_lists.c", "merge_sort.cpp", "vector_clock.cpp"), POWERS
)
HEALTHY = (
    *("healthy_farm.py", "healthy_cg.c", "healthy_heat.cpp", "healthy_ocean.f90"),
    *("healthy_hypercube.py", "healthy_torus.c", "healthy_queue.cpp", "healthy_restart.py"),
    *("healthy_slabs.py", "healthy_servers.py", "healthy_wobble.c", "healthy_epochs.cpp"),
    *("healthy_fanout.c", "healthy_multigrid.f90", "healthy_spectral.py", "healthy_faces.py"),
    *("healthy_stats.py", "healthy_tridiag.c", "healthy_tasks.cpp", "healthy_waves.f90"),
    *("healthy_bisect.py", "healthy_logger.py", "healthy_nbx.c", "healthy_fours.f90"),
)


def describe(statement: Statement) -> str:
    """A statement in a cell of the table: status, kind and function."""
    return f"{statement['status']} {statement['kind']} {function_of(statement)}"


def judge(
    program: str,
    plant: tuple[str, tuple[str, ...]],
    planted: Sequence[Statement],
    repaired: Sequence[Statement],
) -> str:
    """A row of the table."""
    text, functions = plant
    about = [i for i, its in enumerate(planted) if function_of(its) in functions]
    statement = planted[about[0]] if about else None
    cells = [
        program,
        text,
        describe(planted[0]) if planted else "nothing",
        f"statement {about[0] + 1}" if about else "no",
        (statement["law"] or "none") + (", exact" * statement["exact"]) if statement else "-",
        (statement["where"] or "-") if statement else "-",
        ", ".join(describe(its) for its in repaired) or "-",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="names without their endings")
    parser.add_argument("--scales", nargs="+", type=int, help="numbers of ranks, of all programs")
    parser.add_argument("--keep", help="directory for the campaigns; existing ones are used again")
    options = parser.parse_args()
    print("| program | planted | said first | named | law | where | of the repaired program |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(options.keep or temporary).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        for program in PLANTS:
            stem = Path(program).stem
            if options.only and stem not in options.only:
                continue
            command = make_command(SOURCES / program, directory)
            if command is None:
                print(f"| {program} | {PLANTS[program][0]} | not run: no compiler | | | | |")
                continue
            scales = options.scales or SCALES_OF.get(program, SCALES)
            how = {"scales": scales, "target": TARGET}
            if program in SIZES:
                name, sizes, largest = SIZES[program]
                target = f"{TARGET},{name}={largest}"
                how |= {"target": target, "parameter": name, "sizes": sizes}
            planted = diagnose(command, directory / f"{stem}.insitu", **how)
            words = [*command, "repaired"]
            repaired = diagnose(words, directory / f"{stem}-repaired.insitu", **how)
            for plants in (PLANTS, SECOND):
                if program in plants:
                    print(judge(program, plants[program], planted, repaired), flush=True)
        for program in HEALTHY:
            stem = Path(program).stem
            if options.only and stem not in options.only:
                continue
            command = make_command(SOURCES / program, directory)
            if command is None:
                continue
            how = {"scales": options.scales or SCALES, "target": TARGET}
            statements = diagnose(command, directory / f"{stem}.insitu", **how)
            false = ", ".join(map(describe, statements)) or "-"
            print(f"| {program} | nothing | | | | | {false} |", flush=True)


if __name__ == "__main__":
    main()
