// Operators are the libraries that a server was started with (--operators):
// transforms, decoders and sources of its users, behind the C border of
// server/operators/millrace_operator.h. This package opens and checks libraries
// and lists what is in them; of operators it calls sniff() alone. Others:
// storage (sources), decode, augment (transforms).
//
// Immutable and thread-safe once loaded. Load before threads are started. A
// library is never unloaded, so what it has lives as long as the process.
//
//   MR_ASSIGN_OR_RETURN(std::shared_ptr<const Operators> operators,
//                       Operators::Load({"/srv/gamma.so"}));
//   const Operators::Transform* gamma = operators->FindTransform("gamma");

#ifndef MILLRACE_SERVER_OPERATORS_OPERATORS_H_
#define MILLRACE_SERVER_OPERATORS_OPERATORS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/names.h"
#include "proto/types.pb.h"
#include "server/operators/millrace_operator.h"

namespace millrace::operators {

class Operators {
 public:
  template <typename Functions>
  struct Loaded {
    Functions functions;  // members that the library does not know are null
    OperatorRef ref;      // name, version, hash of the library's file
    std::string file;
  };
  using Transform = Loaded<millrace_transform>;
  using Decoder = Loaded<millrace_decoder>;
  using Source = Loaded<millrace_source>;

  // NotFound, PermissionDenied: a file cannot be read. InvalidArgument: it is
  // no library for this machine, misses a symbol, was made for another version
  // of the border, or two operators of a kind share a name. Names the file and
  // says what to do.
  static absl::StatusOr<std::shared_ptr<const Operators>> Load(
      absl::Span<const std::string> files);

  // Null: there is none of that name.
  const Transform* FindTransform(absl::string_view name) const;
  const Decoder* FindDecoder(absl::string_view name) const;
  const Source* FindSource(absl::string_view name) const;

  // The first decoder by name whose sniff() knows bytes that begin so; null:
  // none does.
  const Decoder* SniffedBy(absl::Span<const uint8_t> start) const;

  // All of them, for people and for the status of the server: kind, name,
  // version, hash and file; by kind, then name.
  struct Entry {
    std::string kind;  // "transform", "decoder", "source"
    OperatorRef ref;
    std::string file;
  };
  std::vector<Entry> List() const;

 private:
  class Loader;
  template <typename L>
  using ByName = std::map<std::string, L, std::less<>>;

  Operators() = default;

  ByName<Transform> transforms_;
  ByName<Decoder> decoders_;
  ByName<Source> sources_;
};

}  // namespace millrace::operators

#endif  // MILLRACE_SERVER_OPERATORS_OPERATORS_H_
