/* Point-to-point messages and non-blocking collectives, recorded so that the tables of all their ranks show how long
 * each waited for the others.
 *
 * MPI delivers the messages with one tag between two ranks in order. Both ranks number the messages between them on a
 * communicator, the sender when it starts to send, the receiver when it starts to receive. The key of a message is a
 * hash of the communicator, both ranks, this number, its tag, and the multiset of the tags of all messages before it.
 * If the keys are equal, the same number of messages with this tag came before, so it is the same message, also where
 * messages with other tags overtake it. Ranks agree on the keys without communication.
 *
 * The sample consists of windows of successive messages: all of the first 256, and about 256/n of those around number
 * n. Which ones depends on the communicator and on n only, so that the messages of an exchange with several ranks
 * belong to the sample together. When there is no room, the sampling level rises, and half of the messages are dropped.
 * When there are too many pairs of ranks, half of the pairs are. Both are the same ones in all ranks.
 *
 * A receive from any rank, or with any tag, has its number when it completes. Receives that are posted meanwhile could
 * not be numbered: those of this communicator are not recorded from then on. The same holds for communicators on which
 * several threads exchange messages.
 *
 * Ranks start the non-blocking collectives of a communicator in the same order, and persistent ones are created in the
 * same order. So the n-th is the same in all ranks, and belongs to the sample like the n-th message between two. */
#define _GNU_SOURCE
#include "mpi_messages.h"

#include <pthread.h>
#include <stdatomic.h>

#define ALWAYS INSITU_MESSAGES_ALWAYS
#define WINDOW INSITU_MESSAGES_WINDOW
#define MOST_PAIRS (INSITU_PAIRS / 2)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the messages in the table */
static _Atomic uint32_t threads;
static _Atomic int32_t sampling_level;
static _Atomic int stopped; /* enum insitu_stop, 0 while messages are numbered */
static int is_full;         /* the disk is full: no further attempts */
static uint32_t calls;      /* that have completed recorded messages */

static void begin(void) {
  if (insitu_mpi_is_multiple) pthread_mutex_lock(&lock);
}

static void end(void) {
  if (insitu_mpi_is_multiple) pthread_mutex_unlock(&lock);
}

void insitu_messages_stop(enum insitu_stop reason) {
  /* Relaxed: a message that another thread records meanwhile was numbered before. */
  atomic_store_explicit(&stopped, (int)reason, memory_order_relaxed);
}

/* ---- pairs of ranks ------------------------------------------------------------------------------------------- */

static int is_kept(uint32_t hash, uint32_t level) {
  return level < 32 ? (uint64_t)hash << level >> 32 == 0 : hash == 0;
}

static uint32_t first_slot(uint64_t id, uint32_t peer) {
  return (uint32_t)((id >> 20) + peer * 0x9E3779B1u) & (INSITU_PAIRS - 1);
}

static struct insitu_pair *slot_of(struct insitu_pair *pairs, uint64_t id, uint32_t peer) {
  uint32_t at = first_slot(id, peer);
  while (pairs[at].id && (pairs[at].id != id || pairs[at].peer != peer)) at = (at + 1) & (INSITU_PAIRS - 1);
  return &pairs[at];
}

/* Drop half of the pairs, those whose hash does not begin with one more zero bit. Slots are moved in place: from the
 * last free slot on, each pair that is kept goes to its first free slot. */
static void halve_pairs(struct insitu_mpi_thread *mine) {
  struct insitu_pair *pairs = mine->pairs;
  uint32_t start = 0;
  mine->pairs_level++;
  mine->pairs_used = 0;
  while (pairs[start].id) start++; /* at least half of the slots are free */
  for (uint32_t step = 1; step <= INSITU_PAIRS; step++) {
    struct insitu_pair *slot = &pairs[(start + step) & (INSITU_PAIRS - 1)], pair = *slot;
    slot->id = 0;
    if (!pair.id || !is_kept(pair.hash, mine->pairs_level)) continue;
    *slot_of(pairs, pair.id, pair.peer) = pair;
    mine->pairs_used++;
  }
  begin();
  if (insitu_table && insitu_table->header->message_pairs_level < mine->pairs_level)
    insitu_table->header->message_pairs_level = mine->pairs_level;
  end();
}

