// Whether this program is compiled with AddressSanitizer or ThreadSanitizer,
// whose malloc is not the system's: GCC and clang say it in different ways.

#ifndef MILLRACE_TESTS_TESTING_SANITIZER_H_
#define MILLRACE_TESTS_TESTING_SANITIZER_H_

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MR_WITH_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MR_WITH_SANITIZER 1
#endif
#endif
#ifndef MR_WITH_SANITIZER
#define MR_WITH_SANITIZER 0
#endif

#endif  // MILLRACE_TESTS_TESTING_SANITIZER_H_
