// The C++ face of millrace.h: classes that free what they hold, and one
// exception, LoadError. Header-only, for C++17 and later. It needs nothing but
// libmillrace.so.
//
// What it is not: it knows no tensors of a framework; millrace_torch.hpp makes
// tensors of libtorch. client/loader.h is the interface for programs that Bazel
// builds in Millrace's source tree. millrace.h documents what the functions do;
// each method here calls the function of that name.
//
// Errors. Every function that can fail throws LoadError, with the status and
// the sentence of millrace.h. It is an exception and not a status, because a
// header without other libraries has no status type that the rest of a program
// knows, and programs with libtorch already handle exceptions (c10::Error). The
// end of the last epoch, and a time that is over, are results and no errors.
// Destructors do not throw.
//
// Threads. As millrace.h says: one thread at a time calls the Next methods of a
// BatchLoader, any thread the others. No thread may call an object while
// another one moves, assigns or destroys it. LoadedBatch and LoadedTensor are
// handles: their copies may be used and destroyed on any thread, also after
// their loader is gone.
//
// Ownership. Handles share a batch. The loader reuses the memory of a batch
// when the last handle, and the last tensor that was exported of it, is gone.
//
//   millrace::BatchLoaderOptions options;
//   options.Set("endpoint", "data-1:7001").Set("dataset", "photos");
//   options.Set("batch_size", 256);
//   millrace::BatchLoader loader(options);
//   while (std::optional<millrace::LoadedBatch> batch = loader.Next())
//     Use(batch->tensor("image").data());

#ifndef MILLRACE_C_MILLRACE_HPP_
#define MILLRACE_C_MILLRACE_HPP_

#if __cplusplus < 201703L
#error "millrace.hpp needs C++17 or later (-std=c++17)"
#endif

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ios>
#include <locale>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace.h"

namespace millrace {

// What failed: what() is a sentence.
class LoadError : public std::runtime_error {
 public:
  // `detail`: see below.
  LoadError(millrace_status status, const std::string& message,
            std::string detail = "{}")
      : std::runtime_error(message),
        status_(status),
        detail_(std::move(detail)) {}

  // MILLRACE_STATUS_..., never OK.
  millrace_status status() const noexcept { return status_; }
  // "NOT_FOUND".
  const char* status_name() const noexcept {
    return millrace_status_name(status_);
  }
  // Where the error arose, as a JSON object (millrace_error_detail()).
  const std::string& detail() const noexcept { return detail_; }

 private:
  millrace_status status_;
  std::string detail_;
};

// A batch of an epoch, both counted from 0.
struct LoadPosition {
  uint64_t epoch = 0;
  uint64_t step = 0;
};

namespace internal {

struct FreeLoadObject {
  void operator()(millrace_error* error) const { millrace_error_free(error); }
  void operator()(millrace_options* options) const {
    millrace_options_free(options);
  }
  void operator()(millrace_loader* loader) const {
    millrace_loader_free(loader);
  }
  void operator()(char* text) const { millrace_text_free(text); }
};
template <typename Object>
using LoadOwner = std::unique_ptr<Object, FreeLoadObject>;

// Calls `function` with the address of an error, which it may set. False:
// MILLRACE_STATUS_NOT_READY. Throws LoadError for every other status but OK.
template <typename Function>
bool CallC(const Function& function) {
  millrace_error* raw = nullptr;
  const millrace_status status = function(&raw);
  const LoadOwner<millrace_error> error(raw);
  if (status == MILLRACE_STATUS_OK) return true;
  if (status == MILLRACE_STATUS_NOT_READY) return false;
  throw LoadError(status, millrace_error_message(error.get()),
                  millrace_error_detail(error.get()));
}

// The same for a function that returns a text of the caller.
template <typename Function>
std::string TextOfC(const Function& function) {
  char* raw = nullptr;
  CallC([&](millrace_error** error) { return function(&raw, error); });
  const LoadOwner<char> text(raw);
  return text.get();
}

// A time that is over already is 0; below 0 would be no limit.
inline int64_t MillisecondsOf(std::chrono::milliseconds time) {
  return std::max<int64_t>(0, time.count());
}

}  // namespace internal

// The options of millrace.h by their names. Movable.
class BatchLoaderOptions {
 public:
  BatchLoaderOptions() : options_(millrace_options_new()) {
    if (options_ == nullptr) {
      throw LoadError(MILLRACE_STATUS_RESOURCE_EXHAUSTED,
                      "no memory for options");
    }
  }

