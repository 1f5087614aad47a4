// LMDB environments as other programs write them, for tests.

#ifndef MILLRACE_TESTS_SERVER_STORAGE_FOREIGN_LMDB_ENVIRONMENT_TESTING_H_
#define MILLRACE_TESTS_SERVER_STORAGE_FOREIGN_LMDB_ENVIRONMENT_TESTING_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace millrace::storage {

using Entries = std::vector<std::pair<std::string, std::string>>;

struct EnvironmentOptions {
  bool folder = false;   // PATH/data.mdb, otherwise PATH is the file
  std::string database;  // empty: the unnamed one
  unsigned flags = 0;    // of the database, such as MDB_DUPSORT
};

// Adds the entries in one transaction. Ends the test program when LMDB fails.
void WriteEnvironment(const std::string& path, const Entries& entries,
                      const EnvironmentOptions& options = {});

// A Caffe Datum, its fields in the order of Caffe's writer. Fields that are 0
// or empty are left out.
struct DatumFields {
  int channels = 0, height = 0, width = 0;
  std::string data;
  int label = 0;
  std::vector<float> floats;
  bool packed = false;
  bool encoded = false;
};
std::string DatumBytes(const DatumFields& fields);

// Bytes that begin like a PNG file.
std::string LikePng(const std::string& content);

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_FOREIGN_LMDB_ENVIRONMENT_TESTING_H_
