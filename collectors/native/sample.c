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
 * The signal is SIGURG, which is ignored by default. A program that handles it itself gets it, and sampling ends; what
 * it reads of the signal and of the alternate stack is what it would read without us. While a thread blocks the signal
 * its timer is off, so that the signal is never pending for sigwait, sigsuspend or a signalfd. The handler runs on an
 * alternate stack, because stacks of coroutines may be small. */
#define _GNU_SOURCE
#include "sample.h"

#include "eh_frame.h"
#include "image.h"
#include "table.h"
#include "unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SIGNAL SIGURG
#define PAGE 4096u
/* Address space for the handler, besides the registers that the kernel stores. Only touched pages take memory; handlers
 * of the program that ask for an alternate stack without having one run here, too. */
#define STACK_BYTES (256u << 10)
#define STARTS 256u /* threads that are being started at a time; others are not sampled */

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

/* What a sampled thread has. */
struct sampler {
  int timer; /* the kernel's number of it */
  int is_running;
  int64_t next_ns;      /* CPU time of the thread at which the next sample is due, while the timer is running */
  int64_t remaining_ns; /* until then, while it is off; below 0 if the sample was due and not taken */
  char *stack;          /* NULL if the thread had one */
  size_t stack_bytes;
};

static __thread struct sampler *own; /* NULL in threads that are not sampled */
static int64_t interval_ns;
static pthread_key_t thread_key;
/* Relaxed: a thread that sees it late takes a sample more, or none. */
static _Atomic int is_sampling;
static const char marker; /* its address identifies our timers */
/* The linker sets them around what the compiler's calls execute; see compiled.h. */
extern const char __start_insitu_timing[] __attribute__((visibility("hidden")));
extern const char __stop_insitu_timing[] __attribute__((visibility("hidden")));
/* What the program set for the signal: SIG_DFL or SIG_IGN, with the flags and the mask that it gave. */
static struct sigaction of_program;

