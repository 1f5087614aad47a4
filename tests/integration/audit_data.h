// Data sets for the tests that audit: made by `millrace-data pack` as a user
// makes them, once in a test program.

#ifndef MILLRACE_TESTS_INTEGRATION_AUDIT_DATA_H_
#define MILLRACE_TESTS_INTEGRATION_AUDIT_DATA_H_

#include <string>
#include <vector>

#include "tests/testing/subprocess.h"

namespace millrace::testing {

// A folder with IDX files of `samples` digits, for --format=idx.
std::string WriteIdxFolder(int samples);

// A folder of JPEGs of different sizes in three classes, for
// --format=imagefolder; `scale` times 230 to 460 pixels wide and high.
std::string WriteImageFolder(int images, int scale = 1);

// Packs, with `more` flags, and returns the dataset's flag:
// "--dataset=NAME=URI". Aborts the program with the tool's message when it
// fails.
std::string Pack(const std::string& name, const std::string& format,
                 const std::string& input, const std::string& store, int shards,
                 const std::vector<std::string>& more = {});

// Runs `millrace` with these arguments.
ProgramResult Millrace(const std::vector<std::string>& arguments);

// What `millrace audit --json` prints of an epoch of a dataset, in batches of
// 16 for training.
std::string Audit(const std::string& endpoint, const std::string& dataset,
                  int world);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_INTEGRATION_AUDIT_DATA_H_