static __attribute__((noinline)) struct insitu_pair *add_pair(struct insitu_mpi_thread *mine,
                                                              const struct insitu_envelope *envelope, uint32_t peer) {
  uint32_t here = envelope->sequence->rank, there = (uint32_t)envelope->peer;
  uint32_t source = envelope->is_receive ? there : here, target = envelope->is_receive ? here : there;
  uint32_t hash = (uint32_t)(insitu_mix(insitu_mix(envelope->id, source + 1), target + 1) >> 32);
  if (!is_kept(hash, mine->pairs_level)) return NULL;
  if (mine->pairs_used == MOST_PAIRS) halve_pairs(mine);
  if (mine->pairs_used == MOST_PAIRS || !is_kept(hash, mine->pairs_level)) return NULL;
  struct insitu_pair *pair = slot_of(mine->pairs, envelope->id, peer);
  *pair = (struct insitu_pair){.id = envelope->id, .peer = peer, .hash = hash};
  mine->pairs_used++;
  return pair;
}

/* Return the pair of an envelope, NULL if it does not belong to the sample. */
static inline struct insitu_pair *find_pair(const struct insitu_envelope *envelope) {
  struct insitu_mpi_thread *mine = insitu_mpi_mine;
  uint32_t peer = (uint32_t)envelope->peer << 1 | (uint32_t)envelope->is_receive;
  struct insitu_pair *pair = slot_of(mine->pairs, envelope->id, peer);
  return __builtin_expect(pair->id != 0, 1) ? pair : add_pair(mine, envelope, peer);
}

/* ---- numbers -------------------------------------------------------------------------------------------------- */

/* Up to which sampling level the window of a message belongs to the sample; -1: it does not. */
static __attribute__((noinline)) int32_t level_of(uint64_t id, uint32_t number) {
  uint64_t draw = insitu_mix(insitu_mix(id, number / WINDOW + 1), 1) >> 32;
  uint32_t rarity = number < ALWAYS ? ALWAYS : number / WINDOW * WINDOW;
  uint64_t scaled = draw * rarity / ALWAYS;
  if (scaled >> 32) return -1;
  return scaled ? __builtin_clz((uint32_t)scaled) : 32;
}

/* Describe the next message of a pair. Returns whether it belongs to the sample. */
static inline int describe(struct insitu_pair *pair, int tag, struct insitu_sampled *message) {
  uint32_t number = pair->number;
  if (number % WINDOW == 0) pair->level = level_of(pair->id, number);
  /* Relaxed: the table is protected by the lock. */
  if (__builtin_expect(pair->level < atomic_load_explicit(&sampling_level, memory_order_relaxed), 1)) return 0;
  uint64_t content = insitu_mix(insitu_mix(pair->tags, number + 1), (uint64_t)(uint32_t)tag + 1);
  message->key = (uint64_t)pair->hash << 32 | content >> 32;
  message->number = number;
  message->level = (int16_t)pair->level;
  return 1;
}

static inline void advance(struct insitu_pair *pair, int tag) {
  pair->number++;
  pair->tags += insitu_mix(0x9E3779B97F4A7C15u, (uint64_t)(uint32_t)tag + 1);
}

/* Count a message without a number; approximate if several threads count. */
static __attribute__((noinline)) int refuse(const struct insitu_sequence *sequence) {
  if (!insitu_table) return 0;
  struct insitu_header *header = insitu_table->header;
  int reason = atomic_load_explicit(&stopped, memory_order_relaxed); /* only a number */
  if (reason == INSITU_STOP_CANCEL) header->refused_after_cancel++;
  else if (reason) header->refused_after_gap++;
  else if (sequence->has_threads) header->refused_of_threads++;
  else if (!sequence->is_ordered) header->refused_without_order++;
  else header->refused_after_wildcard++;
  return 0;
}

/* Whether the messages of a sequence can be numbered: a single thread exchanges them. */
static inline int is_numbered(struct insitu_sequence *sequence) {
  struct insitu_mpi_thread *mine = insitu_mpi_mine;
  /* Relaxed: only compared. */
  if (atomic_load_explicit(&stopped, memory_order_relaxed) || !sequence->is_ordered) return refuse(sequence);
  uint32_t its_thread = atomic_load_explicit(&sequence->its_thread, memory_order_relaxed);
  if (__builtin_expect(its_thread && its_thread == mine->number, 1)) return 1;
  if (!mine->number) mine->number = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
  if (!its_thread && atomic_compare_exchange_strong_explicit(&sequence->its_thread, &its_thread, mine->number,
                                                             memory_order_relaxed, memory_order_relaxed))
    return 1;
  sequence->is_ordered = 0;
  sequence->has_threads = 1;
  return refuse(sequence);
}

