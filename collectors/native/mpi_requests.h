/* Requests that are open, so that what a receive brought is counted where it completes. */
#ifndef INSITU_MPI_REQUESTS_H
#define INSITU_MPI_REQUESTS_H

#include "mpi_library.h"

/* What a call moved. */
struct insitu_traffic {
  uint64_t sent, received, messages_sent, messages_received, ranks;
};

/* What a receive brought. */
struct insitu_arrival {
  uint64_t bytes, messages;
};

extern _Atomic uint64_t insitu_requests_number;
/* The number of requests made so far: what completes in a call was made before it began. */
static inline uint64_t insitu_requests_made(void) {
  return atomic_load_explicit(&insitu_requests_number, memory_order_relaxed);
}
/* Whether any request is open that would count. */
int insitu_requests_any(void);
/* A receive was started, of a message or from a file; its bytes are counted when it completes. */
void insitu_request_receive(A request, int is_message);
/* A persistent request was made: what each start moves, and whether it is a receive. */
void insitu_request_persistent(A request, const struct insitu_traffic *moves, int is_receive);
/* A persistent request was started: adds what that moves. */
void insitu_request_start(A request, struct insitu_traffic *traffic);
/* A request completed in a call that began when `made` requests had been made. */
struct insitu_arrival insitu_request_complete(A request, uint64_t made, A status);
void insitu_request_cancel(A request);
/* It was freed, or has failed, in a call that began when `made` requests had been made. */
void insitu_request_forget(A request, uint64_t made);

#endif
