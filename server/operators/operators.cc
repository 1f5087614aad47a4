#include "server/operators/operators.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/version.h"

namespace millrace::operators {
namespace {

constexpr char kSymbol[] = "millrace_operators";
constexpr size_t kMaxNameLength = 64;
constexpr uint32_t kMaxOperators = 1024;  // of each kind, for each library
// Schemes of the server's own formats.
constexpr absl::string_view kReservedSchemes[] = {
    "lmdb",     "parquet", "arrow",   "imagefolder", "memory", "tar",
    "tfrecord", "mds",     "litdata", "csv",         "hdf5"};

absl::Status ReadFailed(int error, const std::string& file) {
  const std::string text = absl::StrCat(
      "cannot read the operator library ", file, ": ", std::strerror(error),
      "; set --operators to the path of a file");
  return error == ENOENT   ? absl::NotFoundError(text)
         : error == EACCES ? absl::PermissionDeniedError(text)
                           : absl::InvalidArgumentError(text);
}

// XXH3-128 of the file's bytes, 32 hexadecimal digits.
absl::StatusOr<std::string> HashFile(const std::string& file) {
  errno = 0;
  struct stat info;
  if (stat(file.c_str(), &info) != 0) return ReadFailed(errno, file);
  if (S_ISDIR(info.st_mode)) return ReadFailed(EISDIR, file);
  // The fopen() of a FIFO waits for a writer.
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot read the operator library ", file,
        ": it is a FIFO, a socket or a device; set --operators to the path of "
        "a file"));
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(
      std::fopen(file.c_str(), "rbe"), &std::fclose);
  if (in == nullptr) return ReadFailed(errno, file);
  std::string bytes;
  char buffer[1 << 16];
  for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), in.get())) > 0;) {
    bytes.append(buffer, n);
  }
  if (std::ferror(in.get()) != 0) return ReadFailed(errno, file);
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical,
                           XXH3_128bits(bytes.data(), bytes.size()));
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(canonical.digest),
                        sizeof(canonical.digest)));
}

bool IsWord(const char* text) {
  if (text == nullptr) return false;
  const absl::string_view word(text, strnlen(text, kMaxNameLength + 1));
  return !word.empty() && word.size() <= kMaxNameLength &&
         std::all_of(word.begin(), word.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
         });
}

const char* FirstMissing(const millrace_transform& t) {
  if (t.create == nullptr) return "create";
  if (t.apply == nullptr) return "apply";
  return nullptr;
}
const char* FirstMissing(const millrace_decoder& d) {
  if (d.sniff == nullptr) return "sniff";
  if (d.read_header == nullptr) return "read_header";
  if (d.decode == nullptr) return "decode";
  return nullptr;
}
const char* FirstMissing(const millrace_source& s) {
  if (s.open == nullptr) return "open";
  if (s.close == nullptr) return "close";
  if (s.new_reader == nullptr) return "new_reader";
  if (s.free_reader == nullptr) return "free_reader";
  if (s.read == nullptr) return "read";
  return nullptr;
}

}  // namespace

class Operators::Loader {
 public:
  Loader(Operators& operators, std::string file)
      : operators_(operators), file_(std::move(file)) {}

  absl::Status Run() {
    MR_ASSIGN_OR_RETURN(hash_, HashFile(file_));
    MR_ASSIGN_OR_RETURN(const millrace_library* found, Open());
    MR_ASSIGN_OR_RETURN(const std::string after, HashFile(file_));
    if (after != hash_) {
      return Wrong("changed while it was loaded: start the server again");
    }
    // This is the first member in every version of the interface.
    if (found->abi_version != MILLRACE_ABI_VERSION) {
      return Wrong(absl::StrCat(
          "was built for version ", found->abi_version,
          " of the operator interface, but this server has version ",
          MILLRACE_ABI_VERSION,
          ": build it against the server's millrace_operator.h"));
    }
    millrace_library library;
    MR_RETURN_IF_ERROR(Copy("millrace_library", found, &library));
    if (library.transform_count + library.decoder_count +
            library.source_count ==
        0) {
      return Wrong("lists no operators: fill in its millrace_library");
    }
    MR_RETURN_IF_ERROR(Add("transform", library.transforms,
                           library.transform_count, operators_.transforms_));
    MR_RETURN_IF_ERROR(Add("decoder", library.decoders, library.decoder_count,
                           operators_.decoders_));
    return Add("source", library.sources, library.source_count,
               operators_.sources_);
  }