  // Sets one option; a second value replaces the first. `value` is a text, a
  // bool, a whole number, or a number such as a time in seconds.
  // INVALID_ARGUMENT: there is no such option, or the value does not parse.
  template <typename Value>
  BatchLoaderOptions& Set(const std::string& name, const Value& value) {
    if constexpr (std::is_same_v<Value, bool>) {
      SetText(name, value ? "true" : "false");
    } else if constexpr (std::is_integral_v<Value>) {
      SetText(name, std::to_string(value));
    } else if constexpr (std::is_floating_point_v<Value>) {
      std::ostringstream text;  // std::to_string() would ask the locale
      text.imbue(std::locale::classic());
      text.precision(9);
      text << std::fixed << value;
      SetText(name, text.str());
    } else {
      SetText(name, std::string(value));
    }
    return *this;
  }

  // Checks the options as opening does, without a server. INVALID_ARGUMENT: an
  // option is missing, has a value that is not allowed, or cannot be used
  // together with another one.
  void Validate() const {
    internal::CallC([&](millrace_error** error) {
      return millrace_options_validate(get(), error);
    });
  }

  // Of this object.
  millrace_options* get() const { return options_.get(); }

 private:
  void SetText(const std::string& name, const std::string& value) {
    if (value.find('\0') != value.npos) {
      throw LoadError(MILLRACE_STATUS_INVALID_ARGUMENT,
                      "option " + name + ": the value has a 0 byte");
    }
    internal::CallC([&](millrace_error** error) {
      return millrace_options_set(get(), name.c_str(), value.c_str(), error);
    });
  }

  internal::LoadOwner<millrace_options> options_;
};

// A tensor of a batch, in host memory. A handle: copies share the batch, and
// keep its memory.
class LoadedTensor {
 public:
  LoadedTensor(std::shared_ptr<const millrace_batch> batch, size_t index)
      : batch_(std::move(batch)), index_(index) {
    info_.struct_size = sizeof(info_);
    internal::CallC([&](millrace_error** error) {
      return millrace_batch_get_tensor(batch_.get(), index_, &info_, error);
    });
  }

  // Everything about the tensor; its pointers are valid as long as a handle.
  const millrace_tensor& info() const { return info_; }

  std::string_view name() const { return info_.name; }
  // [rows, ...] of a dense tensor; [values, ...] and [rows + 1] of the two of a
  // field whose samples have different lengths (millrace.h).
  std::vector<int64_t> shape() const {
    return {info_.shape, info_.shape + info_.dims};
  }
  // In bytes.
  std::vector<int64_t> strides() const {
    return {info_.strides, info_.strides + info_.dims};
  }
  // Aligned to 64 bytes; elements of info().dtype. Read-only when
  // info().read_only says so.
  void* data() const { return info_.data; }
  uint64_t bytes() const { return info_.bytes; }

  // Writes what the pipeline leaves to the client, info().cast_bytes bytes of
  // info().cast_dtype in the tensor's shape, row-major, to `out`; `bytes` is
  // the size of that memory.
  //   FAILED_PRECONDITION  info().cast_dtype is MILLRACE_DTYPE_NONE
  //   DATA_LOSS            a number does not fit into the smaller type
  void Cast(void* out, uint64_t bytes) const {
    internal::CallC([&](millrace_error** error) {
      return millrace_batch_cast(batch_.get(), index_, out, bytes, error);
    });
  }

