/* Runs a program where only the folders before the word `--` can be read. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
  struct landlock_ruleset_attr rules = {.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE};
  int set = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0), i = 1;
  for (; i < argc && strcmp(argv[i], "--"); i++) {
    struct landlock_path_beneath_attr folder = {rules.handled_access_fs, open(argv[i], O_PATH | O_CLOEXEC)};
    syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &folder, 0);
  }
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (set < 0 || syscall(SYS_landlock_restrict_self, set, 0)) return puts("no landlock"), 0;
  close(set);
  execv(argv[i + 1], argv + i + 1);
  return 9;
}
