/* Sampling: the CPU time of functions that were not built for it.
 *
 * Each thread has a timer of its own CPU time, which stands still while the thread waits: no system call is
 * interrupted. At a tick the handler reads the stack (unwind.c) and counts a sample in the row of the innermost
 * function. Samples inside MPI calls are dropped, because these are measured exactly.
 *
 * The first tick of a thread comes at a random moment of the first interval, so that the expected number of samples is
 * the CPU time times the rate, also for threads that end before a whole one. Timers are looked at when the kernel
 * ticks, so threads of a few milliseconds lose samples that were due. How many samples a tick counts follows from the
 * CPU time since the last one: the kernel drops ticks of a timer that is set before it looks at it, as in a thread that
 * blocks its signals many times per millisecond.
 *
 * Where threads share a processor they begin to run when the kernel ticks, too, so that a late sample falls into the
 * function that runs next more often than into its own. Threads that are preempted often have the task clock
 * (task_clock.c), which ticks when a sample is due, but not while they run in the kernel. The timer then finds the
 * system call.
 *
 * The signal is SIGURG, which is ignored by default. A program that handles it itself gets it, and sampling ends when
 * one comes that is not ours; what it reads of the signal and of the alternate stack is what it would read without us
 * (sample_signals.c). While a thread blocks the signal its timer is off, so that the signal is never pending for
 * sigwait, sigsuspend or a signalfd. The handler runs on an alternate stack, because stacks of coroutines may be small.
 * A thread whose program has set a smaller one is not sampled. */
#define _GNU_SOURCE
#include "sample.h"

#include "eh_frame.h"
#include "sample_context.h"
#include "table.h"
#include "task_clock.h"
#include "unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SIGNAL INSITU_SAMPLE_SIGNAL
#define PAGE 4096u
/* Address space for the handler, besides the registers that the kernel stores. Only touched pages take memory; handlers
 * of the program that ask for an alternate stack without having one run here, too. */
#define STACK_BYTES (256u << 10)
/* What an alternate stack of the program must have for the handler: it took less than 3 KiB, and what a handler of the
 * program uses comes on top. The frames that the kernel stores, two if our handler interrupts one of the program, are
 * not part of it. */
#define ROOM_BYTES 4096u
#define SMALL_STACK "its alternate stack for signals is small"
/* A thread has the task clock if it was preempted so often in so much CPU time. Starting it takes some 20 us, and each
 * switch to another thread about 2 us more than without (in a virtual machine), together at most 1 %. What page faults
 * take, 0.3 to 1 us each, is seen by the timer alone. */
#define CHOOSE_NS 50000000
#define PREEMPTIONS 2
#define SWITCHES 200
#define FAULTS 5000
/* The clock and the thread's CPU time may differ by so much at a tick. */
#define GRACE_NS 200000
/* How often to look for a system call after a tick in the kernel: whenever the kernel ticks. */
#define LOOK_NS 1000000

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

/* What a sampled thread has. */
struct sampler {
  int timer; /* the kernel's number of it */
  int is_main, is_running;
  int has_room;         /* on the alternate stack */
  ptrdiff_t index;      /* of the thread, in `timers` */
  int64_t next_ns;      /* CPU time of the thread at which the next sample is due, while the timer is running */
  int64_t remaining_ns; /* until then, while it is off; below 0 if the sample was due and not taken */
  int64_t choose_ns;    /* CPU time of the thread at which to check whether the task clock suits it */
  struct rusage usage;  /* at the last such check */
  char *stack;          /* NULL if the thread had one */
  size_t stack_bytes;
};

static __thread struct sampler *own; /* NULL in threads that are not sampled */
static int64_t interval_ns;
static size_t frame_bytes; /* at most, of what the kernel stores for a signal */
static pthread_key_t thread_key;
/* Read relaxed: a thread that sees it late takes a sample more, or none. */
static _Atomic int is_sampling;
/* 1 + the kernel's number of the timer of each thread, 0 for none. */
static _Atomic int timers[INSITU_THREADS];
static struct insitu_task_clock clocks[INSITU_THREADS];
static const char marker; /* its address identifies our timers */
/* The linker sets them around what the compiler's calls execute; see compiled.h. */
extern const char __start_insitu_timing[] __attribute__((visibility("hidden")));
extern const char __stop_insitu_timing[] __attribute__((visibility("hidden")));

