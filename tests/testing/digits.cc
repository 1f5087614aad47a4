#include "tests/testing/digits.h"

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/status_macros.h"
#include "server/storage/dataset_writer.h"

namespace millrace::testing {

absl::Status WriteDigits(const std::string& uri, int64_t samples,
                         int64_t shards) {
  DatasetInfo info;
  info.set_samples(samples);
  Field* image = info.mutable_schema()->add_fields();
  image->set_name("image");
  image->set_kind(FIELD_KIND_TENSOR);
  image->set_dtype(DTYPE_UINT8);
  for (int64_t d : {28, 28, 1}) image->add_shape(d);
  Field* label = info.mutable_schema()->add_fields();
  label->set_name("label");
  label->set_kind(FIELD_KIND_TENSOR);
  label->set_dtype(DTYPE_INT64);
  label->set_num_classes(10);
  info.set_train_preset("mnist");
  info.set_eval_preset("mnist");
  MR_ASSIGN_OR_RETURN(
      std::unique_ptr<storage::DatasetWriter> writer,
      storage::DatasetWriter::Create(uri, info, {.shards = shards}));
  std::vector<uint8_t> pixels(28 * 28);
  for (int64_t index = 0; index < samples; ++index) {
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = DigitPixel(index, i);
    const int64_t digit = DigitLabel(index);
    const absl::Span<const uint8_t> fields[] = {
        pixels, {reinterpret_cast<const uint8_t*>(&digit), sizeof(digit)}};
    MR_RETURN_IF_ERROR(writer->Append(fields, ""));
  }
  return writer->Finish().status();
}

}  // namespace millrace::testing
