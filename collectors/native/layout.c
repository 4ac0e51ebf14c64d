/* The sizes of the records of a table. collectors/library_layout.py reads them from the file of the library, before a
 * run: a library that was built from other sources writes tables that this insitu cannot read. */
#include "table.h"

/* Exported: linkers that remove unreferenced data, as zig, would leave it out. */
extern const struct insitu_layout {
  char mark[16];
  uint32_t bytes[8];
} insitu_layout;

__attribute__((visibility("default"))) const struct insitu_layout insitu_layout = {
    "insitu layout",
    {sizeof(struct insitu_header), sizeof(struct insitu_name), sizeof(struct insitu_frame), sizeof(struct insitu_phase),
     sizeof(struct insitu_opened), sizeof(struct insitu_collective), sizeof(struct insitu_message),
     sizeof(struct insitu_interval)}};
