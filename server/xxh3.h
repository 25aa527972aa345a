#ifndef CALIBD_SERVER_XXH3_H_
#define CALIBD_SERVER_XXH3_H_

// XXH3 by the widest vectors that the CPU has. Without it, the library's functions are those of
// the CPUs that all code is compiled for; the hashes are the same.
#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h>
#endif

#endif  // CALIBD_SERVER_XXH3_H_