/* Whether a receive that is posted now can be numbered. */
static inline int is_receive_numbered(struct insitu_sequence *sequence) {
  if (__builtin_expect(sequence->is_wildcard_open, 0)) sequence->has_lost_receives = 1;
  return !sequence->has_lost_receives || refuse(sequence);
}

struct insitu_envelope insitu_envelope(int peer, int tag, A comm, int is_receive) {
  const struct insitu_comm *known = insitu_mpi_comm(comm);
  struct insitu_sequence *sequence = insitu_sequence_of(known);
  return (struct insitu_envelope){known->size > 1 ? sequence : NULL, sequence->id, peer, tag, is_receive};
}

enum insitu_sampling insitu_message_start(const struct insitu_envelope *envelope, uint64_t posted, uint64_t bytes,
                                          struct insitu_sampled *message) {
  struct insitu_sequence *sequence = envelope->sequence;
  int is_wildcard = envelope->is_receive && (envelope->peer < 0 || envelope->tag < 0);
  if (!sequence || sequence->id != envelope->id || !is_numbered(sequence)) return INSITU_UNSAMPLED;
  if (envelope->peer == (int)insitu_mpi.proc_null || (envelope->peer < 0 && !is_wildcard)) return INSITU_UNSAMPLED;
  if (envelope->is_receive && !is_receive_numbered(sequence)) return INSITU_UNSAMPLED;
  message->posted = posted;
  message->size = (uint32_t)bytes;
  message->flags = envelope->is_receive ? INSITU_RECEIVED : 0;
  if (__builtin_expect(is_wildcard, 0)) {
    sequence->is_wildcard_open = 1;
    return INSITU_WILDCARD;
  }

  struct insitu_pair *pair = find_pair(envelope);
  if (!pair) return INSITU_UNSAMPLED;
  int is_sampled = describe(pair, envelope->tag, message);
  advance(pair, envelope->tag);
  return is_sampled ? INSITU_SAMPLED : INSITU_UNSAMPLED;
}

/* ---- non-blocking collectives --------------------------------------------------------------------------------- */

enum insitu_sampling insitu_collective_start(uint64_t id, uint64_t posted, struct insitu_sampled *collective) {
  uint32_t number = ++collective->number;
  if (number % WINDOW == 0) collective->level = (int16_t)level_of(id, number);
  begin();
  if (insitu_table) insitu_table->header->collectives_started++;
  end();
  /* Relaxed: the table is protected by the lock. */
  if (__builtin_expect(collective->level < atomic_load_explicit(&sampling_level, memory_order_relaxed), 1))
    return INSITU_UNSAMPLED;
  collective->posted = posted;
  collective->key = insitu_mix(id, number + 1);
  return INSITU_SAMPLED;
}

/* ---- calls that complete messages ----------------------------------------------------------------------------- */

static void open_message(const struct insitu_sampled *message) {
  struct insitu_mpi_thread *mine = insitu_mpi_mine;
  if (mine->open_messages < INSITU_OPEN_MESSAGES) mine->open[mine->open_messages++] = *message;
  else mine->call_flags |= INSITU_UNCLEAR; /* not all are known, so its waiting cannot be known */
}

void insitu_message_complete(const struct insitu_envelope *envelope, enum insitu_sampling sampling,
                             const struct insitu_sampled *message, A status) {
  struct insitu_sampled sampled = *message;
  if (sampled.flags & INSITU_RECEIVED) sampled.size = (uint32_t)insitu_mpi_status_bytes(status);
  if (sampling == INSITU_WILDCARD) {
    struct insitu_sequence *sequence = envelope->sequence;
    if (sequence->id != envelope->id) return;
    sequence->is_wildcard_open = 0;
    struct insitu_envelope known = *envelope;
    known.peer = insitu_mpi_status_source(status);
    known.tag = insitu_mpi_status_tag(status);
    if (known.peer < 0 || known.tag < 0) return;
    sampling = insitu_message_start(&known, message->posted, sampled.size, &sampled);
  }
  if (sampling == INSITU_SAMPLED) open_message(&sampled);
}

