/* Input and output of files, per call path. */
#ifndef INSITU_FILES_H
#define INSITU_FILES_H

/* Count the calls of this process from the next insitu_files_patch on. */
void insitu_files_start(void);
/* Lead the calls of newly loaded objects to the wrappers. Does nothing if counting was not started. */
void insitu_files_patch(void);

#endif
