#ifndef INSITU_CART_H
#define INSITU_CART_H

#include <stdint.h>

/* A rank was given its place in a Cartesian communicator: note it in the header of the table, if that communicator
 * is larger than those before it. `comm` is a communicator that is not MPI_COMM_NULL. */
void insitu_cart_made(intptr_t comm);

#endif
