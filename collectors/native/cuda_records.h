/* CUPTI's records of what a GPU did, and the rows that they count in. */
#ifndef INSITU_CUDA_RECORDS_H
#define INSITU_CUDA_RECORDS_H

#include <stdint.h>

/* Kinds of records [CUPTI, CUpti_ActivityKind]. */
enum insitu_cuda_kind {
  INSITU_CUDA_COPY = 1,
  INSITU_CUDA_MEMSET = 2,
  INSITU_CUDA_KERNEL = 10, /* the kind that lets kernels run concurrently */
  INSITU_CUDA_PEER_COPY = 22,
  INSITU_CUDA_MEMORY = 49,
  INSITU_CUDA_GRAPH = 51,
};

/* Prepare for records. Returns 0 if there is no memory. */
int insitu_cuda_records_start(void);
/* The calling thread launches what CUPTI gives this number, below this row. */
void insitu_cuda_launched(uint32_t number, uint32_t row);
/* Count a record. Not for several threads at a time. */
void insitu_cuda_record(const unsigned char *record);

#endif
