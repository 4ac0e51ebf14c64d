/* Ranges of NVTX, NVIDIA's interface for marking code: those that are pushed and popped are regions.
 *
 * NVTX is a header: each object that includes it has tables of functions, which it lets a tool fill on its first call.
 * It finds InitializeInjectionNvtx2 here (annotations.c). The calls return what they return without a tool. The
 * declarations are those of NVTX 2 and 3, whose binary interface is one, so that no header is needed. */
#include "annotations.h"
#include "regions.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define EXPORT __attribute__((visibility("default")))

enum { TABLE_CALLBACKS = 1 };
enum { MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { CORE_PUSH_EX = 8, CORE_PUSH_A = 9, CORE_PUSH_W = 10, CORE_POP = 11 };
enum { CORE2_PUSH_EX = 4, CORE2_POP = 5, CORE2_REGISTER_A = 10, CORE2_REGISTER_W = 11 };
enum { MESSAGE_ASCII = 1, MESSAGE_UNICODE = 2, MESSAGE_REGISTERED = 3 };
#define NOT_TRACKED (-2) /* NVTX_NO_PUSH_POP_TRACKING */

struct attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message;
};

typedef void (*Function)(void);
struct callbacks {
  size_t bytes;
  int (*get_table)(int module, Function ***table, unsigned *count);
};
typedef const void *(*GetTable)(uint32_t table);

/* ---- names ---------------------------------------------------------------------------------------------------- */

#define WIDE_BYTES 256u

/* Write wide characters as UTF-8; a name that is too long is cut. */
static void encode(const wchar_t *text, char name[WIDE_BYTES]) {
  unsigned used = 0;
  for (; *text && used < WIDE_BYTES - 4; text++) {
    uint32_t letter = (uint32_t)*text;
    if (letter < 0x80) {
      name[used++] = (char)letter;
      continue;
    }
    unsigned more = letter < 0x800 ? 1 : letter < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
    name[used++] = (char)(first[more] | (letter >> 6 * more & 0x3F));
    while (more--) name[used++] = (char)(0x80 | (letter >> 6 * more & 0x3F));
  }
  name[used] = 0;
}

/* ---- ranges --------------------------------------------------------------------------------------------------- */

#define FRAME __builtin_frame_address(0)

static __attribute__((noinline)) void push_wide(const wchar_t *message, const uintptr_t *frame) {
  char name[WIDE_BYTES];
  encode(message, name);
  insitu_region_begin_at(name, frame);
}

static inline __attribute__((always_inline)) void push(const struct attributes *attributes, const uintptr_t *frame) {
  const void *message = attributes ? attributes->message : NULL;
  int type = message ? attributes->message_type : 0;
  if (type == MESSAGE_UNICODE) push_wide(message, frame);
  else insitu_region_begin_at(type ? message : "", frame); /* the handle of a registered string is its copy */
}

static int push_ex(const struct attributes *attributes) {
  push(attributes, FRAME);
  return NOT_TRACKED;
}

static int push_a(const char *message) {
  insitu_region_begin_at(message ? message : "", FRAME);
  return NOT_TRACKED;
}

static int push_w(const wchar_t *message) {
  push_wide(message ? message : L"", FRAME);
  return NOT_TRACKED;
}

static int pop(void) {
  insitu_region_end();
  return NOT_TRACKED;
}

static int domain_push_ex(const void *domain, const struct attributes *attributes) {
  (void)domain;
  push(attributes, FRAME);
  return NOT_TRACKED;
}

static int domain_pop(const void *domain) {
  (void)domain;
  insitu_region_end();
  return NOT_TRACKED;
}

static const void *register_a(const void *domain, const char *text) {
  (void)domain;
  return text ? insitu_annotations_keep(text) : NULL;
}

static const void *register_w(const void *domain, const wchar_t *text) {
  char name[WIDE_BYTES];
  (void)domain;
  if (!text) return NULL;
  encode(text, name);
  return insitu_annotations_keep(name);
}

/* ---- tables --------------------------------------------------------------------------------------------------- */

struct entry {
  unsigned module, call;
  Function function;
};

static const struct entry entries[] = {
    {MODULE_CORE, CORE_PUSH_EX, (Function)push_ex},
    {MODULE_CORE, CORE_PUSH_A, (Function)push_a},
    {MODULE_CORE, CORE_PUSH_W, (Function)push_w},
    {MODULE_CORE, CORE_POP, (Function)pop},
    {MODULE_CORE2, CORE2_PUSH_EX, (Function)domain_push_ex},
    {MODULE_CORE2, CORE2_POP, (Function)domain_pop},
    {MODULE_CORE2, CORE2_REGISTER_A, (Function)register_a},
    {MODULE_CORE2, CORE2_REGISTER_W, (Function)register_w},
};

/* Called by NVTX in the program. Returns whether the tool is ready. */
EXPORT int InitializeInjectionNvtx2(GetTable get_export_table) {
  const struct callbacks *callbacks = get_export_table(TABLE_CALLBACKS);
  if (!callbacks || callbacks->bytes < sizeof *callbacks) return 0;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    Function **table = NULL;
    unsigned count = 0;
    if (callbacks->get_table((int)entries[i].module, &table, &count) && entries[i].call < count &&
        table[entries[i].call])
      *table[entries[i].call] = entries[i].function;
  }
  return 1;
}