 private:
  absl::Status Wrong(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("the operator library ", file_, " ", what));
  }

  absl::StatusOr<const millrace_library*> Open() {
    // dlopen() would search a name without a slash in the system's folders.
    const std::string path =
        file_.find('/') == file_.npos ? absl::StrCat("./", file_) : file_;
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* const reason = dlerror();
      return Wrong(absl::StrCat(
          "cannot be loaded: ", reason == nullptr ? "no reason given" : reason,
          "; build it on this system with cc -shared "
          "-fPIC, and link what it uses"));
    }
    void* const symbol = dlsym(handle, kSymbol);
    if (symbol == nullptr) {
      return Wrong(absl::StrCat("does not export ", kSymbol,
                                "(): define it with MILLRACE_EXPORT, in C++ "
                                "as extern \"C\""));
    }
    static const millrace_host host = {
        .abi_version = MILLRACE_ABI_VERSION,
        .struct_size = sizeof(millrace_host),
        .version = kMillraceVersion,
    };
    const millrace_library* const library =
        reinterpret_cast<decltype(&millrace_operators)>(symbol)(&host);
    if (library == nullptr) {
      return Wrong(absl::StrCat(
          "refuses to run with Millrace ", kMillraceVersion,
          " (operator interface version ", MILLRACE_ABI_VERSION, ")"));
    }
    return library;
  }

  // Copies this version's members of a struct of the library. A smaller struct
  // is refused, because the struct was not smaller in any earlier version.
  template <typename T>
  absl::Status Copy(absl::string_view what, const T* from, T* to) const {
    if (from->struct_size < sizeof(T)) {
      return Wrong(absl::StrCat("has a ", what, " with struct_size ",
                                from->struct_size, " instead of ", sizeof(T),
                                ": write sizeof(the struct)"));
    }
    std::memcpy(to, from, sizeof(T));
    return absl::OkStatus();
  }

  absl::Status CheckKind(const millrace_transform& t, std::string* what) const {
    if (t.works_on == MILLRACE_ON_IMAGE || t.works_on == MILLRACE_ON_TENSOR) {
      return absl::OkStatus();
    }
    return Wrong(
        absl::StrCat("has the ", *what, " with works_on ", t.works_on,
                     ": write MILLRACE_ON_IMAGE or MILLRACE_ON_TENSOR"));
  }
  absl::Status CheckKind(const millrace_decoder&, std::string*) const {
    return absl::OkStatus();
  }
  absl::Status CheckKind(const millrace_source& s, std::string* what) const {
    for (absl::string_view scheme : kReservedSchemes) {
      if (scheme == s.name) {
        return Wrong(absl::StrCat(
            "has the ", *what,
            ", which is the name of a built-in format: give it another name"));
      }
    }
    return absl::OkStatus();
  }

  template <typename Functions, typename Map>
  absl::Status Add(absl::string_view kind, const Functions* const* list,
                   uint32_t count, Map& map) {
    if (count > kMaxOperators || (count > 0 && list == nullptr)) {
      return Wrong(absl::StrCat("says that it has ", count, " ", kind, "s",
                                list == nullptr ? " and lists none" : "",
                                ": its millrace_library is wrong"));
    }
    for (uint32_t i = 0; i < count; ++i) {
      const std::string number = absl::StrCat(kind, " ", i);
      if (list[i] == nullptr) return Wrong(absl::StrCat("has no ", number));
      Loaded<Functions> loaded;
      MR_RETURN_IF_ERROR(Copy(number, list[i], &loaded.functions));
      const Functions& f = loaded.functions;
      if (!IsWord(f.name) || !IsWord(f.version)) {
        return Wrong(absl::StrCat(
            "has a ", number, " whose ", IsWord(f.name) ? "version" : "name",
            " is invalid: it must have 1 to ", kMaxNameLength,
            " letters, digits, '_', '-' and '.'"));
      }
      std::string what = absl::StrCat(kind, " ", f.name);
      if (const char* const missing = FirstMissing(f)) {
        return Wrong(absl::StrCat("has the ", what, " without ", missing,
                                  "(): define it"));
      }
      MR_RETURN_IF_ERROR(CheckKind(f, &what));
      loaded.ref.set_name(f.name);
      loaded.ref.set_version(f.version);
      loaded.ref.set_library_hash(hash_);
      loaded.file = file_;
      const auto [it, added] = map.emplace(f.name, std::move(loaded));
      if (!added) {
        return Wrong(absl::StrCat("has the ", what, ", which is also in ",
                                  it->second.file,
                                  ": remove one of them, or rename it"));
      }
    }
    return absl::OkStatus();
  }

  Operators& operators_;
  const std::string file_;
  std::string hash_;
};

absl::StatusOr<std::shared_ptr<const Operators>> Operators::Load(
    absl::Span<const std::string> files) {
  std::shared_ptr<Operators> operators(new Operators());
  for (const std::string& file : files) {
    MR_RETURN_IF_ERROR(Loader(*operators, file).Run());
  }
  return operators;
}

namespace {

template <typename Map>
auto* FindIn(const Map& map, absl::string_view name) {
  const auto it = map.find(std::string(name));
  return it == map.end() ? nullptr : &it->second;
}

template <typename Map>
void ListOf(absl::string_view kind, const Map& map,
            std::vector<Operators::Entry>& entries) {
  for (const auto& [name, loaded] : map) {
    entries.push_back({std::string(kind), loaded.ref, loaded.file});
  }
}

}  // namespace

const Operators::Transform* Operators::FindTransform(
    absl::string_view name) const {
  return FindIn(transforms_, name);
}
const Operators::Decoder* Operators::FindDecoder(absl::string_view name) const {
  return FindIn(decoders_, name);
}
const Operators::Source* Operators::FindSource(absl::string_view name) const {
  return FindIn(sources_, name);
}

const Operators::Decoder* Operators::SniffedBy(
    absl::Span<const uint8_t> start) const {
  for (const auto& [name, decoder] : decoders_) {
    if (decoder.functions.sniff({start.data(), start.size()}) != 0) {
      return &decoder;
    }
  }
  return nullptr;
}

std::vector<Operators::Entry> Operators::List() const {
  std::vector<Entry> entries;
  ListOf("decoder", decoders_, entries);
  ListOf("source", sources_, entries);
  ListOf("transform", transforms_, entries);
  return entries;
}

}  // namespace millrace::operators