  // The tensor for a consumer of DLPack 1.0, without a copy. The consumer calls
  // its deleter once; until then it keeps the memory, also without a handle.
  DLManagedTensorVersioned* ToDLPack() const {
    DLManagedTensorVersioned* result = nullptr;
    internal::CallC([&](millrace_error** error) {
      return millrace_batch_dlpack_versioned(batch_.get(), index_, &result,
                                             error);
    });
    return result;
  }
  // The same for a consumer of DLPack before 1.0. FAILED_PRECONDITION: the
  // memory is read-only.
  DLManagedTensor* ToOldDLPack() const {
    DLManagedTensor* result = nullptr;
    internal::CallC([&](millrace_error** error) {
      return millrace_batch_dlpack(batch_.get(), index_, &result, error);
    });
    return result;
  }

 private:
  std::shared_ptr<const millrace_batch> batch_;
  size_t index_;
  millrace_tensor info_ = {};
};

// A batch. A handle: copies share the batch.
class LoadedBatch {
 public:
  // Takes the batch over.
  explicit LoadedBatch(millrace_batch* batch)
      : batch_(batch, millrace_batch_free) {
    info_.struct_size = sizeof(info_);
    internal::CallC([&](millrace_error** error) {
      return millrace_batch_get_info(batch_.get(), &info_, error);
    });
  }

  // Position, rows and memory of the batch.
  const millrace_batch_info& info() const { return info_; }
  LoadPosition position() const { return {info_.epoch, info_.step}; }

  // Number of tensors.
  size_t size() const { return info_.tensor_count; }
  // INVALID_ARGUMENT: `index` is not below size().
  LoadedTensor tensor(size_t index) const { return {batch_, index}; }
  // NOT_FOUND: the batch has no such tensor; the error lists what it has.
  LoadedTensor tensor(const std::string& name) const {
    return {batch_, IndexOf(name)};
  }
  bool has(const std::string& name) const {
    try {
      IndexOf(name);
      return true;
    } catch (const LoadError& error) {
      if (error.status() == MILLRACE_STATUS_NOT_FOUND) return false;
      throw;
    }
  }

 private:
  size_t IndexOf(const std::string& name) const {
    size_t index = 0;
    internal::CallC([&](millrace_error** error) {
      return millrace_batch_find_tensor(batch_.get(), name.c_str(), &index,
                                        error);
    });
    return index;
  }

  std::shared_ptr<const millrace_batch> batch_;
  millrace_batch_info info_ = {};
};

// Receives the batches of one rank in the order of the plan. Movable.
class BatchLoader {
 public:
  // Checks the options and begins to open the pipeline on the servers. Does not
  // wait for a server. The options may be changed or destroyed afterwards.
  //   INVALID_ARGUMENT     as BatchLoaderOptions::Validate()
  //   FAILED_PRECONDITION  a forked child of a process that has opened a loader
  explicit BatchLoader(const BatchLoaderOptions& options) {
    millrace_loader* loader = nullptr;
    internal::CallC([&](millrace_error** error) {
      return millrace_loader_open(options.get(), &loader, error);
    });
    loader_.reset(loader);
  }

  // Waits until the loader is open. Errors as millrace_loader_wait_open().
  void WaitOpen() { WaitOpenOf(-1); }
  // False: the time is over, and the loader opens on.
  bool WaitOpenWithin(std::chrono::milliseconds time) {
    return WaitOpenOf(internal::MillisecondsOf(time));
  }

  // The next batch, or nothing after the last one. Waits until the loader is
  // open, too, and for at most next_timeout. Errors as millrace_loader_next().
  std::optional<LoadedBatch> Next() {
    std::optional<LoadedBatch> batch;
    NextOf(-1, &batch);
    return batch;
  }
  // The same within a time, for programs that react to signals. False: the time
  // is over, nothing has failed: call again. True: *batch is as Next() returns
  // it.
  bool NextWithin(std::chrono::milliseconds time,
                  std::optional<LoadedBatch>* batch) {
    return NextOf(internal::MillisecondsOf(time), batch);
  }