typedef int (*Action)(int, const struct sigaction *, struct sigaction *);
typedef int (*Mask)(int, const sigset_t *, sigset_t *);
typedef int (*Stack)(const stack_t *, stack_t *);
typedef int (*Create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef void (*(*Install)(int, void (*)(int)))(int);
typedef long (*Trace)(int, pid_t, void *, void *);
static Action next_action;
static Mask next_sigmask, next_procmask;
static Create next_create;
static Stack next_stack;
static Install next_signal, next_sysv_signal;
static Trace next_trace;

__attribute__((constructor)) static void find_next(void) {
  next_action = (Action)dlsym(RTLD_NEXT, "sigaction");
  next_sigmask = (Mask)dlsym(RTLD_NEXT, "pthread_sigmask");
  next_procmask = (Mask)dlsym(RTLD_NEXT, "sigprocmask");
  next_create = (Create)dlsym(RTLD_NEXT, "pthread_create");
  next_stack = (Stack)dlsym(RTLD_NEXT, "sigaltstack");
  next_signal = (Install)dlsym(RTLD_NEXT, "signal");
  next_sysv_signal = (Install)dlsym(RTLD_NEXT, "__sysv_signal");
  next_trace = (Trace)dlsym(RTLD_NEXT, "ptrace");
}

/* ---- CPU time ------------------------------------------------------------------------------------------------- */

static int64_t thread_ns(void) {
  struct timespec now = {0};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Return how many samples are due, and take them off the account. */
static uint64_t take_due(struct sampler *sampler) {
  int64_t late_ns = thread_ns() - sampler->next_ns;
  if (late_ns < 0) return 0;
  int64_t due = late_ns / interval_ns + 1;
  sampler->next_ns += due * interval_ns;
  return (uint64_t)due;
}

/* ---- the handler ---------------------------------------------------------------------------------------------- */

/* Count what timing compiled functions takes, also those that are not recorded any more. */
static void count_timing(const void *context, uint64_t due) {
  const mcontext_t *machine = &((const ucontext_t *)context)->uc_mcontext;
#if defined(__x86_64__)
  uintptr_t pc = (uintptr_t)machine->gregs[REG_RIP];
#elif defined(__aarch64__)
  uintptr_t pc = machine->pc;
#else
  (void)machine;
  uintptr_t pc = 0;
#endif
  struct insitu_header *header = insitu_table->header;
  /* Relaxed: only counts. */
  __atomic_fetch_add(&header->samples_taken, due, __ATOMIC_RELAXED);
  if (pc >= (uintptr_t)__start_insitu_timing && pc < (uintptr_t)__stop_insitu_timing)
    __atomic_fetch_add(&header->samples_timing, due, __ATOMIC_RELAXED);
}

static void take_sample(int number, siginfo_t *info, void *context) {
  (void)number;
  if (info->si_code != SI_TIMER || info->si_value.sival_ptr != (void *)&marker) return; /* ignored by default */
  struct insitu_thread *self = insitu_self;
  struct sampler *sampler = own;
  if (!insitu_is_on || !self || !sampler || !sampler->is_running) return;
  int saved = errno;
  uint64_t due = take_due(sampler);
  if (due) count_timing(context, due);
  if (due && !self->in_mpi) insitu_unwind_sample(self, context, due);
  errno = saved;
}

/* ---- one thread ----------------------------------------------------------------------------------------------- */

static struct timespec to_timespec(int64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

static void start_timer(struct sampler *sampler) {
  int64_t wait_ns = sampler->remaining_ns > 0 ? sampler->remaining_ns : 1;
  const struct itimerspec times = {.it_interval = to_timespec(interval_ns), .it_value = to_timespec(wait_ns)};
  sampler->next_ns = thread_ns() + sampler->remaining_ns;
  sampler->is_running = 1;
  atomic_signal_fence(memory_order_seq_cst);
  if (syscall(SYS_timer_settime, sampler->timer, 0, &times, NULL)) sampler->is_running = 0;
}

static void stop_timer(struct sampler *sampler) {
  static const struct itimerspec never;
  if (!sampler->is_running || syscall(SYS_timer_settime, sampler->timer, 0, &never, NULL)) return;
  sampler->is_running = 0;
  sampler->remaining_ns = sampler->next_ns - thread_ns();
}

/* Choose the first tick, uniformly within an interval [Steele, Lea, Flood 2014, the mixing function of SplitMix]. */
static int64_t choose_phase(void) {
  uint64_t draw = insitu_ticks() ^ (uint64_t)syscall(SYS_gettid) << 40;
  draw = (draw ^ draw >> 30) * 0xBF58476D1CE4E5B9u;
  draw = (draw ^ draw >> 27) * 0x94D049BB133111EBu;
  draw ^= draw >> 31;
  return 1 + (int64_t)(draw % (uint64_t)interval_ns);
}

/* Give the thread an alternate stack for signals, unless it has one. Below it is a page that cannot be used. */
static void set_stack(struct sampler *sampler) {
  stack_t before, stack = {0};
  if (syscall(SYS_sigaltstack, NULL, &before) || !(before.ss_flags & SS_DISABLE)) return;
  size_t bytes = (STACK_BYTES + PAGE + getauxval(AT_MINSIGSTKSZ) + PAGE - 1) / PAGE * PAGE;
  char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return;
  stack.ss_sp = pages + PAGE;
  stack.ss_size = bytes - PAGE;
  if (mprotect(pages, PAGE, PROT_NONE) || syscall(SYS_sigaltstack, &stack, NULL)) {
    munmap(pages, bytes);
    return;
  }
  sampler->stack = pages;
  sampler->stack_bytes = bytes;
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
  syscall(SYS_timer_delete, sampler->timer);
  if (!syscall(SYS_sigaltstack, NULL, &stack) && is_our_stack(sampler, &stack) && !(stack.ss_flags & SS_ONSTACK)) {
    stack.ss_flags = SS_DISABLE;
    syscall(SYS_sigaltstack, &stack, NULL);
    munmap(sampler->stack, sampler->stack_bytes);
  }
  munmap(sampler, sizeof *sampler);
}

static int is_blocked(void) {
  sigset_t mask;
  return !next_sigmask || next_sigmask(SIG_BLOCK, NULL, &mask) || sigismember(&mask, SIGNAL);
}

/* Begin to sample the calling thread. Returns 0 or an errno. */
static int start_thread(void) {
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
  own = sampler;
  if (!is_blocked()) start_timer(sampler);
  return 0;
}

/* ---- the process ---------------------------------------------------------------------------------------------- */

static void refuse(const char *reason) {
  strncpy(insitu_table->header->sampling_refused, reason, sizeof insitu_table->header->sampling_refused - 1);
}

/* Whether timers of CPU time send their signals on return to the program. Older kernels may send them just before a
 * call waits, which then ends with EINTR. */
static int has_late_signals(void) {
  struct utsname kernel;
  int version, patch;
#if defined(__x86_64__)
  const int least = 5, least_patch = 10;
#else
  const int least = 6, least_patch = 1;
#endif
  if (uname(&kernel) || sscanf(kernel.release, "%d.%d", &version, &patch) != 2) return 0;
  return version > least || (version == least && patch >= least_patch);
}

void insitu_sample_start(unsigned per_second) {
  struct sigaction before, action = {.sa_sigaction = take_sample, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  if (!per_second) return;
  if (!insitu_object_finds_in_handlers()) return refuse("the C library is older than glibc 2.35");
  if (!has_late_signals()) return refuse("the kernel is older than Linux 5.10 (6.1)");
  if (!next_action || !next_sigmask || !next_procmask || !next_create) return refuse("the C library lacks a function");
  if (next_action(SIGNAL, NULL, &before) || before.sa_handler != SIG_DFL) return refuse("the program uses SIGURG");
  if (pthread_key_create(&thread_key, end_thread)) return refuse("no thread-specific data is left");
  interval_ns = 1000000000 / (int64_t)per_second;
  sigfillset(&action.sa_mask);
  if (next_action(SIGNAL, &action, NULL)) return refuse("the signal handler was refused");
  atomic_store_explicit(&is_sampling, 1, memory_order_relaxed);
  if (start_thread()) {
    insitu_sample_stop();
    return refuse("no timer of CPU time can be created");
  }
  insitu_table->header->sample_hz = per_second;
}

unsigned insitu_sample_rate_in_python;

void insitu_sample_start_in_python(const void *evaluator) {
  if (!insitu_sample_rate_in_python) return;
  if (dlsym(RTLD_DEFAULT, "sigaction") != (void *)sigaction) return refuse("insitu's library is not preloaded");
  if (!insitu_unwind_python((uintptr_t)evaluator)) return refuse("this Python hides its evaluator");
  insitu_sample_start(insitu_sample_rate_in_python);
}

void insitu_sample_stop(void) {
  struct sigaction action = {.sa_handler = SIG_DFL};
  if (!atomic_exchange_explicit(&is_sampling, 0, memory_order_relaxed)) return;
  /* Timers of other threads go on until they end; an ignored signal does nothing. */
  if (own && insitu_is_on) stop_timer(own);
  next_action(SIGNAL, &action, NULL);
}

/* ---- threads -------------------------------------------------------------------------------------------------- */

/* What a new thread is to do. */
struct start {
  _Atomic int is_taken; /* acquire and release order the rest */
  uint32_t creator;     /* the row of the function that creates it */
  void *(*routine)(void *);
  void *argument;
};
static struct start starts[STARTS];

static void *begin(void *value) {
  struct start *start = value;
  void *(*routine)(void *) = start->routine, *argument = start->argument;
  insitu_thread_creator = start->creator;
  atomic_store_explicit(&start->is_taken, 0, memory_order_release);
  int saved = errno;
  if (atomic_load_explicit(&is_sampling, memory_order_relaxed)) start_thread();
  errno = saved;
  return routine(argument);
}

static struct start *claim(void) {
  for (unsigned i = 0; i < STARTS; i++) {
    int free = 0;
    if (atomic_compare_exchange_strong_explicit(&starts[i].is_taken, &free, 1, memory_order_acquire,
                                                memory_order_relaxed))
      return &starts[i];
  }
  return NULL;
}

/* Whether a runtime of OpenMP calls. Its threads work for all parallel regions, not only for the first one. */
static int is_openmp(uintptr_t caller) {
  static const char *const runtimes[] = {"libgomp", "libomp.", "libomp-", "libiomp5"};
  struct insitu_object object;
  return insitu_object_find(caller, &object) &&
         insitu_image_has_prefix(object.name, runtimes, sizeof runtimes / sizeof *runtimes);
}

/* The row of the function that creates a thread. Where threads create threads, their rows would grow with each
 * generation: a function that an outer thread has called, too, stands for both. */
static uint32_t find_creator(struct insitu_thread *self, const uintptr_t *frame, uintptr_t caller) {
  struct insitu_region_call call = {0};
  if (self->overflow || is_openmp(caller)) return 0;
  uint32_t row = insitu_top(self)->row;
  if (insitu_is_unwound(self)) row = insitu_unwind_region(self, frame, &call);

  const struct insitu_row *rows = insitu_rows;
  while (rows[row].kind == INSITU_THREAD) row = rows[row].parent;
  uint64_t key = rows[row].key;
  int is_outside = 0;
  for (uint32_t at = rows[row].parent; at; at = rows[at].parent) {
    is_outside = is_outside || rows[at].kind == INSITU_THREAD;
    if (is_outside && rows[at].key == key) row = at;
  }
  return row;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                          void *argument) {
  if (!next_create) find_next(); /* called by the constructor of another library */
  if (!next_create) return EAGAIN;
  struct start *start = NULL;
  /* Threads of the MPI library say nothing of the program. */
  int is_wanted = insitu_is_unwinding || atomic_load_explicit(&is_sampling, memory_order_relaxed);
  int is_ours = insitu_is_on && is_wanted && !(insitu_self && insitu_self->in_mpi);
  struct insitu_thread *self = is_ours ? insitu_thread_self() : NULL;
  if (self) start = claim();
  if (!start) return next_create(thread, attributes, routine, argument);
  int saved = errno;
  start->creator = 0;
  if (insitu_is_unwinding)
    start->creator = find_creator(self, __builtin_frame_address(0), (uintptr_t)__builtin_return_address(0));
  errno = saved;
  start->routine = routine;
  start->argument = argument;
  int failed = next_create(thread, attributes, begin, start);
  if (failed) atomic_store_explicit(&start->is_taken, 0, memory_order_release);
  return failed;
}

/* ---- signals of the program ----------------------------------------------------------------------------------- */

/* Whether the handler of this signal is ours. */
static int is_taken(int number) {
  return number == SIGNAL && atomic_load_explicit(&is_sampling, memory_order_relaxed);
}

/* The program sets what happens at the signal. Ignoring it is the default, and needs no change; for a handler of its
 * own, sampling ends. Returns whether the call is to be passed on. */
static int give_up_signal(const struct sigaction *action) {
  if (insitu_is_on && (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN)) {
    of_program = *action;
    return 0;
  }
  insitu_sample_stop();
  if (insitu_is_owner()) refuse("the program uses SIGURG");
  return 1;
}

EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
  if (!next_action) find_next();
  if (!next_action) return errno = ENOSYS, -1;
  if (!is_taken(number)) return next_action(number, action, before);
  struct sigaction of_program_before = of_program;
  int failed = action && give_up_signal(action) ? next_action(number, action, NULL) : 0;
  if (!failed && before) *before = of_program_before;
  return failed;
}

static void (*install(Install next, int number, void (*handler)(int)))(int) {
  if (!next) return errno = ENOSYS, SIG_ERR;
  if (!is_taken(number)) return next(number, handler);
  void (*before)(int) = of_program.sa_handler;
  const struct sigaction action = {.sa_handler = handler};
  if (give_up_signal(&action) && next(number, handler) == SIG_ERR) return SIG_ERR;
  return before;
}

EXPORT void (*signal(int number, void (*handler)(int)))(int) {
  if (!next_signal) find_next();
  return install(next_signal, number, handler);
}

/* What `signal` is for programs that ask for System V or strict ISO C. */
EXPORT void (*__sysv_signal(int number, void (*handler)(int)))(int) {
  if (!next_sysv_signal) find_next();
  return install(next_sysv_signal, number, handler);
}

EXPORT int sigaltstack(const stack_t *restrict stack, stack_t *restrict before) {
  if (!next_stack) find_next();
  if (!next_stack) return errno = ENOSYS, -1;
  int failed = next_stack(stack, before);
  const struct sampler *sampler = own;
  if (!failed && sampler && before && is_our_stack(sampler, before) && !(before->ss_flags & SS_ONSTACK))
    *before = (stack_t){.ss_flags = SS_DISABLE};
  return failed;
}

/* Let the timer of this thread stand still before the signal is blocked, and go on when it is not blocked any more. */
static int change_mask(Mask change, int how, const sigset_t *set, sigset_t *before) {
  struct sampler *sampler = own;
  if (__builtin_expect(!sampler || !set || !insitu_is_on, 1)) return change(how, set, before);
  int saved = errno;
  if (how != SIG_UNBLOCK && sigismember(set, SIGNAL) == 1) stop_timer(sampler);
  errno = saved;
  int failed = change(how, set, before);
  saved = errno;
  if (!sampler->is_running && !is_blocked()) start_timer(sampler);
  errno = saved;
  return failed;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
  if (!next_sigmask) find_next();
  return next_sigmask ? change_mask(next_sigmask, how, set, before) : ENOSYS;
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *before) {
  if (!next_procmask) find_next();
  if (!next_procmask) return errno = ENOSYS, -1;
  return change_mask(next_procmask, how, set, before);
}

/* A thread that asks its parent to trace it stops at every signal, also at an ignored one, until the parent continues
 * it. A launcher never does. */
EXPORT long ptrace(enum __ptrace_request request, ...) {
  va_list arguments;
  va_start(arguments, request);
  pid_t process = va_arg(arguments, pid_t);
  void *address = va_arg(arguments, void *), *data = va_arg(arguments, void *);
  va_end(arguments);
  if (!next_trace) find_next();
  if (!next_trace) return errno = ENOSYS, -1;
  if (request == PTRACE_TRACEME && own && insitu_is_on && insitu_is_owner()) { /* not a child of vfork() */
    int saved = errno;
    insitu_sample_stop();
    refuse("the program asks to be traced");
    errno = saved;
  }
  return next_trace((int)request, process, address, data);
}
