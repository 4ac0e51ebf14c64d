/* Coordinates of a rank in the largest Cartesian communicator of the program. */
#include "cart.h"

#include "mpi_library.h"
#include "table.h"

#include <string.h>

void insitu_cart_created(intptr_t comm) {
  int (*get_axes)(A, int *) = (int (*)(A, int *))insitu_mpi_resolve("MPI_Cartdim_get");
  int (*get)(A, A, int *, int *, int *) = (int (*)(A, A, int *, int *, int *))insitu_mpi_resolve("MPI_Cart_get");
  int axes = 0, sides[INSITU_AXES], is_periodic[INSITU_AXES], coordinates[INSITU_AXES] = {0};
  if (!insitu_table || !get_axes || !get || get_axes(comm, &axes) || axes < 1 || axes > INSITU_AXES) return;
  if (get(comm, axes, sides, is_periodic, coordinates)) return;

  int64_t ranks = 1;
  for (int axis = 0; axis < axes; axis++) ranks *= sides[axis];
  struct insitu_header *header = insitu_table->header;
  if (ranks <= header->cart_ranks) return;

  /* No reader may see coordinates of two communicators mixed: there are none while they are written. Compiler fences
   * keep the order of these stores. */
  header->cart_axes = 0;
  atomic_signal_fence(memory_order_seq_cst);
  memcpy(header->cart_coordinates, coordinates, sizeof coordinates);
  header->cart_ranks = (int32_t)ranks;
  atomic_signal_fence(memory_order_seq_cst);
  header->cart_axes = axes;
}
