/* Parallel regions of OpenMP, whatever runtime executes them: gomp.c and ompt.c report what its threads do. */
#ifndef INSITU_TEAMS_H
#define INSITU_TEAMS_H

#include <stdint.h>

/* A parallel region that is being executed. */
struct insitu_team;

/* The calling thread begins a parallel region. `address` is the outlined function, or with `hint` "parallel" the call
 * that begins the region; `frame` is that of a function of ours that the program or the runtime calls. Returns NULL if
 * the region is not recorded. */
struct insitu_team *insitu_team_begin(uintptr_t address, const char *hint, const uintptr_t *frame);
/* The same thread is behind the region. */
void insitu_team_end(struct insitu_team *team);

/* The calling thread begins its share of the work of a team; NULL is none. */
void insitu_team_join(struct insitu_team *team);
/* The calling thread begins to wait for others of its team, or to work again. Returns whether that is a change. */
int insitu_team_wait(void);
int insitu_team_work(void);
/* What the calling thread does cannot be told apart into work and waiting: the region has only its time. */
void insitu_team_forget(void);

#endif
