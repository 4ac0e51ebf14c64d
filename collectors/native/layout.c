/* The sizes of the records of a table. collectors/library_layout.py reads them from the file of the library, before a
 * run: a library that was built from other sources writes tables that this insitu cannot read. */
#include "table.h"

static const struct {
  char mark[16];
  uint32_t bytes[8];
} layout __attribute__((used)) = {"insitu layout",
                                  {sizeof(struct insitu_header), sizeof(struct insitu_name),
                                   sizeof(struct insitu_frame), sizeof(struct insitu_phase),
                                   sizeof(struct insitu_opened), sizeof(struct insitu_collective),
                                   sizeof(struct insitu_message), sizeof(struct insitu_interval)}};
