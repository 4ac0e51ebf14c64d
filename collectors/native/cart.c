/* Where a rank is in the largest Cartesian communicator that the program made. */
#include "cart.h"

#include "mpi_library.h"
#include "table.h"

#include <string.h>

void insitu_cart_made(intptr_t comm) {
  int (*count)(A, int *) = (int (*)(A, int *))insitu_mpi_resolve("MPI_Cartdim_get");
  int (*get)(A, A, int *, int *, int *) = (int (*)(A, A, int *, int *, int *))insitu_mpi_resolve("MPI_Cart_get");
  int axes = 0, sides[INSITU_AXES], is_periodic[INSITU_AXES], at[INSITU_AXES] = {0};
  if (!insitu_table || !count || !get || count(comm, &axes) || axes < 1 || axes > INSITU_AXES) return;
  if (get(comm, axes, sides, is_periodic, at)) return;
  int64_t ranks = 1;
  for (int axis = 0; axis < axes; axis++) ranks *= sides[axis];
  struct insitu_header *header = insitu_table->header;
  if (ranks <= header->cart_ranks) return;
  header->cart_axes = 0; /* nobody reads a place that is half another */
  atomic_signal_fence(memory_order_seq_cst);
  memcpy(header->cart_coordinates, at, sizeof at);
  header->cart_ranks = (int32_t)ranks;
  atomic_signal_fence(memory_order_seq_cst);
  header->cart_axes = axes;
}
