/* Programs that are not linked with MPI and load it later. */
#ifndef INSITU_PRELOAD_H
#define INSITU_PRELOAD_H

/* Whether this process is measured as soon as it loads MPI. Not if MPI is loaded already, and maybe being initialised.
 */
int insitu_may_load_mpi(void);
/* Objects were loaded where insitu_may_load_mpi() held: begin to measure this process if MPI is among them. That takes
 * as long as Python takes to start. */
void insitu_loaded(void);

#endif
