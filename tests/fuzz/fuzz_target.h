// What a fuzz target is: a parser of foreign bytes, inputs to begin with, and a
// way to make a changed input plausible again. Each target's library defines
// TheFuzzTarget(); a binary links one of them with one of
//   fuzz_entry.cc   libFuzzer's entry points: runs as long as one likes,
//   fuzz_test.cc    the seeds and fixed random changes of them, in every test,
//   write_seeds.cc  the seeds as files, for libFuzzer's corpus.
// fuzz_target.bzl makes all three. tools/fuzz builds and runs them.

#ifndef MILLRACE_TESTS_FUZZ_FUZZ_TARGET_H_
#define MILLRACE_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct FuzzTarget {
  // Returns whether the input was taken for what it should be. Ends the process
  // on a broken promise; under a sanitizer also on a touched byte outside.
  bool (*run)(const uint8_t* data, size_t size) = nullptr;

  // Inputs that run() takes.
  std::vector<std::string> (*seeds)() = nullptr;

  // Null, or makes what a random change breaks for certain, such as checksums,
  // right again.
  void (*repair)(std::string& input) = nullptr;

  // Words of the input's language, for libFuzzer's dictionary; may be null.
  std::vector<std::string> (*words)() = nullptr;
};

const FuzzTarget& TheFuzzTarget();

}  // namespace millrace

#endif  // MILLRACE_TESTS_FUZZ_FUZZ_TARGET_H_
