/* Open requests, so that the data of a receive is counted in the call that completes it. */
#ifndef INSITU_MPI_REQUESTS_H
#define INSITU_MPI_REQUESTS_H

#include "mpi_library.h"
#include "mpi_messages.h"

/* What a call moved; `ranks` is the size of its communicator. */
struct insitu_traffic {
  uint64_t sent, received, messages_sent, messages_received, ranks;
};

/* What a receive received. */
struct insitu_arrival {
  uint64_t bytes, messages;
};

extern _Atomic uint64_t insitu_requests_number;
/* Return the number of requests created so far. A request that completes in a call was created before the call.
 * Relaxed: requests of other threads that are created meanwhile do not complete in this call. */
static inline uint64_t insitu_requests_created(void) {
  return atomic_load_explicit(&insitu_requests_number, memory_order_relaxed);
}
/* Whether any open request is known. */
int insitu_requests_any(void);
/* A message or a collective whose call has started it. Of the envelope of a collective only the `id` counts. */
struct insitu_started {
  enum insitu_sampling sampling;
  struct insitu_envelope envelope;
  struct insitu_sampled message;
};
/* A receive of a message was started; its bytes are counted when it completes. */
void insitu_request_receive(A request, const struct insitu_started *started);
/* A read from a file was started. */
void insitu_request_read(A request);
/* A sampled message is sent. */
void insitu_request_send(A request, const struct insitu_started *started);
/* The same for a receive from any rank of MPI_COMM_WORLD. The rank that sent the message becomes a partner of the row.
 */
void insitu_request_receive_any(A request, uint32_t row, const struct insitu_started *started);
/* A request that receives nothing was started while several threads may call MPI. The library may reuse the handle of
 * a completed receive for it before the thread that completed the receive has reported that. The completion of this
 * request must not be counted as that of the receive. */
void insitu_request_other(A request);
/* A request was started whose completion may take long for a reason that is not recorded: the waiting of the call that
 * completes it is not known. */
void insitu_request_unclear(A request);
/* A sampled non-blocking collective was started. */
void insitu_request_collective(A request, const struct insitu_started *started);
/* A persistent request was created: what each start of it moves, whether it is a receive, and the envelope of its
 * messages, or the collective that it starts. `started` is NULL if it has neither, else it is not started yet. */
void insitu_request_persistent(A request, const struct insitu_traffic *moves, int is_receive,
                               const struct insitu_started *started);
/* A persistent request was started: add what it moves to `traffic`. */
void insitu_request_start(A request, struct insitu_traffic *traffic, uint64_t now);
/* A request completed in a call that began when `created` requests existed. */
struct insitu_arrival insitu_request_complete(A request, uint64_t created, A status);
void insitu_request_cancel(A request);
/* A request was freed, or has failed, in a call that began when `created` requests existed. */
void insitu_request_forget(A request, uint64_t created);

#endif
