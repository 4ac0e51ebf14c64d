/* Point-to-point messages and non-blocking collectives, recorded so that the tables of all their ranks show how long
 * each waited for the others. */
#ifndef INSITU_MPI_MESSAGES_H
#define INSITU_MPI_MESSAGES_H

#include "mpi_collectives.h"
#include "mpi_library.h"
#include "table.h"

/* Where the messages of a request go to or come from. */
struct insitu_envelope {
  struct insitu_sequence *sequence; /* of the communicator; NULL if its messages are not recorded */
  uint64_t id;                      /* of the sequence, whose memory another communicator may have taken since */
  int peer, tag;
  int is_receive;
};

/* What becomes of a message that was started. */
enum insitu_sampling {
  INSITU_UNSAMPLED,
  INSITU_SAMPLED,
  INSITU_WILDCARD, /* a receive whose message is unknown until it completes */
};

struct insitu_envelope insitu_envelope(int peer, int tag, A comm, int is_receive);
/* Number a message that is started now. If it belongs to the sample, `message` describes it afterwards. */
enum insitu_sampling insitu_message_start(const struct insitu_envelope *envelope, uint64_t posted, uint64_t bytes,
                                          struct insitu_sampled *message);
/* Number a non-blocking collective that is started now, or a persistent one. `collective` describes the one before with
 * the same `id`, or is INSITU_NONE_STARTED. */
enum insitu_sampling insitu_collective_start(uint64_t id, uint64_t posted, struct insitu_sampled *collective);
/* The call that is open completes a sampled message or collective; for a receive from a wildcard, the status tells
 * which. */
void insitu_message_complete(const struct insitu_envelope *envelope, enum insitu_sampling sampling,
                             const struct insitu_sampled *message, A status);
/* The open call has sent a message; or received it; or has found it while probing, with INSITU_PROBED or _MATCHED. */
void insitu_message_sent(struct insitu_thread *self, A peer, A tag, A comm, uint64_t bytes);
void insitu_message_received(struct insitu_thread *self, A status, A comm, uint16_t flags);
/* The open call, which has completed `received` receives, ends now: record its messages and collectives. */
void insitu_messages_end(struct insitu_thread *self, uint64_t received, uint64_t now);
/* Why messages are no longer numbered: one may have been cancelled, or was not seen since a call was not recorded. */
enum insitu_stop { INSITU_STOP_CANCEL = 1, INSITU_STOP_GAP = 2 };
/* Nothing is recorded from now on, because the numbers of later messages are unknown. */
void insitu_messages_stop(enum insitu_stop reason);

#endif
