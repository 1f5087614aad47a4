#include "server/storage/unpack/packed_names.h"

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "server/storage/unpack/codec_unpacker.h"
#include "server/storage/unpack/decompressor.h"

namespace millrace::storage {
namespace {

struct Ending {
  absl::string_view text;
  Codec codec;
};
constexpr Ending kEndings[] = {{".gz", Codec::kGzip},
                               {".tgz", Codec::kGzip},
                               {".zst", Codec::kZstd},
                               {".zstd", Codec::kZstd},
                               {".bz2", Codec::kBzip2}};

}  // namespace

PackedObjects PackedByName(const std::vector<std::string>& names) {
  PackedObjects packed;
  for (const std::string& name : names) {
    PackedObject& object = packed.objects.emplace_back();
    for (const Ending& ending : kEndings) {
      if (absl::EndsWith(name, ending.text)) {
        object.unpacker = &CodecUnpacker(ending.codec);
      }
    }
  }
  return packed;
}

}  // namespace millrace::storage
