/* What a program reads and sets of the signal by which it is sampled (sample.c), as if it were not sampled.
 *
 * The functions are exported, so they replace those of the C library where this library is preloaded. */
#define _GNU_SOURCE
#include "sample.h"
#include "table.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SIGNAL INSITU_SAMPLE_SIGNAL
#define KERNEL_MASK_BYTES 8 /* of a set of signals, in system calls */
#define RESTORER 0x04000000 /* SA_RESTORER of the kernel's headers */

typedef void (*Handler)(int);

/* The functions of the C library. */
static int (*next_action)(int, const struct sigaction *, struct sigaction *);
static Handler (*next_signal)(int, Handler), (*next_sysv_signal)(int, Handler), (*next_set)(int, Handler);
static int (*next_sigmask)(int, const sigset_t *, sigset_t *), (*next_procmask)(int, const sigset_t *, sigset_t *);
static int (*next_block)(int), (*next_setmask)(int);
static int (*next_hold)(int), (*next_relse)(int), (*next_ignore)(int);
static int (*next_pending)(sigset_t *), (*next_wait)(const sigset_t *, int *);
static int (*next_waitinfo)(const sigset_t *, siginfo_t *);
static int (*next_timedwait)(const sigset_t *, siginfo_t *, const struct timespec *);
static int (*next_itimer)(int, const struct itimerval *, struct itimerval *);
static useconds_t (*next_alarm)(useconds_t, useconds_t);
static int (*next_timer)(clockid_t, struct sigevent *, timer_t *);
static long (*next_trace)(int, pid_t, void *, void *);

/* What the program set for the signal, while the handler of it is ours. */
static struct sigaction of_program;

__attribute__((constructor)) static void find_next(void) {
  *(void **)&next_action = dlsym(RTLD_NEXT, "sigaction");
  *(void **)&next_signal = dlsym(RTLD_NEXT, "signal");
  *(void **)&next_sysv_signal = dlsym(RTLD_NEXT, "__sysv_signal");
  *(void **)&next_set = dlsym(RTLD_NEXT, "sigset");
  *(void **)&next_sigmask = dlsym(RTLD_NEXT, "pthread_sigmask");
  *(void **)&next_procmask = dlsym(RTLD_NEXT, "sigprocmask");
  *(void **)&next_block = dlsym(RTLD_NEXT, "sigblock");
  *(void **)&next_setmask = dlsym(RTLD_NEXT, "sigsetmask");
  *(void **)&next_hold = dlsym(RTLD_NEXT, "sighold");
  *(void **)&next_relse = dlsym(RTLD_NEXT, "sigrelse");
  *(void **)&next_ignore = dlsym(RTLD_NEXT, "sigignore");
  *(void **)&next_pending = dlsym(RTLD_NEXT, "sigpending");
  *(void **)&next_wait = dlsym(RTLD_NEXT, "sigwait");
  *(void **)&next_waitinfo = dlsym(RTLD_NEXT, "sigwaitinfo");
  *(void **)&next_timedwait = dlsym(RTLD_NEXT, "sigtimedwait");
  *(void **)&next_itimer = dlsym(RTLD_NEXT, "setitimer");
  *(void **)&next_alarm = dlsym(RTLD_NEXT, "ualarm");
  *(void **)&next_timer = dlsym(RTLD_NEXT, "timer_create");
  *(void **)&next_trace = dlsym(RTLD_NEXT, "ptrace");
}

/* Return from the calling function if the C library lacks the function, which constructors may call before ours. */
#define NEED(NEXT, ANSWER)                      \
  do {                                          \
    if (!(NEXT)) find_next();                   \
    if (!(NEXT)) return errno = ENOSYS, ANSWER; \
  } while (0)

/* ---- handlers ---------------------------------------------------------------------------------------------------- */

/* Whether the handler of this signal is ours. */
static int is_taken(int number) {
  return number == SIGNAL && insitu_sample_is_on();
}

/* A child of vfork() has the memory of its parent, but handlers of its own. */
static int is_child_of_vfork(void) {
  return insitu_is_on && !insitu_is_owner();
}

static int is_ignored(void) {
  return of_program.sa_handler == SIG_DFL || of_program.sa_handler == SIG_IGN;
}

/* The program sets what happens at the signal. It gets those that are not ours (insitu_sample_pass_on), and most
 * programs never get one: PETSc takes each signal that would be an error. Calls that the signal interrupts end as the
 * program asked for; one that is ignored interrupts none. In a child of fork, sampling ends. Returns whether the call
 * is to be passed on. */
static int give_up_signal(const struct sigaction *action) {
  struct sigaction ours;
  if (insitu_is_on && !next_action(SIGNAL, NULL, &ours)) {
    of_program = *action;
    int restart = is_ignored() ? SA_RESTART : action->sa_flags & SA_RESTART;
    of_program.sa_flags |= ours.sa_flags & RESTORER; /* the C library adds it, and shows it */
    of_program.sa_restorer = ours.sa_restorer;
    ours.sa_flags = (ours.sa_flags & ~SA_RESTART) | restart;
    return next_action(SIGNAL, &ours, NULL) != 0;
  }
  insitu_sample_refuse("the program uses SIGURG");
  return 1;
}

