#include "server/data_tool/checking_reader.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/data_tool/image_check.h"
#include "server/data_tool/parallel_reader.h"
#include "server/decode/image_decoder.h"

namespace millrace::data_tool {
namespace {

// What the checks of a reader share. Outlives the reader's threads.
struct Shared {
  const operators::Operators* operators = nullptr;
  std::vector<std::pair<int, std::string>> images;  // index and name of fields
  SpareStates<decode::ImageDecoder> decoders;
};

}  // namespace

std::unique_ptr<SampleReader> MakeChecking(
    std::unique_ptr<SampleReader> reader, uint32_t threads,
    const operators::Operators* operators) {
  auto shared = std::make_shared<Shared>();
  shared->operators = operators;
  const Schema& schema = reader->description().schema();
  for (int i = 0; i < schema.fields_size(); ++i) {
    if (schema.fields(i).kind() == FIELD_KIND_ENCODED_IMAGE) {
      shared->images.emplace_back(i, schema.fields(i).name());
    }
  }
  return std::make_unique<ParallelReader>(
      std::move(reader),
      ParallelReader::Options{.threads = threads, .name = "mr-check"},
      [shared](ParallelReader::Work& work) {
        std::unique_ptr<decode::ImageDecoder> decoder = shared->decoders.Take();
        for (const auto& [index, name] : shared->images) {
          const std::string& bytes = work.fields[index];
          const absl::Status status = DecodesWhole(
              {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
              shared->operators, *decoder);
          if (status.ok()) continue;
          work.status = absl::DataLossError(absl::StrCat(
              work.origin.empty() ? "a sample" : work.origin, ": field ", name,
              " does not decode: ", status.message(),
              "; repair or remove it, or skip such images with --skip_bad"));
        }
        shared->decoders.Give(std::move(decoder));
      });
}

}  // namespace millrace::data_tool
