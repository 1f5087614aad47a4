#include "server/pipeline/stage/operator_transform.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/byte_size.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"
#include "server/augment/random.h"
#include "server/operators/operator_result.h"

namespace millrace::pipeline {
namespace {

// Max scratch bytes of one operator for a sample. A larger request is a
// mistake.
constexpr uint64_t kMaxScratchBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxResultBytes = uint64_t{1} << 31;

// The element types of the interface are those of the protocol.
static_assert(int{MILLRACE_UINT8} == int{v1::DTYPE_UINT8});
static_assert(int{MILLRACE_BOOL} == int{v1::DTYPE_BOOL});
static_assert(int{MILLRACE_INT32} == int{v1::DTYPE_INT32});
static_assert(int{MILLRACE_INT64} == int{v1::DTYPE_INT64});
static_assert(int{MILLRACE_FLOAT32} == int{v1::DTYPE_FLOAT32});
static_assert(int{MILLRACE_FLOAT64} == int{v1::DTYPE_FLOAT64});
static_assert(int{MILLRACE_FLOAT16} == int{v1::DTYPE_FLOAT16});
static_assert(int{MILLRACE_BFLOAT16} == int{v1::DTYPE_BFLOAT16});
static_assert(int{MILLRACE_INT8} == int{v1::DTYPE_INT8});
static_assert(int{MILLRACE_INT16} == int{v1::DTYPE_INT16});
static_assert(int{MILLRACE_UINT16} == int{v1::DTYPE_UINT16});

std::string Format(const millrace_type& type) {
  const int dims = std::clamp(type.dims, 0, MILLRACE_MAX_DIMS);
  return absl::StrCat(
      DType_IsValid(type.dtype) ? DTypeName(static_cast<DType>(type.dtype))
                                : "unknown",
      " [", absl::StrJoin(type.shape, type.shape + dims, ", "), "]");
}

bool Same(const millrace_type& a, const millrace_type& b) {
  return a.dtype == b.dtype && a.dims == b.dims && a.dims >= 0 &&
         a.dims <= MILLRACE_MAX_DIMS &&
         std::equal(a.shape, a.shape + a.dims, b.shape);
}

millrace_type ImageType(int64_t height, int64_t width, int channels) {
  return {
      .dtype = MILLRACE_UINT8, .dims = 3, .shape = {height, width, channels}};
}

// Random numbers behind the interface's struct.
struct HostRandom {
  millrace_random base;
  augment::CounterRandom* random;

  explicit HostRandom(augment::CounterRandom* source)
      : base{.next = &Next}, random(source) {}
  static uint64_t Next(millrace_random* self) {
    return reinterpret_cast<HostRandom*>(self)->random->Next64();
  }
};
static_assert(std::is_standard_layout_v<HostRandom> &&
              offsetof(HostRandom, base) == 0);

// A call, followed by a place for the operator's notes.
struct HostCall {
  millrace_call base;
  const augment::OpContext* context;
  uint32_t place;