int insitu_sample_has_late_signals(void) {
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

void insitu_sample_restore(void) {
  if (next_action) next_action(SIGNAL, &of_program, NULL);
}

/* Take the signals of ours that are pending for this thread. */
static void take_pending(void) {
  struct timespec none = {0};
  siginfo_t info;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGNAL);
  while (syscall(SYS_rt_sigtimedwait, &set, &info, &none, KERNEL_MASK_BYTES) == SIGNAL) {
    if (insitu_sample_sent(&info)) continue;
    syscall(SYS_rt_sigqueueinfo, getpid(), SIGNAL, &info); /* it is another one */
    break;
  }
}

void insitu_sample_pass_on(siginfo_t *info, void *context) {
  if (is_ignored()) return;
  int saved = errno;
  struct sigaction action = of_program;
  if (is_child_of_vfork()) insitu_sample_restore();
  else insitu_sample_refuse("the program uses SIGURG");
  take_pending();

  /* The kernel calls the handler when ours returns, unless the program waited for the signal with another mask, as in
   * sigsuspend: its own mask is then the one that blocks the signal. */
  if (!sigismember(&((ucontext_t *)context)->uc_sigmask, SIGNAL))
    syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGNAL, info);
  else if (action.sa_flags & SA_SIGINFO) action.sa_sigaction(SIGNAL, info, context);
  else action.sa_handler(SIGNAL);
  errno = saved;
}

EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
  NEED(next_action, -1);
  if (!is_taken(number)) return next_action(number, action, before);
  struct sigaction of_program_before = of_program;
  int is_passed_on = action && (is_child_of_vfork() || give_up_signal(action));
  int failed = is_passed_on ? next_action(number, action, NULL) : 0;
  if (!failed && before) *before = of_program_before;
  return failed;
}

/* Install a handler with the flags that the function sets. */
static Handler install(Handler (*next)(int, Handler), int number, Handler handler, int flags) {
  if (!is_taken(number)) return next(number, handler);
  Handler before = of_program.sa_handler;
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  if (!(flags & SA_NODEFER)) sigaddset(&action.sa_mask, number);
  int is_passed_on = is_child_of_vfork() || give_up_signal(&action);
  if (is_passed_on && next(number, handler) == SIG_ERR) return SIG_ERR;
  return before;
}

EXPORT Handler signal(int number, Handler handler) {
  NEED(next_signal, SIG_ERR);
  return install(next_signal, number, handler, SA_RESTART);
}

/* What `signal` is for programs that ask for System V or strict ISO C. */
EXPORT Handler __sysv_signal(int number, Handler handler) {
  NEED(next_sysv_signal, SIG_ERR);
  return install(next_sysv_signal, number, handler, (int)SA_RESETHAND | SA_NODEFER);
}

/* Other names of it. */
EXPORT Handler bsd_signal(int number, Handler handler) {
  return signal(number, handler);
}
EXPORT Handler ssignal(int number, Handler handler) {
  return signal(number, handler);
}

void insitu_sample_give_back(int number) {
  if (!is_taken(number)) return;
  if (!is_child_of_vfork()) insitu_sample_refuse("the program uses SIGURG");
  insitu_sample_restore();
}

EXPORT Handler sigset(int number, Handler handler) {
  NEED(next_set, SIG_ERR);
  insitu_sample_give_back(number);
  return next_set(number, handler);
}

