#include "proto/synthetic.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/dtype.h"

namespace millrace {
namespace {

absl::Status CheckField(const SyntheticField& field) {
  const auto wrong = [&field](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("synthetic field \"", field.name(), "\" ", what...));
  };
  const uint64_t element = ElementBytes(field.dtype());
  if (element == 0) {
    return wrong(
        "has no element type: write one, for example dtype: DTYPE_UINT8");
  }
  uint64_t bytes = element;
  for (const int64_t dim : field.shape()) {
    if (dim < 1) {
      return wrong("has a dimension of ", dim,
                   ": a synthetic shape is fixed, every dimension 1 or more");
    }
    if (static_cast<uint64_t>(dim) > kMaxSyntheticFieldBytes / bytes) {
      return wrong("is larger than the maximum of ", kMaxSyntheticFieldBytes,
                   " bytes for a sample: use a smaller shape");
    }
    bytes *= static_cast<uint64_t>(dim);
  }
  if (field.num_classes() != 0) {
    if (field.num_classes() < 1 || field.num_classes() > kMaxSyntheticClasses) {
      return wrong("has ", field.num_classes(), " classes; it must have 1 .. ",
                   kMaxSyntheticClasses);
    }
    if (field.dtype() != DTYPE_INT64 || field.shape_size() != 0) {
      return wrong(
          "has classes, but a class index must be an int64 without a shape");
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool IsAnyBits(const SyntheticField& field) {
  return field.num_classes() == 0 && IsInteger(field.dtype());
}

uint64_t SyntheticFieldBytes(const SyntheticField& field) {
  uint64_t bytes = ElementBytes(field.dtype());
  for (const int64_t dim : field.shape()) bytes *= static_cast<uint64_t>(dim);
  return bytes;
}

absl::Status CheckSynthetic(const Synthetic& synthetic) {
  if (synthetic.samples() < 1 || synthetic.samples() > kMaxSyntheticSamples) {
    return absl::InvalidArgumentError(
        absl::StrCat("the synthetic source has ", synthetic.samples(),
                     " samples; it must have 1 .. ", kMaxSyntheticSamples));
  }
  if (synthetic.fields_size() < 1 ||
      synthetic.fields_size() > kMaxSyntheticFields) {
    return absl::InvalidArgumentError(
        absl::StrCat("the synthetic source has ", synthetic.fields_size(),
                     " fields; it must have 1 .. ", kMaxSyntheticFields,
                     ", for example fields { name: \"image\" dtype: "
                     "DTYPE_UINT8 shape: [224, 224, 3] }"));
  }
  std::set<std::string> names;
  uint64_t made = 0;
  for (const SyntheticField& field : synthetic.fields()) {
    if (field.name().empty()) {
      return absl::InvalidArgumentError("a synthetic field has no name");
    }
    if (!names.insert(field.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "two synthetic fields have the name \"", field.name(), "\""));
    }
    if (absl::Status checked = CheckField(field); !checked.ok()) {
      return checked;
    }
    if (!IsAnyBits(field)) made += SyntheticFieldBytes(field);
  }
  if (made > kMaxSyntheticMadeBytes && synthetic.ready_batches() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the floating-point, bool and class fields of a synthetic sample have ",
        made, " bytes; the maximum is ", kMaxSyntheticMadeBytes,
        ": use integer fields or ready_batches"));
  }
  if (synthetic.latency_us() > kMaxSyntheticLatencyUs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the synthetic latency is ", synthetic.latency_us(),
        " us for a sample; the maximum is ", kMaxSyntheticLatencyUs));
  }
  if (synthetic.ready_batches() > kMaxReadyBatches) {
    return absl::InvalidArgumentError(absl::StrCat(
        synthetic.ready_batches(),
        " ready batches are too many; the maximum is ", kMaxReadyBatches));
  }
  if (synthetic.ready_batches() > 0 && synthetic.latency_us() > 0) {
    return absl::InvalidArgumentError(
        "ready_batches and latency_us cannot be used together, because ready "
        "batches are not read: set one of them to 0");
  }
  return absl::OkStatus();
}

}  // namespace millrace