typedef int (*Action)(int, const struct sigaction *, struct sigaction *);
typedef int (*Mask)(int, const sigset_t *, sigset_t *);
typedef int (*Stack)(const stack_t *, stack_t *);
static Action next_action;
static Mask next_sigmask;
static Stack next_stack;

__attribute__((constructor)) static void find_next(void) {
  next_action = (Action)dlsym(RTLD_NEXT, "sigaction");
  next_sigmask = (Mask)dlsym(RTLD_NEXT, "pthread_sigmask");
  next_stack = (Stack)dlsym(RTLD_NEXT, "sigaltstack");
}

/* ---- CPU time ------------------------------------------------------------------------------------------------- */

static struct insitu_task_clock *get_clock(const struct sampler *sampler) {
  return &clocks[sampler->index];
}

static int has_clock(const struct sampler *sampler) {
  return atomic_load_explicit(&get_clock(sampler)->page, memory_order_relaxed) != NULL;
}

/* Return how many samples are due, and take them off the account. */
static uint64_t take_due(struct sampler *sampler, int64_t now_ns) {
  int64_t late_ns = now_ns - sampler->next_ns;
  if (late_ns < 0) return 0;
  int64_t due = late_ns / interval_ns + 1;
  sampler->next_ns += due * interval_ns;
  return (uint64_t)due;
}

/* ---- what sends the signal -------------------------------------------------------------------------------------- */

static struct timespec to_timespec(int64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

static const struct itimerspec never;

static int end_timer(const struct sampler *sampler) {
  return !syscall(SYS_timer_settime, sampler->timer, 0, &never, NULL);
}

static int set_timer(const struct sampler *sampler, int64_t wait_ns, int64_t again_ns) {
  const struct itimerspec times = {.it_interval = to_timespec(again_ns), .it_value = to_timespec(wait_ns)};
  if (syscall(SYS_timer_settime, sampler->timer, 0, &times, NULL)) return 0;
  /* Sequentially consistent: insitu_sample_stop stops this timer, or is seen here. */
  if (!atomic_load(&is_sampling)) end_timer(sampler);
  return 1;
}

static void start_timer(struct sampler *sampler) {
  sampler->next_ns = (int64_t)insitu_thread_cpu_ns() + sampler->remaining_ns;
  sampler->is_running = 1;
  atomic_signal_fence(memory_order_seq_cst);
  if (!set_timer(sampler, sampler->remaining_ns > 0 ? sampler->remaining_ns : 1, interval_ns)) sampler->is_running = 0;
}

static void stop_timer(struct sampler *sampler) {
  if (!sampler->is_running) return;
  sampler->is_running = 0; /* first: the task clock may tick in between, and then sets the timer */
  atomic_signal_fence(memory_order_seq_cst);
  if (!end_timer(sampler)) { /* in a child of vfork(), which must not stop the clock of its parent */
    sampler->is_running = 1;
    return;
  }
  int had_clock = insitu_task_clock_stop(get_clock(sampler));
  sampler->remaining_ns = sampler->next_ns - (int64_t)insitu_thread_cpu_ns();
  while (had_clock && sampler->remaining_ns < 0) sampler->remaining_ns += interval_ns; /* ticks that are not sent */
}

/* Whether the task clock suits a thread by what happened to it since the last time. */
static int suits_clock(struct sampler *sampler) {
  struct rusage usage;
  if (syscall(SYS_getrusage, RUSAGE_THREAD, &usage)) return 0;
  const struct rusage *before = &sampler->usage;
  int64_t preemptions = usage.ru_nivcsw - before->ru_nivcsw;
  int64_t switches = preemptions + usage.ru_nvcsw - before->ru_nvcsw;
  int64_t faults = usage.ru_minflt - before->ru_minflt;
  sampler->usage = usage;
  return preemptions >= (has_clock(sampler) ? 1 : PREEMPTIONS) && switches <= SWITCHES && faults <= FAULTS;
}

static void choose_clock(struct sampler *sampler, int64_t now_ns) {
  if (now_ns < sampler->choose_ns) return;
  sampler->choose_ns = now_ns + CHOOSE_NS;
  int is_suited = suits_clock(sampler);
  if (is_suited == has_clock(sampler)) return;
  if (!is_suited) {
    stop_timer(sampler);
    start_timer(sampler);
  } else if (insitu_task_clock_start(get_clock(sampler), SIGNAL, interval_ns)) {
    sampler->next_ns = now_ns + interval_ns;
    set_timer(sampler, interval_ns + GRACE_NS, LOOK_NS);
    if (!atomic_load(&is_sampling)) insitu_task_clock_stop(get_clock(sampler)); /* like the timer */
  }
}

/* Return whether a sample is due because the task clock has ticked. */
static uint64_t take_tick(struct sampler *sampler, int64_t now_ns) {
  sampler->next_ns = now_ns + interval_ns;
  set_timer(sampler, interval_ns + GRACE_NS, LOOK_NS);
  return 1;
}

/* Return how many samples are due because the clock ticked in the kernel and did not say so. They count for the first
 * function that is seen in a system call afterwards, at a tick of the kernel, or for none: for an MPI call that was
 * seen before, or where the clock ticks again. */
static uint64_t take_unsent(struct sampler *sampler, int64_t now_ns, int is_in_call) {
  if (!is_in_call || now_ns < sampler->next_ns + GRACE_NS) return 0;
  uint64_t due = take_due(sampler, now_ns);
  set_timer(sampler, sampler->next_ns - now_ns + GRACE_NS, LOOK_NS);
  return due;
}

/* ---- the handler ---------------------------------------------------------------------------------------------- */

/* Count samples, and what timing compiled functions takes, also those that are not recorded any more. */
static void count_taken(const void *context, uint64_t due, int is_tick) {
  uintptr_t pc = insitu_context_pc(context);
  struct insitu_header *header = insitu_table->header;
  /* Relaxed: only counts. */
  __atomic_fetch_add(&header->samples_taken, due, __ATOMIC_RELAXED);
  __atomic_fetch_add(&header->samples_precise, is_tick, __ATOMIC_RELAXED);
  if (pc >= (uintptr_t)__start_insitu_timing && pc < (uintptr_t)__stop_insitu_timing)
    __atomic_fetch_add(&header->samples_timing, due, __ATOMIC_RELAXED);
}

static int is_of_clock(const siginfo_t *info) {
  return own && insitu_task_clock_sent(get_clock(own), info);
}

int insitu_sample_sent(const siginfo_t *info) {
  return (info->si_code == SI_TIMER && info->si_value.sival_ptr == (void *)&marker) || is_of_clock(info);
}

/* Whether the process has a timer that it did not set by a call of sample_signals.c: it was set before this program was
 * executed, or by the C library itself, as in programs built with -pg. */
static int has_timers(void) {
  struct itimerval times;
  for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++)
    if (!syscall(SYS_getitimer, which, &times) && insitu_sample_meets(which, &times)) return 1;
  return 0;
}

