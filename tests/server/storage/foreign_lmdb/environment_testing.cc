#include "tests/server/storage/foreign_lmdb/environment_testing.h"

#include <lmdb.h>

#include <filesystem>

#include "common/logging.h"

namespace millrace::storage {
namespace {

void Append(std::string* out, uint64_t number) {
  while (number > 127) {
    out->push_back(static_cast<char>(number | 128));
    number >>= 7;
  }
  out->push_back(static_cast<char>(number));
}

void AppendNumber(std::string* out, int field, int64_t value) {
  if (value == 0) return;
  Append(out, static_cast<uint64_t>(field) << 3);
  Append(out, static_cast<uint64_t>(value));
}

void AppendBytes(std::string* out, int field, const std::string& value) {
  Append(out, static_cast<uint64_t>(field) << 3 | 2);
  Append(out, value.size());
  out->append(value);
}

}  // namespace

void WriteEnvironment(const std::string& path, const Entries& entries,
                      const EnvironmentOptions& options) {
  if (options.folder) std::filesystem::create_directories(path);
  MDB_env* env;
  MR_CHECK(mdb_env_create(&env) == 0);
  MR_CHECK(mdb_env_set_mapsize(env, size_t{1} << 30) == 0);
  MR_CHECK(mdb_env_set_maxdbs(env, 4) == 0);
  MR_CHECK(mdb_env_open(
               env, path.c_str(),
               (options.folder ? 0 : MDB_NOSUBDIR) | MDB_NOLOCK | MDB_NOSYNC,
               0644) == 0)
      << path;
  MDB_txn* txn;
  MR_CHECK(mdb_txn_begin(env, nullptr, 0, &txn) == 0);
  MDB_dbi dbi;
  MR_CHECK(mdb_dbi_open(
               txn,
               options.database.empty() ? nullptr : options.database.c_str(),
               MDB_CREATE | options.flags, &dbi) == 0);
  for (const auto& [key, value] : entries) {
    MDB_val k{.mv_size = key.size(), .mv_data = const_cast<char*>(key.data())};
    MDB_val v{.mv_size = value.size(),
              .mv_data = const_cast<char*>(value.data())};
    MR_CHECK(mdb_put(txn, dbi, &k, &v, 0) == 0) << key;
  }
  MR_CHECK(mdb_txn_commit(txn) == 0);
  mdb_env_close(env);
}

std::string DatumBytes(const DatumFields& fields) {
  std::string out;
  AppendNumber(&out, 1, fields.channels);
  AppendNumber(&out, 2, fields.height);
  AppendNumber(&out, 3, fields.width);
  if (!fields.data.empty()) AppendBytes(&out, 4, fields.data);
  AppendNumber(&out, 5, fields.label);
  const std::string floats(reinterpret_cast<const char*>(fields.floats.data()),
                           fields.floats.size() * sizeof(float));
  if (fields.packed) {
    AppendBytes(&out, 6, floats);
  } else {
    for (size_t at = 0; at < floats.size(); at += sizeof(float)) {
      Append(&out, 6 << 3 | 5);
      out.append(floats, at, sizeof(float));
    }
  }
  AppendNumber(&out, 7, fields.encoded ? 1 : 0);
  return out;
}

std::string LikePng(const std::string& content) {
  return "\x89PNG\r\n\x1a\n" + content;
}

}  // namespace millrace::storage