  // Position after the last batch that was returned: save it in a checkpoint. A
  // new loader continues there with the options start_epoch and start_step.
  LoadPosition position() const {
    LoadPosition result;
    internal::CallC([&](millrace_error** error) {
      return millrace_loader_position(get(), &result.epoch, &result.step,
                                      error);
    });
    return result;
  }
  // Continues at this position. INVALID_ARGUMENT: there is no such position.
  // FAILED_PRECONDITION: the loader is not open yet.
  void Seek(LoadPosition position) {
    internal::CallC([&](millrace_error** error) {
      return millrace_loader_seek(get(), position.epoch, position.step, error);
    });
  }

  // What the servers answered; its texts are valid as long as the loader.
  // FAILED_PRECONDITION: the loader is not open yet.
  millrace_plan plan() const {
    millrace_plan result = {};
    result.struct_size = sizeof(result);
    internal::CallC([&](millrace_error** error) {
      return millrace_loader_get_plan(get(), &result, error);
    });
    return result;
  }
  // Counters since the loader was opened, as a JSON object.
  std::string Stats() const {
    return internal::TextOfC([&](char** text, millrace_error** error) {
      return millrace_loader_stats(get(), text, error);
    });
  }
  // One line about the time since the last call of this method.
  std::string WhereTheTimeWent() {
    return internal::TextOfC([&](char** text, millrace_error** error) {
      return millrace_loader_where_the_time_went(get(), text, error);
    });
  }
  // What was drawn for each sample of a batch, as a JSON object. Asks the
  // servers. Errors as millrace_loader_explain().
  std::string Explain(LoadPosition position, std::chrono::milliseconds time =
                                                 std::chrono::minutes(1)) {
    return internal::TextOfC([&](char** text, millrace_error** error) {
      return millrace_loader_explain(get(), position.epoch, position.step,
                                     internal::MillisecondsOf(time), text,
                                     error);
    });
  }
  // Ends the calls of Explain() that other threads wait in: CANCELLED.
  void CancelExplain() {
    internal::CallC([&](millrace_error** error) {
      return millrace_loader_cancel_explain(get(), error);
    });
  }

  // With the option memory = "offered": lends the loader one buffer. millrace.h
  // says when it is the caller's again.
  void Offer(void* data, uint64_t bytes) {
    internal::CallC([&](millrace_error** error) {
      return millrace_loader_offer(get(), data, bytes, error);
    });
  }
  // Number of buffers to offer now.
  uint32_t Wanted() {
    uint32_t buffers = 0;
    internal::CallC([&](millrace_error** error) {
      return millrace_loader_wanted(get(), &buffers, error);
    });
    return buffers;
  }

  // Ends receiving: a waiting method throws CANCELLED. Batches stay valid.
  void Close() { millrace_loader_close(get()); }

  // Of this object.
  millrace_loader* get() const { return loader_.get(); }

 private:
  bool WaitOpenOf(int64_t milliseconds) {
    return internal::CallC([&](millrace_error** error) {
      return millrace_loader_wait_open(get(), milliseconds, error);
    });
  }
  bool NextOf(int64_t milliseconds, std::optional<LoadedBatch>* batch) {
    batch->reset();
    millrace_batch* next = nullptr;
    try {
      if (!internal::CallC([&](millrace_error** error) {
            return millrace_loader_next(get(), milliseconds, &next, error);
          })) {
        return false;
      }
    } catch (const LoadError& error) {
      if (error.status() == MILLRACE_STATUS_OUT_OF_RANGE) return true;
      throw;
    }
    batch->emplace(next);
    return true;
  }

  internal::LoadOwner<millrace_loader> loader_;
};

}  // namespace millrace

#endif  // MILLRACE_C_MILLRACE_HPP_