void insitu_sample_take(siginfo_t *info, void *context) {
  if (!insitu_sample_sent(info)) return insitu_sample_pass_on(info, context);
  struct insitu_thread *self = insitu_self;
  struct sampler *sampler = own;
  if (!insitu_is_on || !self || !sampler || !sampler->is_running) return;
  int saved = errno;
  if (sampler->is_main && has_timers()) insitu_sample_refuse(INSITU_SAMPLE_TIMERS);
  int64_t now_ns = (int64_t)insitu_thread_cpu_ns();
  int is_tick = is_of_clock(info);
  uint64_t due = 0;
  if (is_tick) due = take_tick(sampler, now_ns);
  else if (has_clock(sampler)) due = take_unsent(sampler, now_ns, self->in_mpi || insitu_context_is_in_call(context));
  else due = take_due(sampler, now_ns);
  if (due) count_taken(context, due, is_tick);
  if (due && !self->in_mpi) insitu_unwind_sample(self, context, due);
  if (insitu_sample_is_on()) choose_clock(sampler, now_ns);
  errno = saved;
}

/* ---- one thread ----------------------------------------------------------------------------------------------- */

/* Choose the first tick, uniformly within an interval [Steele, Lea, Flood 2014, the mixing function of SplitMix]. */
static int64_t choose_phase(void) {
  uint64_t draw = insitu_ticks() ^ (uint64_t)syscall(SYS_gettid) << 40;
  draw = (draw ^ draw >> 30) * 0xBF58476D1CE4E5B9u;
  draw = (draw ^ draw >> 27) * 0x94D049BB133111EBu;
  draw ^= draw >> 31;
  return 1 + (int64_t)(draw % (uint64_t)interval_ns);
}

/* Whether our handler has room on an alternate stack, also while it interrupts a handler of the program there. */
static int has_room(const stack_t *stack) {
  return stack->ss_flags & SS_DISABLE || stack->ss_size >= 2 * frame_bytes + ROOM_BYTES;
}

