/* CHECK of test programs in C, which have no GoogleTest. */

#ifndef MILLRACE_TESTS_TESTING_CHECK_H_
#define MILLRACE_TESTS_TESTING_CHECK_H_

#include <stdio.h>
#include <stdlib.h>

/* Ends the program with exit code 1 where the condition does not hold. */
#define CHECK(condition)                                      \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      exit(1);                                                \
    }                                                         \
  } while (0)

#endif /* MILLRACE_TESTS_TESTING_CHECK_H_ */
