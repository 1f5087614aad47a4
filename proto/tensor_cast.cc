#include "proto/tensor_cast.h"

#include <cmath>
#include <concepts>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "proto/half_float.h"

namespace millrace {
namespace {

constexpr int64_t kMaxChannels = 4096;

bool IsFloating(DType dtype) {
  return dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16 ||
         dtype == DTYPE_FLOAT32 || dtype == DTYPE_FLOAT64;
}

struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

// What arithmetic is done in.
inline float Value(Half x) { return HalfToFloat(x.bits); }
inline float Value(Bfloat16 x) { return Bfloat16ToFloat(x.bits); }
inline uint8_t Value(Bool x) { return x.byte != 0 ? 1 : 0; }
template <typename T>
requires std::is_arithmetic_v<T>
inline T Value(T x) { return x; }

template <typename T, typename V>
inline T Rounded(V value) {
  if constexpr (std::same_as<T, Half>) {
    return {FloatToHalf(static_cast<float>(value))};
  } else if constexpr (std::same_as<T, Bfloat16>) {
    return {FloatToBfloat16(static_cast<float>(value))};
  } else if constexpr (std::same_as<T, Bool>) {
    return {static_cast<uint8_t>(value)};
  } else {
    return static_cast<T>(value);
  }
}

// Calls body(T{}) with the type of `dtype`.
template <typename Body>
void WithType(DType dtype, Body&& body) {
  switch (dtype) {
    case DTYPE_UINT8:
      return body(uint8_t{});
    case DTYPE_BOOL:
      return body(Bool{});
    case DTYPE_INT8:
      return body(int8_t{});
    case DTYPE_INT16:
      return body(int16_t{});
    case DTYPE_UINT16:
      return body(uint16_t{});
    case DTYPE_INT32:
      return body(int32_t{});
    case DTYPE_INT64:
      return body(int64_t{});
    case DTYPE_FLOAT16:
      return body(Half{});
    case DTYPE_BFLOAT16:
      return body(Bfloat16{});
    case DTYPE_FLOAT32:
      return body(float{});
    case DTYPE_FLOAT64:
      return body(double{});
    default:
      return;
  }
}

template <typename S, typename T>
bool CastAll(const uint8_t* source, uint8_t* target, uint64_t n) {
  bool fits = true;
  for (uint64_t i = 0; i < n; ++i) {
    S stored;
    std::memcpy(&stored, source + i * sizeof(S), sizeof(S));
    const auto value = Value(stored);
    if constexpr (std::integral<T> && std::integral<decltype(value)>) {
      fits &= std::in_range<T>(value);
    }
    const T out = Rounded<T>(value);
    std::memcpy(target + i * sizeof(T), &out, sizeof(T));
  }
  return fits;
}

// `run` bytes of each channel in turn.
template <typename T>
void LookUp(const uint8_t* source, uint8_t* target, uint64_t n,
            const uint8_t* tables, uint64_t channels, uint64_t run) {
  const T* table = reinterpret_cast<const T*>(tables);
  auto store = [target](uint64_t i, T value) {
    std::memcpy(target + i * sizeof(T), &value, sizeof(T));
  };
  if (channels == 1) {
    for (uint64_t i = 0; i < n; ++i) store(i, table[source[i]]);
    return;
  }
  if (channels == 3 && run == 1) {
    for (uint64_t i = 0; i + 3 <= n; i += 3) {
      store(i, table[source[i]]);
      store(i + 1, table[256 + source[i + 1]]);
      store(i + 2, table[512 + source[i + 2]]);
    }
    return;
  }
  for (uint64_t i = 0; i < n;) {
    for (uint64_t c = 0; c < channels; ++c) {
      const T* of_channel = table + c * 256;
      for (const uint64_t end = i + run; i < end; ++i) {
        store(i, of_channel[source[i]]);
      }
    }
  }
}

}  // namespace

absl::StatusOr<TensorCast> TensorCast::Make(const TensorSpec& spec) {
  const DeviceTransform& transform = spec.device_transform();
  auto refuse = [&](absl::string_view what) {
    return absl::UnimplementedError(absl::StrCat(
        "the device transform of tensor ", spec.name(), " ", what));
  };
  TensorCast result;
  result.source_ = spec.dtype();
  result.target_ = transform.dtype();
  const bool scales = transform.scale() != 0 || transform.mean_size() > 0 ||
                      transform.stddev_size() > 0;
  const std::string makes = absl::StrCat("converts ", DTypeName(spec.dtype()),
                                         " to ", DTypeName(transform.dtype()));
  if (ElementBytes(spec.dtype()) == 0 || ElementBytes(transform.dtype()) == 0) {
    return refuse(absl::StrCat(
        makes,
        ", a type that this version does not know: upgrade this program"));
  }
  if (scales &&
      (spec.dtype() != DTYPE_UINT8 || !IsFloating(transform.dtype()))) {
    return refuse(absl::StrCat(
        makes, " with a scale; this version scales uint8 to floating point"));
  }
  if (spec.dtype() != transform.dtype() &&
      (transform.dtype() == DTYPE_BOOL ||
       (IsFloating(spec.dtype()) && !IsFloating(transform.dtype())))) {
    return refuse(absl::StrCat(makes, ", which would lose fractions"));
  }
  result.sample_elements_ = 1;
  for (int64_t dim : spec.sample_shape()) {
    if (dim < 0) return refuse("is on a ragged tensor");
    // So that the bytes of a batch can be counted.
    if (dim > 0 && result.sample_elements_ > kMaxElements / dim) {
      return refuse("has samples with more elements than any memory can hold");
    }
    result.sample_elements_ *= static_cast<uint64_t>(dim);
  }
  if (scales) MR_RETURN_IF_ERROR(result.ReadScale(spec));
  return result;
}

absl::Status TensorCast::ReadScale(const TensorSpec& spec) {
  const DeviceTransform& transform = spec.device_transform();
  auto named = [&spec](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the device transform of tensor ", spec.name(), " ", what));
  };
  scale_ = transform.scale();
  if (!std::isfinite(scale_) || scale_ == 0) {
    return named(absl::StrCat("has the invalid scale ", scale_));
  }
  if (transform.mean_size() > 0 || transform.stddev_size() > 0) {
    if (spec.sample_shape().empty()) {
      return named("needs a channel dimension, but its samples are scalars");
    }
    const int64_t channels = transform.channels_first()
                                 ? spec.sample_shape(0)
                                 : *spec.sample_shape().rbegin();
    if (channels > kMaxChannels) {
      return named(absl::StrCat("has ", channels, " channels; the maximum is ",
                                kMaxChannels));
    }
    auto fits = [channels](int size) { return size == 1 || size == channels; };
    if (channels < 1 || !fits(transform.mean_size()) ||
        !fits(transform.stddev_size())) {
      return named(absl::StrCat(
          "has ", transform.mean_size(), " means and ", transform.stddev_size(),
          " deviations for ", channels, " channels; set one for each channel"));
    }
    for (int64_t c = 0; c < channels; ++c) {
      const float mean = transform.mean(transform.mean_size() == 1 ? 0 : c);
      const float stddev =
          transform.stddev(transform.stddev_size() == 1 ? 0 : c);
      if (!std::isfinite(mean) || !std::isfinite(stddev) || !(stddev > 0)) {
        return named(
            absl::StrCat("has the mean ", mean, " and the deviation ", stddev,
                         " in channel ", c,
                         "; both must be finite, and the deviation above 0"));
      }
      mean_.push_back(mean);
      stddev_.push_back(stddev);
    }
    channels_ = channels;
    if (transform.channels_first()) run_ = sample_elements_ / channels_;
  }
  FillTable();
  return absl::OkStatus();
}

void TensorCast::FillTable() {
  table_.resize(channels_ * 256 * ElementBytes(target_));
  WithType(target_, [this]<typename T>(T) {
    for (uint64_t c = 0; c < channels_; ++c) {
      for (int x = 0; x < 256; ++x) {
        float value = static_cast<float>(x) * scale_;
        if (!mean_.empty()) {
          value = value - mean_[c];
          value = value / stddev_[c];
        }
        const T out = Rounded<T>(value);
        std::memcpy(table_.data() + (c * 256 + x) * sizeof(T), &out, sizeof(T));
      }
    }
  });
}

bool TensorCast::Apply(const uint8_t* source, uint8_t* target,
                       uint64_t elements) const {
  if (has_scale()) {
    switch (ElementBytes(target_)) {
      case 2:
        LookUp<uint16_t>(source, target, elements, table_.data(), channels_,
                         run_);
        break;
      case 4:
        LookUp<uint32_t>(source, target, elements, table_.data(), channels_,
                         run_);
        break;
      default:
        LookUp<uint64_t>(source, target, elements, table_.data(), channels_,
                         run_);
    }
    return true;
  }
  if (source_ == target_) {
    std::memcpy(target, source, elements * ElementBytes(source_));
    return true;
  }
  bool fits = true;
  WithType(source_, [&]<typename S>(S) {
    WithType(target_, [&]<typename T>(T) {
      // Make() has refused the others.
      constexpr bool kToWhole = std::integral<T>;
      constexpr bool kFromWhole = std::integral<decltype(Value(S{}))>;
      if constexpr (!std::same_as<T, Bool> && (kFromWhole || !kToWhole)) {
        fits = CastAll<S, T>(source, target, elements);
      }
    });
  });
  return fits;
}

}  // namespace millrace