EXPORT int sigignore(int number) {
  NEED(next_ignore, -1);
  insitu_sample_give_back(number);
  return next_ignore(number);
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* Let the timer of this thread stand still before the signal is blocked, and go on when it is not blocked any more. */
static int change_mask(int (*change)(int, const sigset_t *, sigset_t *), int how, const sigset_t *set,
                       sigset_t *before) {
  if (set && how != SIG_UNBLOCK && sigismember(set, SIGNAL) == 1) insitu_sample_hold();
  int failed = change(how, set, before);
  if (set) insitu_sample_release();
  return failed;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
  if (!next_sigmask) find_next();
  return next_sigmask ? change_mask(next_sigmask, how, set, before) : ENOSYS;
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *before) {
  NEED(next_procmask, -1);
  return change_mask(next_procmask, how, set, before);
}

/* The same in BSD, where a set is a number, and in System V. */
static int change_number(int (*change)(int), int argument, int is_blocking) {
  if (is_blocking) insitu_sample_hold();
  int result = change(argument);
  insitu_sample_release();
  return result;
}

EXPORT int sigblock(int mask) {
  NEED(next_block, -1);
  return change_number(next_block, mask, mask >> (SIGNAL - 1) & 1);
}

EXPORT int sigsetmask(int mask) {
  NEED(next_setmask, -1);
  return change_number(next_setmask, mask, mask >> (SIGNAL - 1) & 1);
}

EXPORT int sighold(int number) {
  NEED(next_hold, -1);
  return change_number(next_hold, number, number == SIGNAL);
}

EXPORT int sigrelse(int number) {
  NEED(next_relse, -1);
  return change_number(next_relse, number, 0);
}

/* ---- pending signals --------------------------------------------------------------------------------------------- */

/* Handlers, siglongjmp and contexts block signals without a call of the functions above, so a signal of ours may be
 * pending. Take it, and let the timer stand still. Returns whether the timer ran. */
static int withdraw(void) {
  if (!insitu_sample_hold()) return 0;
  int saved = errno;
  take_pending();
  errno = saved;
  return 1;
}

EXPORT int sigpending(sigset_t *set) {
  NEED(next_pending, -1);
  int is_held = withdraw();
  int failed = next_pending(set);
  if (is_held) insitu_sample_resume();
  return failed;
}

/* Call a function that waits for signals of a set. */
#define WAIT(SET, CALL)                                      \
  int is_held = sigismember(SET, SIGNAL) == 1 && withdraw(); \
  int result = CALL;                                         \
  if (is_held) insitu_sample_resume();                       \
  return result

EXPORT int sigwait(const sigset_t *restrict set, int *restrict number) {
  if (!next_wait) find_next();
  if (!next_wait) return ENOSYS;
  WAIT(set, next_wait(set, number));
}

EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info) {
  NEED(next_waitinfo, -1);
  WAIT(set, next_waitinfo(set, info));
}

EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
                        const struct timespec *restrict timeout) {
  NEED(next_timedwait, -1);
  WAIT(set, next_timedwait(set, info, timeout));
}

/* ---- timers of the process --------------------------------------------------------------------------------------- */

/* While our handler runs, other signals are blocked. Linux then gives a signal of the process that is pending at the
 * same tick to another thread, such as MPI libraries have: a tenth of those of a timer of 2 ms, and a third where the
 * kernel looks at the timer when it looks at ours, as at all timers of processor time. A handler that leaves by
 * siglongjmp or switches stacks must not run there. To let it run before ours, on top of our frame, is no better: it
 * would have the alternate stack, of which UCX sets a small one. Rare signals meet a sample by chance only, and
 * handlers of a limit of time set a flag. */
#define RARE_US 100000

static void give_up_timer(void) {
  if (insitu_is_on && insitu_sample_is_on() && insitu_is_owner()) /* no child of vfork() */
    insitu_sample_refuse(INSITU_SAMPLE_TIMERS);
}

static int is_often(const struct timeval *time) {
  return !time->tv_sec && time->tv_usec && time->tv_usec < RARE_US;
}

int insitu_sample_meets(int which, const struct itimerval *times) {
  if (which != ITIMER_REAL) return times->it_value.tv_sec || times->it_value.tv_usec;
  return is_often(&times->it_value) || is_often(&times->it_interval);
}

EXPORT int setitimer(__itimer_which_t which, const struct itimerval *restrict times,
                     struct itimerval *restrict before) {
  NEED(next_itimer, -1);
  if (times && insitu_sample_meets((int)which, times)) give_up_timer();
  return next_itimer((int)which, times, before);
}

EXPORT useconds_t ualarm(useconds_t value, useconds_t interval) {
  NEED(next_alarm, (useconds_t)-1);
  if ((value && value < RARE_US) || (interval && interval < RARE_US)) give_up_timer();
  return next_alarm(value, interval);
}

EXPORT int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict timer) {
  if (!next_timer) find_next();
  /* Before glibc 2.34 it is in a library that the program may have loaded for itself. */
  void *library = next_timer ? NULL : dlopen("librt.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library) *(void **)&next_timer = dlsym(library, "timer_create");
  NEED(next_timer, -1);
  if (!event || event->sigev_notify == SIGEV_SIGNAL) give_up_timer();
  return next_timer(clock, event, timer);
}

/* ---- tracing ----------------------------------------------------------------------------------------------------- */

/* A thread that asks its parent to trace it stops at every signal, also at an ignored one, until the parent continues
 * it. A launcher never does. */
EXPORT long ptrace(enum __ptrace_request request, ...) {
  va_list arguments;
  va_start(arguments, request);
  pid_t process = va_arg(arguments, pid_t);
  void *address = va_arg(arguments, void *), *data = va_arg(arguments, void *);
  va_end(arguments);
  NEED(next_trace, -1);
  if (request == PTRACE_TRACEME && insitu_is_on && insitu_sample_is_on() && insitu_is_owner()) /* no child of vfork() */
    insitu_sample_refuse("the program asks to be traced");
  return next_trace((int)request, process, address, data);
}
