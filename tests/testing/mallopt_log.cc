// Loaded before a program's libraries (LD_PRELOAD), writes each of its calls of
// mallopt() as "PARAMETER VALUE" to the file $MALLOPT_LOG and carries it out.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

extern "C" int mallopt(int parameter, int value) {
  if (const char* path = std::getenv("MALLOPT_LOG")) {
    if (std::FILE* log = std::fopen(path, "a")) {
      std::fprintf(log, "%d %d\n", parameter, value);
      std::fclose(log);
    }
  }
  using Mallopt = int (*)(int, int);
  return reinterpret_cast<Mallopt>(dlsym(RTLD_NEXT, "mallopt"))(parameter,
                                                                value);
}
