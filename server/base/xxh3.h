#ifndef CALIBD_SERVER_BASE_XXH3_H_
#define CALIBD_SERVER_BASE_XXH3_H_

// XXH3 with the widest vectors of the CPU. Without this header, the library uses the instructions
// that all code is compiled for. The hashes are the same.
#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h>
#endif

#endif  // CALIBD_SERVER_BASE_XXH3_H_
