/* Input and output of files, per call path. */
#ifndef INSITU_FILES_H
#define INSITU_FILES_H

/* Do not count the calls of this process. */
void insitu_files_stop(void);
/* Lead the calls of newly loaded objects to the wrappers. */
void insitu_files_patch(void);

#endif