  static void Note(const millrace_call* self, const char* text) {
    const auto* call = reinterpret_cast<const HostCall*>(self);
    if (text == nullptr) return;
    call->context->log->Add(call->place, operators::Printable(text));
  }
};
static_assert(std::is_standard_layout_v<HostCall> &&
              offsetof(HostCall, base) == 0);

// One transform of the spec: the functions of the library, and the handle that
// they have created for it.
class Instance {
 public:
  Instance(const operators::Operators::Transform& transform,
           const CustomTransform& custom, uint32_t place)
      : functions_(transform.functions),
        who_(absl::StrCat("transforms[", place, "]: transform ",
                          transform.ref.name(), " ", transform.ref.version())),
        place_(place),
        p_(custom.has_p() ? custom.p() : 1) {}
  ~Instance() {
    if (made_ && functions_.destroy != nullptr) functions_.destroy(handle_);
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // Fills `result`, which initially equals `input`.
  absl::Status Create(const std::string& config, const millrace_type& input,
                      millrace_type* result) {
    *result = input;
    operators::OperatorResult made;
    made = functions_.create(
        {reinterpret_cast<const uint8_t*>(config.data()), config.size()},
        &input, result, &handle_, made.error());
    MR_RETURN_IF_ERROR(made.ToStatus(who_, absl::StatusCode::kInvalidArgument));
    made_ = true;
    return absl::OkStatus();
  }

  uint64_t ScratchBytes(const millrace_type& input) const {
    return functions_.scratch_bytes == nullptr
               ? 0
               : functions_.scratch_bytes(handle_, &input);
  }

  // Draws for p: true if the sample is transformed.
  bool Hits(augment::CounterRandom& random) const {
    return random.Uniform() < p_;
  }

  absl::Status Apply(const millrace_type& type, const uint8_t* in, uint8_t* out,
                     int64_t row_stride, uint64_t scratch_bytes,
                     augment::CounterRandom& random,
                     const augment::OpContext& context) const {
    void* scratch = nullptr;
    if (scratch_bytes > 0) {
      if (scratch_bytes > kMaxScratchBytes) {
        return Failed(absl::DataLossError(absl::StrCat(
            who_, ": it requests ", FormatExactByteSize(scratch_bytes),
            " of scratch for ", Format(type), "; the maximum is ",
            FormatByteSize(kMaxScratchBytes))));
      }
      scratch = context.scratch->Reserve(scratch_bytes);
      if (scratch == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrCat(who_, ": no memory for ",
                         FormatByteSize(scratch_bytes), " of scratch"));
      }
    }
    HostRandom host(&random);
    const HostCall call = {
        .base = {.struct_size = sizeof(millrace_call),
                 .type = &type,
                 .in = in,
                 .out = out,
                 .row_stride = row_stride,
                 .random = &host.base,
                 .scratch = scratch,
                 .note = context.log == nullptr ? nullptr : &HostCall::Note},
        .context = &context,
        .place = place_,
    };
    operators::OperatorResult result;
    result = functions_.apply(handle_, &call.base, result.error());
    return Failed(result.ToStatus(who_, absl::StatusCode::kDataLoss));
  }

  absl::Status Mistake(absl::string_view what) const {
    return absl::InternalError(
        absl::StrCat(who_, ": ", what, "; this is a bug of the library"));
  }

  void NoteLeftOut(const augment::OpContext& context) const {
    if (context.log != nullptr) context.log->Add(place_, "not applied");
  }

  uint32_t place() const { return place_; }

 private:
  static absl::Status Failed(absl::Status status) {
    return WithErrorDetail(std::move(status), MakeErrorDetail("augment"));
  }

  const millrace_transform functions_;
  const std::string who_;  // for messages
  const uint32_t place_;
  const double p_;
  void* handle_ = nullptr;
  bool made_ = false;
};

class OperatorPixelOp final : public augment::PixelOp {
 public:
  OperatorPixelOp(const operators::Operators::Transform& transform,
                  const CustomTransform& custom, uint32_t place)
      : instance_(transform, custom, place) {}

  absl::Status Create(const CustomTransform& custom, int channels) {
    const millrace_type input = ImageType(-1, -1, channels);
    millrace_type result;
    MR_RETURN_IF_ERROR(instance_.Create(custom.config(), input, &result));
    if (Same(input, result)) return absl::OkStatus();
    return instance_.Mistake(absl::StrCat(
        "it works on images in place and produces ", Format(result)));
  }

  int64_t ScratchBytes(augment::Size size, int channels) const override {
    const uint64_t bytes =
        instance_.ScratchBytes(ImageType(size.height, size.width, channels));
    return static_cast<int64_t>(std::min(bytes, kMaxScratchBytes));
  }

  absl::Status Apply(augment::ImageSpan image,
                     const augment::OpContext& context) const override {
    augment::CounterRandom random(context.sample_key, instance_.place());
    if (!instance_.Hits(random)) {
      instance_.NoteLeftOut(context);
      return absl::OkStatus();
    }
    const millrace_type type =
        ImageType(image.height, image.width, image.channels);
    return instance_.Apply(type, image.data, image.data, image.stride,
                           instance_.ScratchBytes(type), random, context);
  }

 private:
  Instance instance_;
};

class OperatorTensorOp final : public TensorOp {
 public:
  OperatorTensorOp(const operators::Operators::Transform& transform,
                   const CustomTransform& custom, uint32_t place,
                   TensorType input)
      : instance_(transform, custom, place), input_(std::move(input)) {}

