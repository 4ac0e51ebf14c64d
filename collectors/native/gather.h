/* The tables of all ranks, brought to rank 0 over MPI when it is finalised: for nodes that may open no sockets. */
#ifndef INSITU_GATHER_H
#define INSITU_GATHER_H

/* Gather into `folder`-NODE of the campaign's spool, within so many seconds; `host` is what its file of that name says:
 * the host, a line end, the node. */
void insitu_gather_into(const char *folder, const char *host, double seconds);
/* After MPI was initialised. */
void insitu_gather_begin(void);
/* Before MPI is finalised. What does not arrive in time stays where it is; never fails. */
void insitu_gather(void);

#endif
