/* Parallel regions of programs that use an OpenMP runtime with an interface for tools, such as LLVM's. */
#ifndef INSITU_OMPT_H
#define INSITU_OMPT_H

/* Note which functions newly loaded objects let the runtime execute in parallel. */
void insitu_ompt_patch(void);

#endif
