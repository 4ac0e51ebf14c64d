/* Restrictions that a program puts on itself, under which it cannot be measured any more. */
#ifndef INSITU_RESTRICTIONS_H
#define INSITU_RESTRICTIONS_H

/* Whether this process has restricted itself: from then on no system call is made and no clock is read on its behalf.
 */
int insitu_is_restricted(void);

#endif