  absl::Status Create(const CustomTransform& custom) {
    if (input_.shape.size() > MILLRACE_MAX_DIMS) {
      return absl::InvalidArgumentError(absl::StrCat(
          "transforms[", instance_.place(), "]: the tensor has ",
          input_.shape.size(), " dimensions: the maximum for operators is ",
          MILLRACE_MAX_DIMS));
    }
    type_ = {.dtype = input_.dtype,
             .dims = static_cast<int32_t>(input_.shape.size())};
    std::copy(input_.shape.begin(), input_.shape.end(), type_.shape);
    millrace_type result;
    MR_RETURN_IF_ERROR(instance_.Create(custom.config(), type_, &result));
    MR_RETURN_IF_ERROR(ReadResult(result));
    scratch_bytes_ = instance_.ScratchBytes(type_);
    if (scratch_bytes_ > kMaxScratchBytes) {
      return instance_.Mistake(absl::StrCat(
          "it requests ", FormatExactByteSize(scratch_bytes_),
          " of scratch; the maximum is ", FormatByteSize(kMaxScratchBytes)));
    }
    return absl::OkStatus();
  }

  const TensorType& input() const override { return input_; }
  const TensorType& result() const override { return result_; }
  uint64_t scratch_bytes() const override { return scratch_bytes_; }

  absl::Status Apply(absl::Span<const uint8_t> in,
                     const augment::OpContext& context,
                     absl::Span<uint8_t> out) const override {
    if (in.size() != input_.bytes() || out.size() != result_.bytes()) {
      return absl::InternalError(absl::StrCat(
          "operator: the input has ", FormatExactByteSize(in.size()),
          " and the result ", FormatExactByteSize(out.size()), " instead of ",
          FormatExactByteSize(input_.bytes()), " and ",
          FormatExactByteSize(result_.bytes())));
    }
    augment::CounterRandom random(context.sample_key, instance_.place());
    if (!instance_.Hits(random)) {
      instance_.NoteLeftOut(context);
      std::copy(in.begin(), in.end(), out.begin());
      return absl::OkStatus();
    }
    return instance_.Apply(type_, in.data(), out.data(), 0, scratch_bytes_,
                           random, context);
  }

 private:
  absl::Status ReadResult(const millrace_type& result) {
    bool sane = result.dims >= 0 && result.dims <= MILLRACE_MAX_DIMS &&
                DType_IsValid(result.dtype) &&
                ElementBytes(static_cast<DType>(result.dtype)) > 0;
    uint64_t bytes = sane ? ElementBytes(static_cast<DType>(result.dtype)) : 1;
    for (int i = 0; sane && i < result.dims; ++i) {
      const int64_t dim = result.shape[i];
      sane = dim >= 1 && static_cast<uint64_t>(dim) <= kMaxResultBytes / bytes;
      if (sane) bytes *= static_cast<uint64_t>(dim);
    }
    if (!sane) {
      return instance_.Mistake(absl::StrCat("it produces ", Format(result),
                                            " from ", Format(type_),
                                            ", which is not a tensor type"));
    }
    result_.dtype = static_cast<DType>(result.dtype);
    result_.shape.assign(result.shape, result.shape + result.dims);
    return absl::OkStatus();
  }

  Instance instance_;
  const TensorType input_;
  millrace_type type_ = {};  // input_
  TensorType result_;
  uint64_t scratch_bytes_ = 0;
};

}  // namespace

const operators::Operators::Transform& LoadedTransform(
    const operators::Operators* operators, const CustomTransform& custom) {
  MR_CHECK(operators != nullptr) << custom.name();
  const operators::Operators::Transform* const found =
      operators->FindTransform(custom.name());
  MR_CHECK(found != nullptr) << custom.name();
  return *found;
}

absl::StatusOr<std::unique_ptr<const augment::PixelOp>> MakeOperatorPixelOp(
    const operators::Operators::Transform& transform,
    const CustomTransform& custom, uint32_t place, int channels) {
  auto op = std::make_unique<OperatorPixelOp>(transform, custom, place);
  MR_RETURN_IF_ERROR(op->Create(custom, channels));
  return op;
}

absl::StatusOr<std::unique_ptr<const TensorOp>> MakeOperatorTensorOp(
    const operators::Operators::Transform& transform,
    const CustomTransform& custom, uint32_t place, const TensorType& input) {
  auto op = std::make_unique<OperatorTensorOp>(transform, custom, place, input);
  MR_RETURN_IF_ERROR(op->Create(custom));
  return op;
}

}  // namespace millrace::pipeline
