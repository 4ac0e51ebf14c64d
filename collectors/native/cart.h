/* Coordinates of a rank in the largest Cartesian communicator of the program. */
#ifndef INSITU_CART_H
#define INSITU_CART_H

#include <stdint.h>

/* The program created a Cartesian communicator, not MPI_COMM_NULL. If it is larger than those before it, write the
 * coordinates of this rank into the header of the table. */
void insitu_cart_created(intptr_t comm);

#endif
