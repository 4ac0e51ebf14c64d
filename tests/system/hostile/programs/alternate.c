/* Signal handlers on an alternate stack: one in the frame of a function, above those that it interrupts; one that is
 * left by siglongjmp; and one that is left after an overflow of the stack, deeper than frames are recorded. */
#define _GNU_SOURCE
#include <mpi.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

#define KEPT __attribute__((noinline))
static volatile int sink;
static sigjmp_buf back;
static char area[65536];

KEPT static void leaf(void) { sink++; }
KEPT static void talk(void) { MPI_Barrier(MPI_COMM_SELF); }
KEPT static void stay(int number) { leaf(); }
KEPT static void jump(int number) { siglongjmp(back, number); }
KEPT static void use(void *stack, size_t bytes, int number, void (*handler)(int)) {
  stack_t alternate = {.ss_sp = stack, .ss_size = bytes};
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_NODEFER};
  sigaltstack(&alternate, NULL);
  sigaction(number, &action, NULL);
}
KEPT static void descend(int n) {
  if (n) descend(n - 1);
  else raise(SIGUSR1);
  sink++;
}
KEPT static void overflow(int n) {
  char pad[4096];
  pad[n & 4095] = 1;
  sink += pad[0];
  overflow(n + 1);
  sink++;
}

KEPT static void returning(void) {
  char own[65536];
  stack_t none = {.ss_flags = SS_DISABLE};
  use(own, sizeof own, SIGUSR1, stay);
  for (int i = 0; i < 10; i++) {
    descend(5);
    talk();
  }
  sigaltstack(&none, NULL);
}
KEPT static void jumping(void) {
  use(area, sizeof area, SIGUSR1, jump);
  for (volatile int i = 0; i < 500; i++)
    if (!sigsetjmp(back, 1)) descend(4);
  talk();
}
KEPT static void overflowing(void) {
  use(area, sizeof area, SIGSEGV, jump);
  if (!sigsetjmp(back, 1)) overflow(0);
  talk();
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  returning();
  jumping();
  overflowing();
  talk();
  puts("done");
  MPI_Finalize();
  return 0;
}