void insitu_message_sent(struct insitu_thread *self, A peer, A tag, A comm, uint64_t bytes) {
  struct insitu_envelope envelope = insitu_envelope((int)peer, (int)tag, comm, 0);
  struct insitu_sampled message;
  if (insitu_message_start(&envelope, insitu_top(self)->start, bytes, &message) == INSITU_SAMPLED)
    open_message(&message);
}

void insitu_message_received(struct insitu_thread *self, A status, A comm, uint16_t flags) {
  int source = insitu_mpi_status_source(status), tag = insitu_mpi_status_tag(status);
  if (source < 0 || tag < 0) return;
  struct insitu_envelope envelope = insitu_envelope(source, tag, comm, 1);
  uint64_t posted = insitu_top(self)->start, bytes = insitu_mpi_status_bytes(status);
  struct insitu_sampled message = {.posted = posted, .size = (uint32_t)bytes};
  if (!(flags & INSITU_PROBED)) {
    if (insitu_message_start(&envelope, posted, bytes, &message) != INSITU_SAMPLED) return;
  } else {
    struct insitu_sequence *sequence = envelope.sequence;
    if (!sequence || !is_numbered(sequence) || sequence->is_wildcard_open || sequence->has_lost_receives) return;
    struct insitu_pair *pair = find_pair(&envelope);
    if (!pair || !describe(pair, tag, &message)) return;
  }
  message.flags = (uint16_t)(flags | INSITU_RECEIVED);
  open_message(&message);
}

/* ---- the table ------------------------------------------------------------------------------------------------ */

/* Raise the sampling level until an eighth of the messages is dropped. */
static void thin_out(struct insitu_header *header, struct insitu_message *messages) {
  /* A sequence lock: readers discard what they read while the number is odd or changes. The fences keep the moves
   * between the two increments. */
  header->messages_sequence++;
  atomic_thread_fence(memory_order_seq_cst);
  uint32_t level = header->messages_level, used = header->messages_used, left = used;
  while (left > INSITU_MESSAGES / 8 * 7 && level < 33) {
    level++;
    left = 0;
    for (uint32_t i = 0; i < used; i++)
      if (messages[i].level >= level) messages[left++] = messages[i];
    used = left;
  }
  header->messages_used = used;
  header->messages_level = level;
  atomic_thread_fence(memory_order_seq_cst);
  header->messages_sequence++;
  atomic_store_explicit(&sampling_level, (int32_t)level, memory_order_relaxed); /* relaxed: see `describe` */
}

static void record(const struct insitu_message *message) {
  struct insitu_header *header = insitu_table->header;
  if (is_full || message->level < header->messages_level) return;
  if (header->messages_used == INSITU_MESSAGES) thin_out(header, insitu_table->messages);
  if (header->messages_used == INSITU_MESSAGES || message->level < header->messages_level) return;
  if (!insitu_messages_reserve(header->messages_used + 1)) {
    is_full = 1;
    return;
  }
  insitu_table->messages[header->messages_used] = *message;
  /* Release: readers take the messages below messages_used as complete. */
  __atomic_store_n(&header->messages_used, header->messages_used + 1, __ATOMIC_RELEASE);
}

void insitu_messages_end(struct insitu_thread *self, uint64_t received, uint64_t now) {
  struct insitu_mpi_thread *mine = insitu_mpi_mine;
  const struct insitu_frame *frame = insitu_top(self);
  uint32_t count = mine->open_messages, flags = mine->call_flags, known = 0;
  mine->open_messages = mine->call_flags = 0;
  for (uint32_t i = 0; i < count; i++) known += (mine->open[i].flags & INSITU_RECEIVED) != 0;
  int is_known = known >= received && !(flags & INSITU_UNCLEAR);

  begin();
  uint32_t call = ++calls;
  for (uint32_t i = 0; i < count && insitu_table; i++) {
    const struct insitu_sampled *open = &mine->open[i];
    record(&(struct insitu_message){
        .key = open->key,
        .posted = open->posted,
        .begin = frame->start,
        .end = now,
        .row = frame->row,
        .call = call,
        .number = open->number,
        .size = open->size,
        .members = is_known ? count : 0,
        .flags = (uint16_t)(open->flags | flags),
        .level = (uint16_t)open->level,
        .needs = open->needs,
        .rank = open->rank,
    });
  }
  end();
}
