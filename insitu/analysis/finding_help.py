"""What each finding means, and what to do about it.

`insitu explain` and the reference of the documentation print this registry. The tests compare its
codes with those in the sources.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FindingHelp:
    """The meaning of a finding code, and what to do about such a finding."""

    meaning: str
    action: str


FINDING_HELP = {
    "application-differs": FindingHelp(
        "A run measured another program than the other runs. It is left out.",
        "Give each program a campaign of its own. Builds for each number of ranks are one program "
        "if only that number differs at the end of their names, as in `cg.A.4`; otherwise give all "
        "builds one file name, in folders of their own.",
    ),
    "arguments-differ": FindingHelp(
        "Repetitions at one coordinate were started with different arguments, or some scales with "
        "other arguments than others, though not each with its own. What looks like growth with "
        "a parameter may be due to the arguments.",
        "Name what varies, as in `insitu run --param n=256`; add it to stored runs with `insitu "
        "label`, or leave runs out with `insitu omit`.",
    ),
    "build-differs": FindingHelp(
        "Some runs ran another version of the program than most: another build id, or another "
        "content of the executable or the Python script. What differs between them need not be due "
        "to scale.",
        "Measure them again with one build, or leave them out with `insitu omit`.",
    ),
    "change-not-located": FindingHelp(
        "A series changes its behaviour, but the points do not show between which two coordinates.",
        "Measure a coordinate between the last point before and the first point after the change.",
    ),
    "change-in-grid": FindingHelp(
        "Behaviour changes along one of several parameters, such as where an algorithm is replaced "
        "or data no longer fit into a cache. The model describes the runs behind the change, and "
        "predicts larger values only.",
        "Measure more values behind the change if the intervals are wide.",
    ),
    "change-unconfirmed": FindingHelp(
        "The newest run leaves the law of the smaller runs. It was disturbed, or a step or "
        "a new law begins. The prediction interval covers all three.",
        "Make the run that the text names.",
    ),
    "classes-differ": FindingHelp(
        "The number of behaviour classes differs between runs. The text says what was modelled.",
        "Compare the classes of the runs with `insitu classes`; omit a disturbed run with "
        "`insitu omit`.",
    ),
    "classes-diverge": FindingHelp(
        "One behaviour class grows faster than another. The text says what that costs at "
        "larger scales.",
        "Look for the work or the messages that only this class has; `insitu classes` lists "
        "its ranks.",
    ),
    "classes-matched": FindingHelp(
        "Some runs lack some behaviour classes. Clusters were matched by their values and sizes.",
        "Check the matching with `insitu classes`; runs at more scales make it certain.",
    ),
    "divided-unevenly": FindingHelp(
        "Work that N units of are divided among the processes: the slowest has ceil(N / p) of "
        "them. Predictions have these steps; the printed formula is smooth.",
        "Choose numbers of ranks that divide N; more ranks than N do not help.",
    ),
    "few-ranks": FindingHelp(
        "The model describes the few ranks that execute the call path.",
        "Nothing; if its time grows, there is also the finding serial-path.",
    ),
    "functions-truncated": FindingHelp(
        "A program has more functions than insitu remembers. Timing the others takes longer.",
        "Leave out functions that you do not need with `--skip`, or name those you need with "
        "`--only`.",
    ),
    "gpu-launches-unknown": FindingHelp(
        "Kernels or copies of GPUs were launched by calls that insitu did not see. They count for "
        "the program as a whole.",
        "Nothing; the times of the devices are complete.",
    ),
    "gpu-records-lost": FindingHelp(
        "CUPTI had no room for some of its records, so kernels or copies are missing.",
        "Launch fewer kernels per second, or measure fewer iterations.",
    ),
    "gpu-refused": FindingHelp(
        "The program uses GPUs, but what they do is not measured, for the reason that the text "
        "gives. How long the host waits for them is measured.",
        "If CUPTI is missing, set CUDA_HOME to a CUDA toolkit or, for Python, install "
        "`nvidia-cuda-cupti`; if the program or another tool uses CUPTI, switch that off.",
    ),
    "greenlets-untraced": FindingHelp(
        "Greenlets took turns in a thread whose switches insitu does not see. Call paths of these "
        "greenlets are not right.",
        "Import greenlet or gevent in the thread that runs them, and let a trace function that the "
        "program sets call the one that `greenlet.settrace` returns.",
    ),
    "few-values": FindingHelp(
        "A model grows with a parameter that has only two different values. Any power goes through "
        "two values, so the model is unclear at other values of that parameter.",
        "Measure at a third value of the parameter.",
    ),
    "first-point-off": FindingHelp(
        "The smallest run leaves the law of the larger runs, as a single rank or a node that is "
        "not full may do. The model describes the larger runs.",
        "Nothing if the value is 0, as a single rank sends no messages. Else measure another small "
        "scale, or omit the smallest run with `insitu omit`.",
    ),
    "grid-shape": FindingHelp(
        "Values differ between numbers of processes that are a square and those that are twice a "
        "square, as the shapes of two-dimensional grids do. Predictions contain the factor; the "
        "printed formula describes squares.",
        "Prefer square numbers of ranks, or choose the sides of the grid yourself.",
    ),
    "growth-uncertain": FindingHelp(
        "Several functions explain the points about equally well, and differ by a factor of two or "
        "more at four times the largest scale. The prediction interval covers all of them.",
        "Measure a larger scale; `insitu advise` names the run that decides at the lowest cost.",
    ),
    "hidden-interaction": FindingHelp(
        "Two parameters act together in a call path, although its counts depend on one of "
        "them only. Reported by `insitu design --compare`.",
        "Vary both parameters together; `insitu design` does so once the interaction is known.",
    ),
    "iterations-drift": FindingHelp(
        "Iterations of the main loop become slower or faster. Reported by `insitu design "
        "--compare`.",
        "Vary the parameter of the main loop as well.",
    ),
    "iterations-limited": FindingHelp(
        "`insitu run --iterations N` let the program end its main loop after N iterations. Times "
        "and counts are those of N iterations.",
        "Nothing; measure all runs of the campaign with the same N, or with fewer and more to see "
        "what an iteration costs.",
    ),
    "iterations-unlimited": FindingHelp(
        "`insitu run --iterations N` had no effect: the program does not ask whether it may end "
        "its main loop, or made fewer iterations.",
        "Write `if insitu.phase(step): break` at the beginning of an iteration, in C "
        "`if (insitu_iteration()) break;`.",
    ),
    "journal-damaged": FindingHelp(
        "The aggregator's journal was damaged. Nodes of waiting runs may be missing. The "
        "file is kept.",
        "Check the waiting runs with `insitu runs`; repeat those that lack nodes.",
    ),
    "mean-law": FindingHelp(
        "The class was measured at too few coordinates for a law; the law is that of all ranks.",
        "Make a run in which the class exists; `insitu advise` proposes runs.",
    ),
    "measuring-stopped": FindingHelp(
        "A rank restricted itself so that it could not be measured any longer: by a filter of "
        "system calls (seccomp), which ends a process that makes others, or by PR_SET_TSC. The text"
        " gives the reason.",
        "The values of the rank are those until then. Measure a run without the restriction.",
    ),
    "message-refused": FindingHelp(
        "The aggregator received bytes that are not a valid message and refused them.",
        "Use the same version of insitu on all nodes. If the sender is unknown, check who "
        "may reach the port.",
    ),
    "messages-unnumbered": FindingHelp(
        "More than a tenth of the messages of a rank cannot be compared with those of their other "
        "ranks, so that `time_late_sender` and `time_late_receiver` are absent. The text says why.",
        "Nothing is wrong with the run. Receives from named ranks and communicators of their own "
        "for threads make the waiting visible.",
    ),
    "models-damaged": FindingHelp(
        "Stored models or classes are damaged and left out.",
        "Run `insitu refit`, which fits them again from the measured runs.",
    ),
    "models-outdated": FindingHelp(
        "Runs are complete, but the models were fitted before. Those of many call paths take so "
        "long that `insitu run` does not wait for them.",
        "Run `insitu refit`, once for all runs, or wait until the aggregator has fitted them.",
    ),
    "mpi-singletons": FindingHelp(
        "Each rank ran alone, because the launcher belongs to another MPI. The run is "
        "stored but not used for models.",
        "Start the program with the mpiexec of the MPI that it is linked with, by "
        "`--mpiexec PATH`.",
    ),
    "mpi-unseen": FindingHelp(
        "The program initialised MPI by a function whose address it looked up itself, with `dlsym` "
        "or ctypes, or it loads a second MPI library with `dlmopen`. These MPI calls are not "
        "recorded; functions are.",
        "Link the program with MPI, or use mpi4py.",
    ),
    "not-kept": FindingHelp(
        "A run could not be stored, for example because the disk is full. Its tables are "
        "still in place.",
        "Make room, then store the run with `insitu ingest`.",
    ),
    "not-modelled": FindingHelp(
        "A modeler could not use the data. The text gives the reason.",
        "Do what the text says, then run `insitu refit`.",
    ),
    "off-forecast": FindingHelp(
        "Values of a run differ from the forecast of earlier runs. One in twenty "
        "undisturbed runs gets this finding by chance.",
        "Repeat the run. If the repetition agrees with the forecast, leave the disturbed "
        "run out with `insitu omit`.",
    ),
    "other-process": FindingHelp(
        "A wrapper of a rank started another program besides the one whose values are stored.",
        "Nothing, if that program is a helper. Otherwise measure the two in runs of their own.",
    ),
    "outlier-ranks": FindingHelp(
        "A few ranks fit no behaviour class of their call path.",
        "Look at these ranks in `insitu watch`; a slow node or a special task of the rank "
        "explains most.",
    ),
    "partners-truncated": FindingHelp(
        "A rank exchanges messages with so many others that the metric `partners` is absent for "
        "some call paths. All other metrics are complete.",
        "Nothing; counts of messages and bytes still show which ranks behave alike.",
    ),
    "parameter-missing": FindingHelp(
        "A run has no value for a parameter that other runs have. It is not used for models.",
        "Measure the run again with `--param NAME=VALUE`.",
    ),
    "parameter-not-set": FindingHelp(
        "A run does not set a parameter that other runs set, or sets one that most do not. It is "
        "left out, because the parameter may change what is measured.",
        "Add the parameter to the runs without it, as in `insitu label CAMPAIGN p=4#0 n=128`, or "
        "measure them again with `--param NAME=VALUE`.",
    ),
    "point-off": FindingHelp(
        "One run leaves the law of all others by more than noise explains. The model describes the "
        "others.",
        "Run that scale again, or omit the run with `insitu omit`.",
    ),
    "preview": FindingHelp(
        "The coefficients of a model include the newest point; its terms are updated by the "
        "next refit.",
        "Nothing; the next refit follows by itself.",
    ),
    "process-unread": FindingHelp(
        "A process could not read about itself in /proc at its end: it is in a sandbox such as "
        "Landlock, has another root, or no free descriptors. The text says what is missing; counts "
        "and times are not concerned. With an agent, memory is that of its last reading.",
        "Allow the program to read /proc/self, or measure it without the sandbox.",
    ),
    "python-isolated": FindingHelp(
        "Python was started with `-I`, `-E` or `-S`. Its functions are not timed.",
        "Start the program without this option.",
    ),
    "rank-aborted": FindingHelp(
        "A rank ended with an error, by `MPI_Abort` or by a signal.",
        "Read the output of the program; the finding names the rank and its signal or exit code.",
    ),
    "rank-lost": FindingHelp(
        "The end of a rank was never reported. Where several ranks ended so, the text says which "
        "one was the only one outside of MPI: most likely it crashed, and the launcher killed the "
        "others.",
        "Look for a fault of that rank, a node that failed, or a time limit that ended the job; "
        "the run is stored as incomplete.",
    ),
    "rank-signal": FindingHelp(
        "A signal was sent to the run, or ended ranks before they could report it. SIGSEGV is an"
        " access to memory that the program does not have, SIGKILL often a lack of memory, SIGTERM"
        " and SIGXCPU a time limit.",
        "Read the output of the program and of the batch system; the views show what the run"
        " measured until then.",
    ),
    "rank-replaced": FindingHelp(
        "A program replaced itself (exec) by one that insitu does not measure.",
        "Nothing can be measured of that program, unless it is Python 3.11 or newer, or linked "
        "with a shared MPI library.",
    ),
    "rank-silent": FindingHelp(
        "A rank or its node has sent nothing for five heartbeats.",
        "Check the node and its connection; values arrive later if the rank still runs.",
    ),
    "ranks-crowded": FindingHelp(
        "Runs had more ranks than processor cores, or other processes used the cores for a fifth "
        "of the time of a rank. Their times contain waiting for a core, and behaviour classes "
        "follow from counts.",
        "Use times of runs with a free core for each rank; counts, bytes and memory are right "
        "anyway.",
    ),
    "ranks-differ": FindingHelp(
        "Ranks differ by more than noise, but without groups, as in a gradient over the ranks, or "
        "in groups whose sizes and values follow no law of the number of ranks. Their mean is "
        "modelled.",
        "If you know which ranks do more work, write a rule in `[[classes.rules]]`; otherwise "
        "look for slow nodes or uneven work.",
    ),
    "rests-on-one-value": FindingHelp(
        "One value is far from all others and alone supports the growth that the model describes. "
        "Predictions and expectations are unclear.",
        "Make the run that the text names.",
    ),
    "rows-truncated": FindingHelp(
        "A rank had more call paths than its table holds, or called functions for the first time "
        "in signal handlers on a stack of less than 4 KiB, or more than 1,023 timed functions were "
        "active at once. They count as time of their callers, and MPI calls that they make may be "
        "missing.",
        "Limit the recursion with `--recursion`, leave out generated functions, or give the "
        "handlers a larger stack.",
    ),
    "run-disturbed": FindingHelp(
        "All call paths of a run share one factor that its repetitions lack: its node was busy, "
        "throttled or different; or its ranks, unlike those of its repetitions, had to wait for "
        "processor cores. Models do not use its times.",
        "Nothing; repeat the run if three repetitions were few.",
    ),
    "run-omitted": FindingHelp(
        "A run was excluded with `insitu omit`. It is still stored.",
        "`insitu omit --undo` includes it again.",
    ),
    "run-partial": FindingHelp(
        "Some ranks of a run never reported. The run is shown but not used for models.",
        "`insitu ingest` completes it if tables are left; otherwise repeat it.",
    ),
    "run-sealed": FindingHelp(
        "All ranks of a run have reported and the run is stored. Reported by `insitu serve`.",
        "Nothing; this is the normal end of a run.",
    ),
    "samples-unread": FindingHelp(
        "Some samples of a compiled program hit functions whose callers are unknown. They count "
        "for the program as a whole.",
        "Compile the object that the finding names with -fasynchronous-unwind-tables.",
    ),
    "sampling-refused": FindingHelp(
        "`--sample` was requested, but functions could not be sampled. The text gives the reason.",
        "Remove the cause, or build the program with -finstrument-functions.",
    ),
    "stacks-switched": FindingHelp(
        "Functions compiled with `-finstrument-functions` ended that were not open: the program "
        "runs coroutines or fibers on stacks of their own. Counts are right, the call paths and "
        "times of what runs on these stacks are not.",
        "Measure the program without `-finstrument-functions`: MPI calls then have the call paths "
        "that are on their stack.",
    ),
    "stacks-unread": FindingHelp(
        "The callers of some MPI calls are unknown, because a function on the stack has no unwind "
        "table. These calls count for the program as a whole.",
        "Compile the object that the finding names with -fasynchronous-unwind-tables. If it "
        "belongs to the system (the loader, the C library), nothing is to be done.",
    ),
    "segment-short": FindingHelp(
        "Behaviour changes at a scale before or behind which there are too few points for a model "
        "of their own.",
        "Measure the scales that the finding names; the interval says how little is known there.",
    ),
    "serial-path": FindingHelp(
        "One rank, or a few, executes a call path whose time grows with the number of ranks.",
        "Let all ranks share the work, or let several ranks collect from groups.",
    ),
    "subinterpreters": FindingHelp(
        "The program created Python subinterpreters. Functions in them are not timed.",
        "Measure the work of subinterpreters in processes of their own.",
    ),
    "table-damaged": FindingHelp(
        "A table could not be read. The file was left in place.",
        "Check the file system; repeat the run if ranks are missing.",
    ),
    "threads-truncated": FindingHelp(
        "A program had more threads at a time than the table holds. What the remaining ones "
        "did is not measured.",
        "Use fewer threads at a time for the measurement.",
    ),
    "teams-differ": FindingHelp(
        "Runs at one coordinate had parallel regions of OpenMP with different numbers of threads, "
        "as with another OMP_NUM_THREADS. The models take them for repetitions.",
        "Name what varies, as in `insitu run --param threads=2`; add it to stored runs with "
        "`insitu label`, or leave runs out with `insitu omit`.",
    ),
    "throttled": FindingHelp(
        "Some functions were called so often that timing them would exceed the budget. They "
        "count as part of their callers.",
        "Raise the budget if their times matter; counts of MPI calls and memory are "
        "complete anyway.",
    ),
    "timing-costly": FindingHelp(
        "By samples of CPU time, timing the functions of a program that was built with "
        "-finstrument-functions takes more than the budget. Functions that are no longer timed "
        "still call insitu.",
        "`insitu export CAMPAIGN --to gcc-filter` writes options for a build that leaves them out.",
    ),
    "too-few-points": FindingHelp(
        "A call path was measured at fewer coordinates than a model needs.",
        "Measure more scales; `insitu advise` names the best one.",
    ),
    "evaluator-replaced": FindingHelp(
        "In Python 3.11, another tool (a debugger, a compiler such as TorchDynamo) took the place "
        "of the frame evaluator that times functions, in a way that insitu does not see. Calls "
        "from then on are not counted; their time is that of their callers.",
        "Measure with Python 3.12 or newer, or without the other tool.",
    ),
    "events-unread": FindingHelp(
        "insitu failed to compute what follows from the events of all ranks: how long ranks "
        "waited, for what, and how long chains of messages are. All other values are complete.",
        "Please report the text of the finding. A newer version of insitu can read later runs.",
    ),
    "waiting-unclear": FindingHelp(
        "How long ranks waited in some calls is not known: on intercommunicators, for some windows "
        "and files, and across nodes where a call completes collectives and more, or the clocks "
        "of the nodes are not known well enough. The text says which calls, and how long they "
        "took.",
        "Nothing is wrong with the run. Runs on one node show the waiting in any case; across "
        "nodes, more calls, or calls in which different nodes are late, bound the clocks better.",
    ),
}

# Kinds of statements of `insitu diagnose`.
STATEMENT_HELP = {
    "bytes": FindingHelp(
        "Each rank sends or receives more bytes on more ranks, as with an allgather of everything.",
        "Exchange sums, or only what neighbours need: a reduction, a neighbourhood collective, or "
        "a sparse exchange.",
    ),
    "communication": FindingHelp(
        "The time in MPI calls of a function grows.",
        "See whether bytes, messages or waiting grow; without any of them, measure on a network.",
    ),
    "compute": FindingHelp(
        "A rank does more work on more ranks, although its share of the problem is the same.",
        "Look for loops over all ranks, and for data that every rank processes as a whole.",
    ),
    "efficiency": FindingHelp(
        "Load balance or communication efficiency, as POP defines them, is predicted to fall below"
        " 80 % on more ranks.",
        "`insitu efficiency` shows which scales and phases are concerned. A low load balance asks "
        "for another distribution of work, a low communication efficiency for fewer or "
        "overlapping messages.",
    ),
    "files": FindingHelp(
        "A rank opens more files, or reads or writes more, on more ranks. A file system serves "
        "opening and creating files one after the other.",
        "Write one file with MPI-IO or a library on top of it, one file per node, or let a few "
        "ranks write for groups.",
    ),
    "gpu": FindingHelp(
        "Each rank launches more kernels or copies on a GPU, or copies more, on more ranks.",
        "Launch one kernel for all that a step needs, keep data on the device, and copy sums.",
    ),
    "handles": FindingHelp(
        "Each rank creates MPI objects, such as datatypes, communicators or persistent requests, "
        "and frees less than half of them.",
        "Create them once, before the loop, or free each of them when it is no longer needed.",
    ),
    "imbalance": FindingHelp(
        "The slowest rank has more work than the mean; the others wait for it.",
        "Distribute by cost and not by number, or let ranks fetch work when they are idle.",
    ),
    "memory": FindingHelp(
        "Each rank holds more heap memory on more ranks, as with a table of all ranks.",
        "Keep only what the rank needs, share one table per node, or look entries up on demand.",
    ),
    "messages": FindingHelp(
        "Each rank sends more messages, or makes more collective calls, on more ranks.",
        "Use one collective operation instead of a loop over ranks, or combine messages.",
    ),
    "run": FindingHelp(
        "A run is incomplete and left out, its program ended with an error, or other processes "
        "disturbed it.",
        "Repeat it, or leave it out with `insitu omit CAMPAIGN RUN`; `insitu runs` lists all.",
    ),
    "serial": FindingHelp(
        "A single rank does work for all others, such as collecting their output.",
        "Use a reduction, MPI-IO, or several ranks that collect from groups.",
    ),
    "waiting": FindingHelp(
        "Ranks wait for others in an MPI call.",
        "Look for the imbalance that makes others late; `insitu classes` shows who differs.",
    ),
}