/* Map the pages of our stack. Below it is a page that cannot be used. */
static void map_stack(struct sampler *sampler) {
  size_t bytes = (STACK_BYTES + PAGE + frame_bytes + PAGE - 1) / PAGE * PAGE;
  char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return;
  if (mprotect(pages, PAGE, PROT_NONE)) {
    munmap(pages, bytes);
    return;
  }
  sampler->stack = pages;
  sampler->stack_bytes = bytes;
}

/* Give the thread an alternate stack for signals, unless the program has set one. */
static void set_stack(struct sampler *sampler) {
  stack_t before, stack = {0};
  if (syscall(SYS_sigaltstack, NULL, &before)) return;
  sampler->has_room = has_room(&before);
  if (!(before.ss_flags & SS_DISABLE)) return;
  if (!sampler->stack) map_stack(sampler);
  if (!sampler->stack) return;
  stack.ss_sp = sampler->stack + PAGE;
  stack.ss_size = sampler->stack_bytes - PAGE;
  syscall(SYS_sigaltstack, &stack, NULL);
}

static int is_our_stack(const struct sampler *sampler, const stack_t *stack) {
  return sampler->stack && stack->ss_sp == sampler->stack + PAGE;
}

/* Runs when a sampled thread ends. */
static void end_thread(void *value) {
  struct sampler *sampler = value;
  stack_t stack;
  own = NULL;
  if (!insitu_is_on) return; /* a child of fork has no timers of ours; a restricted process makes no calls */
  atomic_store(&timers[sampler->index], 0);
  insitu_sample_forget_thread(sampler->index);
  insitu_task_clock_stop(get_clock(sampler));
  syscall(SYS_timer_delete, sampler->timer);
  int is_used = 1;
  if (!syscall(SYS_sigaltstack, NULL, &stack)) is_used = is_our_stack(sampler, &stack);
  if (is_used && !(stack.ss_flags & SS_ONSTACK)) {
    stack.ss_flags = SS_DISABLE;
    is_used = syscall(SYS_sigaltstack, &stack, NULL) != 0;
  }
  if (!is_used && sampler->stack) munmap(sampler->stack, sampler->stack_bytes);
  munmap(sampler, sizeof *sampler);
}

int insitu_sample_hold(void) {
  struct sampler *sampler = own;
  if (__builtin_expect(!sampler || !insitu_is_on || !sampler->is_running, 1)) return 0;
  int saved = errno;
  stop_timer(sampler);
  errno = saved;
  return !sampler->is_running;
}

void insitu_sample_resume(void) {
  struct sampler *sampler = own;
  if (!sampler || !insitu_is_on || sampler->is_running || !sampler->has_room || !insitu_sample_is_on()) return;
  int saved = errno;
  start_timer(sampler);
  errno = saved;
}

static int is_blocked(void) {
  sigset_t mask;
  return !next_sigmask || next_sigmask(SIG_BLOCK, NULL, &mask) || sigismember(&mask, SIGNAL);
}

void insitu_sample_release(void) {
  const struct sampler *sampler = own;
  if (__builtin_expect(!sampler || !insitu_is_on || sampler->is_running || !sampler->has_room, 1)) return;
  if (!insitu_sample_is_on()) return;
  int saved = errno;
  if (!is_blocked()) insitu_sample_resume();
  errno = saved;
}

/* Tell in the header why the process is not sampled, or a thread of it. */
static void refuse(const char *reason) {
  strncpy(insitu_table->header->sampling_refused, reason, sizeof insitu_table->header->sampling_refused - 1);
}

int insitu_sample_thread(void) {
  struct insitu_thread *self = insitu_thread_self();
  if (!self || !insitu_unwind_prepare(self)) return ENOMEM;
  struct sampler *sampler = mmap(NULL, sizeof *sampler, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (sampler == MAP_FAILED) return ENOMEM;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL};
  event.sigev_value.sival_ptr = (void *)&marker;
  event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
  int failed = syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &sampler->timer) ? errno : 0;
  if (!failed) failed = pthread_setspecific(thread_key, sampler);
  if (failed) {
    munmap(sampler, sizeof *sampler);
    return failed;
  }
  set_stack(sampler);
  sampler->remaining_ns = choose_phase();
  sampler->index = self - insitu_table->threads;
  insitu_task_clock_stop(get_clock(sampler)); /* of a thread that has ended without a word */
  atomic_store(&timers[sampler->index], sampler->timer + 1);
  own = sampler;
  insitu_sample_know_thread(sampler->index);
  insitu_sample_release();
  if (!sampler->has_room) refuse(SMALL_STACK);
  return 0;
}

