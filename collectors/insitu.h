/* Regions and phases of a C or C++ program.
 *
 *   insitu_region_begin("solve");
 *   insitu_region_end();
 *
 * The region is a row of the call tree. Regions nest; each thread has its own. In C++, `insitu::region solve("solve");`
 * ends with its block.
 *
 *   insitu_phase("assemble");
 *
 * begins the phase with that name and ends the previous one.
 *
 *   if (insitu_iteration()) break;
 *
 * begins an iteration of the main loop. It is not zero where the iterations made so far are all that the user wants to
 * measure (insitu run --iterations 5), alike in all ranks that mark the same iterations.
 *
 * Nothing is linked: the functions are in the library that `insitu run` loads, and without it the calls do nothing. A
 * program that clang builds with -no-pie needs the option -Wl,-z,dynamic-undefined-weak. */
#ifndef INSITU_H
#define INSITU_H

/* A call through the global offset table: elsewhere, linkers set the addresses of weak functions to zero. */
#if defined(__has_attribute)
#if __has_attribute(noplt)
#define INSITU_WEAK __attribute__((weak, noplt))
#endif
#endif
#ifndef INSITU_WEAK
#define INSITU_WEAK __attribute__((weak))
#endif
/* The functions here have no frame on the stack and are not instrumented. Their symbols are not those of the weak
 * functions that they call. */
#define INSITU_INLINE static inline __attribute__((always_inline, unused, no_instrument_function))

#ifdef __cplusplus
extern "C" {
#endif

extern void insitu_weak_region_begin(const char *name) __asm__("insitu_region_begin") INSITU_WEAK;
extern void insitu_weak_region_end(void) __asm__("insitu_region_end") INSITU_WEAK;
extern void insitu_weak_phase(const char *name) __asm__("insitu_phase") INSITU_WEAK;
extern int insitu_weak_iteration(void) __asm__("insitu_iteration") INSITU_WEAK;

INSITU_INLINE void insitu_region_begin(const char *name) __asm__("insitu_inline_region_begin");
INSITU_INLINE void insitu_region_begin(const char *name) {
  if (insitu_weak_region_begin) insitu_weak_region_begin(name);
}

INSITU_INLINE void insitu_region_end(void) __asm__("insitu_inline_region_end");
INSITU_INLINE void insitu_region_end(void) {
  if (insitu_weak_region_end) insitu_weak_region_end();
}

INSITU_INLINE void insitu_phase(const char *name) __asm__("insitu_inline_phase");
INSITU_INLINE void insitu_phase(const char *name) {
  if (insitu_weak_phase) insitu_weak_phase(name);
}

INSITU_INLINE int insitu_iteration(void) __asm__("insitu_inline_iteration");
INSITU_INLINE int insitu_iteration(void) {
  return insitu_weak_iteration ? insitu_weak_iteration() : 0;
}

#ifdef __cplusplus
}

namespace insitu {

/* A region that ends with its block, also when an exception leaves it. */
class region {
public:
  __attribute__((always_inline, no_instrument_function)) explicit region(const char *name) {
    insitu_region_begin(name);
  }
  __attribute__((always_inline, no_instrument_function)) ~region() {
    insitu_region_end();
  }
  region(const region &) = delete;
  region &operator=(const region &) = delete;
};

} // namespace insitu
#endif

#endif
