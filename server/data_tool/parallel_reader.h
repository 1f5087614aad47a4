// ParallelReader is a SampleReader over another whose samples are converted on
// the way, several at the same time on threads of its own. Samples come in the
// other's order all the same, so that the result does not depend on the
// threads.
//
// What it is not: it does not know what a conversion does. Belongs to one
// thread at a time. Holds two samples for each thread in memory.
//
//   ParallelReader reader(std::move(input), {.threads = 2, .name = "mr-png"},
//                         [](ParallelReader::Work& work) { ... });
//   MR_RETURN_IF_ERROR(reader.Next(&sample));

#ifndef MILLRACE_SERVER_DATA_TOOL_PARALLEL_READER_H_
#define MILLRACE_SERVER_DATA_TOOL_PARALLEL_READER_H_

#include <any>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/thread_pool.h"
#include "server/data_tool/sample_reader.h"

namespace millrace::data_tool {

class ParallelReader final : public SampleReader {
 public:
  struct Options {
    uint32_t threads = 1;
    std::string name;  // of the threads
    // What the conversion makes of the description; absent: it stays.
    std::optional<DatasetInfo> description;
  };

  // A sample on its way.
  struct Work {
    std::vector<std::string> fields;
    std::string origin;
    // What the conversion has to say of the sample, for given().
    std::any note;
    // An error of the conversion, which Next() returns.
    absl::Status status;
  };
  // Called on any thread, several at the same time.
  using Convert = std::function<void(Work&)>;

  ParallelReader(std::unique_ptr<SampleReader> reader, const Options& options,
                 Convert convert);

  // The number of samples is that of the other reader now: it falls when the
  // first ones are left out (InputHashes::Skip()).
  const DatasetInfo& description() const override {
    description_.set_samples(reader_->description().samples());
    return description_;
  }
  absl::Status Next(Sample* sample) override;
  std::vector<std::string> Warnings() const override {
    return reader_->Warnings();
  }

  // The result of the last Next().
  const Work& given() const { return given_->work; }

 private:
  struct Slot {
    Work work;
    bool done = false;  // guarded by mu_
  };
  absl::Status ReadAhead();

  const std::unique_ptr<SampleReader> reader_;
  mutable DatasetInfo description_;
  const Convert convert_;
  const size_t ahead_;
  int64_t read_ = 0;
  std::deque<std::shared_ptr<Slot>> queue_;
  std::shared_ptr<Slot> given_;

  Mutex mu_;
  CondVar done_;
  ThreadPool pool_;  // last, because its threads use the members above
};

// States that the threads of a conversion need one at a time, such as decoders:
// as many are made as threads ask at the same time. Thread-safe.
template <typename State>
class SpareStates {
 public:
  std::unique_ptr<State> Take() {
    {
      MutexLock lock(mu_);
      if (!spare_.empty()) {
        std::unique_ptr<State> state = std::move(spare_.back());
        spare_.pop_back();
        return state;
      }
    }
    return std::make_unique<State>();
  }
  void Give(std::unique_ptr<State> state) {
    MutexLock lock(mu_);
    spare_.push_back(std::move(state));
  }

 private:
  Mutex mu_;
  std::vector<std::unique_ptr<State>> spare_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_PARALLEL_READER_H_