/* ---- the process ---------------------------------------------------------------------------------------------- */

void insitu_sample_start(unsigned per_second) {
  struct sigaction before,
      action = {.sa_sigaction = insitu_sample_enter, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  if (!per_second) return;
  if (!next_action) find_next(); /* the constructor that starts the measurement may run first */
  if (!insitu_object_finds_in_handlers()) return refuse("the C library is older than glibc 2.35");
  if (!insitu_sample_has_late_signals()) return refuse("the kernel is older than Linux 5.10 (6.1)");
  if (!next_action || !next_sigmask) return refuse("the C library lacks a function");
  if (next_action(SIGNAL, NULL, &before) || before.sa_handler != SIG_DFL) return refuse("the program uses SIGURG");
  if (has_timers()) return refuse(INSITU_SAMPLE_TIMERS);
  if (pthread_key_create(&thread_key, end_thread)) return refuse("no thread-specific data is left");
  interval_ns = 1000000000 / (int64_t)per_second;
  frame_bytes = getauxval(AT_MINSIGSTKSZ);
  if (!frame_bytes) frame_bytes = PAGE; /* x86 before Linux 5.14; AVX-512 takes 3.4 KiB */
  /* Signal 32 of the C library, too, which sigfillset leaves out: a thread that is cancelled asynchronously must not
   * leave the handler while the descriptor of its task clock is open. */
  sigfillset(&action.sa_mask);
  memset(&action.sa_mask, 0xff, sizeof(uint32_t));
  if (next_action(SIGNAL, &action, NULL)) return refuse("the signal handler was refused");
  atomic_store_explicit(&is_sampling, 1, memory_order_relaxed);
  if (insitu_sample_thread()) {
    insitu_sample_stop();
    return refuse("no timer of CPU time can be created");
  }
  own->is_main = 1;
  insitu_table->header->sample_hz = per_second;
}

unsigned insitu_sample_rate_in_python;

void insitu_sample_start_in_python(const void *evaluator) {
  if (!insitu_sample_rate_in_python) return;
  if (dlsym(RTLD_DEFAULT, "sigaction") != (void *)sigaction) return refuse("insitu's library is not preloaded");
  if (!insitu_unwind_python((uintptr_t)evaluator)) return refuse("this Python hides its evaluator");
  insitu_sample_start(insitu_sample_rate_in_python);
}

/* Whether the handler is still ours. */
static int has_handler(void) {
  struct sigaction action;
  return !next_action(SIGNAL, NULL, &action) && action.sa_sigaction == insitu_sample_enter;
}

void insitu_sample_stop(void) {
  if (!atomic_exchange(&is_sampling, 0)) return;
  /* A child of fork has no timers of ours. The timers exist until their threads end: the kernel gives none of their
   * numbers to the program. */
  for (size_t i = 0; i < INSITU_THREADS && insitu_is_on; i++) {
    int timer = atomic_load(&timers[i]);
    if (timer) syscall(SYS_timer_settime, timer - 1, 0, &never, NULL);
    insitu_task_clock_stop(&clocks[i]);
  }
  if (own) own->is_running = 0;
  if (has_handler()) insitu_sample_restore();
}

void insitu_sample_check(void) {
  if (insitu_sample_is_on() && !has_handler()) insitu_sample_refuse("the program uses SIGURG");
}

int insitu_sample_is_on(void) {
  return atomic_load_explicit(&is_sampling, memory_order_relaxed);
}

void insitu_sample_refuse(const char *reason) {
  int saved = errno;
  insitu_sample_stop();
  if (insitu_is_owner()) refuse(reason);
  errno = saved;
}

/* ---- the alternate stack of the program ------------------------------------------------------------------------- */

EXPORT int sigaltstack(const stack_t *restrict stack, stack_t *restrict before) {
  if (!next_stack) find_next();
  if (!next_stack) return errno = ENOSYS, -1;
  struct sampler *sampler = own;
  if (sampler && stack && !has_room(stack)) insitu_sample_hold();
  int failed = next_stack(stack, before);
  if (!sampler) return failed;
  if (!failed && before && is_our_stack(sampler, before)) *before = (stack_t){.ss_flags = SS_DISABLE};
  if (!stack || !insitu_is_on) return failed; /* a child of fork is not sampled */

  int saved = errno;
  set_stack(sampler); /* ours again, where the program has none any more */
  if (!sampler->has_room) refuse(SMALL_STACK);
  insitu_sample_release();
  errno = saved;
  return failed;
}
