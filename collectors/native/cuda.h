/* What a program does on GPUs of NVIDIA: kernels, copies and memsets, below the call path that launched them. */
#ifndef INSITU_CUDA_H
#define INSITU_CUDA_H

/* Do not measure GPUs in this process. */
void insitu_cuda_disable(void);
/* Whether CUDA is to load this library as its tool. */
int insitu_cuda_is_wanted(void);
/* CUDA loads the tool that the user has named. */
void insitu_cuda_has_other(void);
/* Notice when newly loaded objects use CUPTI themselves. */
void insitu_cuda_patch(void);
/* Read what CUPTI still holds; nothing is recorded from then on. */
void insitu_cuda_end(void);

#endif
