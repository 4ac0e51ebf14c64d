/* The end of a rank's measurement: final values of every collector, then the state that readers wait for. */
#include "finish.h"

#include "blocked.h"
#include "counters.h"
#include "cuda.h"
#include "hook.h"
#include "memory.h"
#include "mpi_library.h"
#include "phases.h"
#include "processor.h"
#include "sample.h"

/* Landlock, a new root without /proc, a full table of descriptors. What is missing depends on what was read before.
 * Kernels that never say how long a thread waited are not meant. */
static void report_unread(struct insitu_header *header) {
  header->unread_error = header->memory_rss ? 0 : insitu_file_error("/proc/self/status");
  if (!header->unread_error) {
    header->unread = 0;
    return;
  }
  header->unread |= INSITU_UNREAD_MEMORY;
  if (header->mpi_state != INSITU_MPI_NONE && !header->memory_mpi) header->unread |= INSITU_UNREAD_MPI_MEMORY;
  if (!header->queued_ns) header->unread |= INSITU_UNREAD_QUEUED;
  if (!header->busy_threads) header->unread |= INSITU_UNREAD_BUSY_THREADS;
}

void insitu_finish_values(void) {
  struct insitu_header *header = insitu_table->header;
  insitu_sample_check();
  insitu_evaluator_check();
  insitu_is_on = 0;

  uint64_t now = insitu_ticks();
  struct insitu_thread *self = insitu_self;
  while (self && self->depth) insitu_pop(self, now);

  header->mpi_unseen = header->mpi_state == INSITU_MPI_NONE && insitu_mpi_is_initialised();
  if (insitu_mpi_is_in_other_namespace()) header->mpi_unseen = 2;
  insitu_phase_end(now);
  insitu_memory_at_end();
  insitu_processor_at_end();
  insitu_blocked_end(); /* mpi4py calls MPI_Finalize later */
  report_unread(header);
  insitu_counters_end();
  insitu_pair_clocks();
  insitu_pair_unslewed(&header->last_tick, &header->last_unslewed_ns);
  header->ended_ns = insitu_wall_ns();
}

void insitu_finish(enum insitu_state state, int exit_status) {
  if (!insitu_is_owner() || insitu_table->header->state != INSITU_RUNNING) return;
  struct insitu_header *header = insitu_table->header;
  /* In a job that is aborted, it may be CUPTI itself that cannot go on. */
  if (state == INSITU_ENDED) insitu_cuda_end();
  if (!insitu_is_stopped()) insitu_finish_values();
  header->exit_status = exit_status;

  /* Release: a reader that sees the state sees the totals. */
  atomic_thread_fence(memory_order_release);
  header->state = (uint32_t)state;
}
