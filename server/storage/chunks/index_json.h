// The index.json of a folder of chunk files: the parsed text, and typed access
// to its members with errors that name file and key.
//
// It knows no format. Plain data; belongs to one thread at a time. A
// JsonMembers must not outlive the document.
//
//   MR_ASSIGN_OR_RETURN(auto index, ReadIndexJson("/data/mds"));
//   MR_ASSIGN_OR_RETURN(JsonMembers members, index.Members());
//   MR_ASSIGN_OR_RETURN(auto shards, members.Objects("shards"));
//   MR_ASSIGN_OR_RETURN(uint64_t samples, shards[0].Count("samples"));

#ifndef MILLRACE_SERVER_STORAGE_CHUNKS_INDEX_JSON_H_
#define MILLRACE_SERVER_STORAGE_CHUNKS_INDEX_JSON_H_

#include <google/protobuf/struct.pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace millrace::storage {

// DataLoss: `text` is no JSON; the message is "WHERE is no JSON: ...".
absl::StatusOr<google::protobuf::Value> ParseJson(absl::string_view text,
                                                  absl::string_view where);

// The members of one object of a document. Errors are DataLoss and name the
// member: "/data/index.json: shards[3].samples is no whole number".
class JsonMembers {
 public:
  // DataLoss: the value is no object. `where` names it.
  static absl::StatusOr<JsonMembers> Of(const google::protobuf::Value& value,
                                        std::string where);

  // Null: there is no such member, or it is null.
  const google::protobuf::Value* Find(absl::string_view key) const;

  absl::StatusOr<std::string> Text(absl::string_view key) const;
  // From 0 to 2^53.
  absl::StatusOr<uint64_t> Count(absl::string_view key) const;
  // Elements of any kind.
  absl::StatusOr<std::vector<const google::protobuf::Value*>> Values(
      absl::string_view key) const;
  absl::StatusOr<std::vector<std::string>> Texts(absl::string_view key) const;
  // Numbers as Count(); null is 0.
  absl::StatusOr<std::vector<uint64_t>> CountsOrNull(
      absl::string_view key) const;
  absl::StatusOr<JsonMembers> Object(absl::string_view key) const;
  absl::StatusOr<std::vector<JsonMembers>> Objects(absl::string_view key) const;

  // "WHERE.KEY WHAT".
  absl::Status Wrong(absl::string_view key, absl::string_view what) const;
  std::string WhereOf(absl::string_view key) const;

 private:
  JsonMembers(const google::protobuf::Struct* object, std::string where)
      : object_(object), where_(std::move(where)) {}
  absl::StatusOr<const google::protobuf::ListValue*> List(
      absl::string_view key) const;

  const google::protobuf::Struct* object_;
  std::string where_;  // the path of the file, or "FILE: shards[3]"
};

class IndexJson {
 public:
  IndexJson(std::string path, google::protobuf::Value document)
      : path_(std::move(path)), document_(std::move(document)) {}

  const std::string& path() const { return path_; }  // of the file
  std::string folder() const;
  // DataLoss: the document is no object.
  absl::StatusOr<JsonMembers> Members() const;

 private:
  std::string path_;
  google::protobuf::Value document_;
};

// `path`: a folder that contains index.json, or that file. NotFound: there is
// no such file; names folders below it that have one. DataLoss: it is no JSON.
// Others as FileError() makes them.
absl::StatusOr<IndexJson> ReadIndexJson(const std::string& path);

// The path of the chunk file that an index.json in `folder` calls `name`, after
// a look at the file's size. `where` names the member with the name. DataLoss:
// the name leads out of the folder, the file is missing, or its size is none of
// `sizes` (empty: any); has its size and the first of them.
absl::StatusOr<std::string> FindChunk(const std::string& folder,
                                      const std::string& name,
                                      absl::Span<const uint64_t> sizes,
                                      const std::string& where);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CHUNKS_INDEX_JSON_H_
