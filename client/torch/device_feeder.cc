#include "client/torch/device_feeder.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "proto/tensor_view.h"

namespace millrace::device {
namespace {

// Alignment of every tensor in a slot, in bytes: a cache line, which libtorch's
// kernels expect.
constexpr uint64_t kAlignment = 64;

// On the host, a cast tensor with samples of at most this size has its own
// memory: class labels, which evaluation loops keep by the thousand. A larger
// tensor lies in the ring, whose memory is warm. A choice, between labels (8
// bytes) and images.
constexpr uint64_t kOwnSampleBytes = 256;

uint64_t Align(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

// After a timeout, and without a server, the host loader continues, and Next()
// may be called again. Any other error stays until a Seek().
bool IsFinal(const absl::Status& status) {
  return !status.ok() && !absl::IsDeadlineExceeded(status) &&
         !absl::IsUnavailable(status);
}

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  return strides;
}

// [rows, H, W, C] in memory, seen as [rows, C, H, W]: what libtorch calls
// channels-last.
void SeeAsNchw(DeviceTensor* tensor) {
  auto permute = [](std::vector<int64_t>& v) { v = {v[0], v[3], v[1], v[2]}; };
  permute(tensor->sizes);
  permute(tensor->strides);
}

absl::Status Malformed(const TensorHeader& header, absl::string_view what) {
  return absl::InternalError(
      absl::StrCat("tensor ", header.name(), " of a batch ", what,
                   "; server and client disagree about the plan"));
}

// The tensors that `header` describes, as they lie in the payload at `base`.
absl::Status Describe(const TensorHeader& header, uint64_t rows, uint8_t* base,
                      uint64_t payload_bytes, const std::shared_ptr<void>& hold,
                      std::vector<DeviceTensor>* tensors) {
  const uint64_t element = ElementBytes(header.dtype());
  if (element == 0) return Malformed(header, "has an unknown type");
  auto inside = [payload_bytes](uint64_t offset, uint64_t bytes) {
    return offset <= payload_bytes && bytes <= payload_bytes - offset;
  };
  if (!inside(header.offset(), header.bytes()) ||
      !inside(header.values_offset(), header.values_bytes())) {
    return Malformed(header, "exceeds the payload");
  }
  bool ragged = false;
  uint64_t expected = rows * element;
  for (int64_t dim : header.sample_shape()) {
    ragged |= dim < 0;
    expected *= dim < 0 ? 1 : static_cast<uint64_t>(dim);
  }
  DeviceTensor tensor;
  tensor.name = header.name();
  tensor.dtype = header.dtype();
  tensor.hold = hold;
  if (!ragged) {
    if (expected != header.bytes()) {
      return Malformed(header, "is not as large as its shape");
    }
    tensor.data = base + header.offset();
    tensor.sizes.reserve(header.sample_shape_size() + 1);
    tensor.sizes.push_back(static_cast<int64_t>(rows));
    for (int64_t dim : header.sample_shape()) tensor.sizes.push_back(dim);
    tensor.strides = RowMajorStrides(tensor.sizes);
    tensors->push_back(std::move(tensor));
    return absl::OkStatus();
  }
  if (header.bytes() != (rows + 1) * sizeof(int64_t)) {
    return Malformed(header, "does not have one offset more than rows");
  }
  tensor.data = base + header.values_offset();
  tensor.sizes = {static_cast<int64_t>(header.values_bytes() / element)};
  tensor.strides = {1};
  DeviceTensor offsets;
  offsets.name = absl::StrCat(header.name(), ".offsets");
  offsets.dtype = DTYPE_INT64;
  offsets.data = base + header.offset();
  offsets.sizes = {static_cast<int64_t>(rows) + 1};
  offsets.strides = {1};
  offsets.hold = hold;
  tensors->push_back(std::move(tensor));
  tensors->push_back(std::move(offsets));
  return absl::OkStatus();
}

}  // namespace

DeviceFeeder::DeviceFeeder(std::unique_ptr<HostLoader> host,
                           std::shared_ptr<Device> device,
                           const Options& options)
    : host_(std::move(host)), device_(std::move(device)), options_(options) {
  position_ = host_->position();
}

absl::StatusOr<std::unique_ptr<DeviceFeeder>> DeviceFeeder::Start(
    std::unique_ptr<HostLoader> host, std::shared_ptr<Device> device,
    const Options& options) {
  const bool streams = !device->is_host();
  // The constructor is private.
  std::unique_ptr<DeviceFeeder> feeder(
      new DeviceFeeder(std::move(host), std::move(device), options));
  MR_RETURN_IF_ERROR(feeder->Plan());
  MutexLock lock(feeder->join_mu_);
  if (streams) {
    // The releaser starts before the producer, which adds work to it.
    feeder->releaser_ = std::thread([f = feeder.get()] { f->ReleaseLoop(); });
  }
  if (streams || options.thread) {
    feeder->producer_ = std::thread([f = feeder.get()] { f->ProduceLoop(); });
  }
  return feeder;
}

absl::Status DeviceFeeder::Plan() {
  const OpenResponse& plan = host_->plan();
  const uint64_t rows =
      (plan.resolved_spec().batch_size() + options_.world_size - 1) /
      options_.world_size;
  if (rows == 0) {
    return absl::InvalidArgumentError(
        "the plan of the server has a batch size of 0; server and client "
        "disagree about the plan");
  }
  bool in_slots = !device_->is_host();
  uint64_t bytes = 0;
  if (in_slots) {
    payload_bytes_ = Align(plan.max_payload_bytes());
    bytes = payload_bytes_;
  }
  for (const TensorSpec& spec : plan.tensors()) {
    Recipe recipe;
    recipe.channels_first =
        options_.apply_transform && IsSeenChannelsFirst(spec);
    if (options_.apply_transform && spec.has_device_transform()) {
      MR_ASSIGN_OR_RETURN(recipe.cast, TensorCast::Make(spec));
      recipe.rows = rows;
      if (recipe.cast->sample_elements() > kMaxElements / rows) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor ", spec.name(), " has ", rows, " rows of ",
                         recipe.cast->sample_elements(),
                         " elements: too many; server and client "
                         "disagree about the plan"));
      }
      recipe.own_memory = device_->is_host() && !recipe.cast->has_scale() &&
                          recipe.cast->sample_elements() *
                                  ElementBytes(recipe.cast->target()) <=
                              kOwnSampleBytes;
    }
    if (recipe.cast.has_value() && !recipe.own_memory) {
      const uint64_t elements = rows * recipe.cast->sample_elements();
      in_slots = true;
      recipe.slot_offset = bytes;
      bytes += Align(elements * ElementBytes(recipe.cast->target()));
      recipe.scratch_offset = bytes;
      bytes += Align(device_->CastScratchBytes(*recipe.cast, elements));
    }
    recipes_.push_back(std::move(recipe));
  }
  if (in_slots) {
    MR_ASSIGN_OR_RETURN(ring_, SlotRing::Make(device_, options_.prefetch + 2,
                                              std::max(bytes, kAlignment)));
  }
  return absl::OkStatus();
}

DeviceFeeder::~DeviceFeeder() { Close(); }

absl::Status DeviceFeeder::AllSlotsAreHeld() const {
  return absl::DeadlineExceededError(
      absl::StrCat("all ", ring_->slots(), " slots are held by the caller for ",
                   absl::FormatDuration(options_.next_timeout),
                   "; release batches before calling Next(), copy the tensors "
                   "that are kept, "
                   "or raise the prefetch"));
}

std::shared_ptr<uint8_t> DeviceFeeder::AllocateOwn(uint64_t bytes) const {
  uint8_t* const data = device_->Allocate(bytes);
  if (data == nullptr) return nullptr;
  return {data, [device = device_, bytes](uint8_t* p) {
            device->Free(p, bytes, {});
          }};
}

DeviceFeeder::Produced DeviceFeeder::Produce(SteadyTime slot_deadline) {
  std::shared_ptr<SlotRing::Lease> slot;
  absl::Status status;
  // The slot comes first, so that every batch from the host loader has a slot
  // and a deadline that passes while all slots are held loses no batch.
  if (ring_ != nullptr) {
    auto acquired = ring_->Acquire(slot_deadline);
    if (acquired.ok()) {
      slot = *std::move(acquired);
    } else {
      status = absl::IsDeadlineExceeded(acquired.status()) ? AllSlotsAreHeld()
                                                           : acquired.status();
    }
  }
  Produced produced;
  {
    MutexLock lock(mu_);
    waiting_for_slot_ = false;
    // The generation of an error; a batch has its own. Read before
    // host_->Next(): if a Seek() comes in between, an error of the new position
    // counts as old and is dropped. The host loader then repeats the error.
    produced.generation = generation_;
  }
  if (!status.ok()) {
    produced.prepared = status;
    return produced;
  }
  absl::StatusOr<HostBatch> host = host_->Next();
  if (!host.ok()) {
    produced.prepared = host.status();
    return produced;
  }
  produced.generation = host->generation;
  const auto start = std::chrono::steady_clock::now();
  // Without the lock: copies and transforms take long.
  produced.prepared = Prepare(*std::move(host), std::move(slot));
  const double seconds = SecondsSince(start);
  MutexLock lock(mu_);
  stats_.prepare_seconds += seconds;
  return produced;
}

absl::StatusOr<DeviceFeeder::Prepared> DeviceFeeder::Prepare(
    HostBatch host, std::shared_ptr<SlotRing::Lease> slot) {
  const BatchHeader& header = host.header;
  const uint64_t payload_bytes = host.payload.size();
  if (header.tensors_size() != static_cast<int>(recipes_.size())) {
    return absl::InternalError(
        absl::StrCat("a batch has ", header.tensors_size(),
                     " tensors but the plan has ", recipes_.size()));
  }
  Prepared prepared;
  DeviceBatch& batch = prepared.batch;
  static_cast<BatchInfo&>(batch) = host;
  if (options_.audit) {
    MR_ASSIGN_OR_RETURN(batch.audit, audit::RecordOf(header, host.payload));
  }

  uint8_t* base = host.payload.data();
  std::shared_ptr<void> hold = host.lease;
  const bool streams = !device_->is_host();
  std::shared_ptr<DeviceEvent> begun;
  if (streams) {
    if (payload_bytes > payload_bytes_) {
      return absl::InternalError(absl::StrCat(
          "a batch has ", payload_bytes, " bytes; the plan allows ",
          host_->plan().max_payload_bytes(), " bytes"));
    }
    // The device may still read the slot's last batch. The copy stream waits,
    // not this thread.
    for (auto& event : slot->TakeEvents()) device_->CopyWaits(*event);
    begun = device_->RecordCopy();
    base = slot->data();
    // The tensors hold the lease itself until GiveOut(), not a
    // SlotRing::Hold(): the destructor of a hold records an event on the
    // current stream of its thread, which would be the producer's stream here.
    hold = slot;
  }
  // From here on, queued work may read the received slot, also when something
  // below fails. So host.lease leaves through copies_ only, behind an event.
  absl::Status status;
  if (streams && payload_bytes > 0) {
    status = device_->CopyIn(base, host.payload.data(), payload_bytes);
  }
  for (int i = 0; i < header.tensors_size() && status.ok(); ++i) {
    const size_t first = batch.tensors.size();
    status = Describe(header.tensors(i), batch.rows, base, payload_bytes, hold,
                      &batch.tensors);
    const Recipe& recipe = recipes_[i];
    if (!status.ok()) break;
    DeviceTensor& tensor = batch.tensors[first];
    if (recipe.cast.has_value()) {
      const TensorCast& cast = *recipe.cast;
      const uint64_t elements = batch.rows * cast.sample_elements();
      if (batch.rows > recipe.rows || tensor.dtype != cast.source() ||
          header.tensors(i).bytes() != elements * ElementBytes(cast.source())) {
        status = Malformed(header.tensors(i), "does not match the plan");
        break;
      }
      uint8_t* target = nullptr;
      uint8_t* scratch = nullptr;
      if (recipe.own_memory) {
        std::shared_ptr<uint8_t> own =
            AllocateOwn(elements * ElementBytes(cast.target()));
        if (own == nullptr) {
          status = absl::ResourceExhaustedError(absl::StrCat(
              "no memory for tensor ", tensor.name, " of a batch"));
          break;
        }
        target = own.get();
        tensor.hold = std::move(own);
      } else {
        target = slot->data() + recipe.slot_offset;
        scratch = slot->data() + recipe.scratch_offset;
        if (!streams) tensor.hold = SlotRing::Hold(slot);
      }
      status = device_->Cast(cast, tensor.data, target, scratch, elements);
      tensor.data = target;
      tensor.dtype = cast.target();
    }
    if (recipe.channels_first && tensor.sizes.size() == 4) SeeAsNchw(&tensor);
  }
  if (streams) {
    // After all queued work, successful or not.
    prepared.ready = device_->RecordCopy();
    if (status.ok()) status = prepared.ready->status();
    {
      MutexLock lock(mu_);
      // The releaser frees the received slot after the event.
      copies_.push_back({begun, prepared.ready, std::move(host.lease)});
      changed_.NotifyAll();
    }
    prepared.slot = std::move(slot);
  }
  if (!status.ok()) {
    Drop(std::move(prepared));
    return status;
  }
  return prepared;
}

void DeviceFeeder::Drop(Prepared prepared) {
  // The copy into the slot may not have begun, so the next lease of the slot
  // waits for it. No stream of the consumer has used the slot.
  if (prepared.slot != nullptr) prepared.slot->AddEvent(prepared.ready);
}

DeviceFeeder::Prepared DeviceFeeder::GiveOut(Prepared prepared) {
  if (prepared.slot != nullptr) {
    // Each tensor gets a hold in place of the lease. The hold dies with its
    // tensor, on the stream that is current there.
    for (DeviceTensor& tensor : prepared.batch.tensors) {
      tensor.hold = SlotRing::Hold(prepared.slot);
    }
    // Next() makes this stream wait for the copy, and the caller queues its
    // work here. So the next lease of the slot waits for this stream, wherever
    // the tensors die.
    prepared.slot->UsedOn(device_->CurrentStream());
    prepared.batch.slot = prepared.slot;
    prepared.slot.reset();
  }
  position_ =
      Normal({prepared.batch.position.epoch, prepared.batch.position.step + 1});
  return prepared;
}

Position DeviceFeeder::Normal(Position position) const {
  if (position.step < host_->plan().steps_per_epoch()) return position;
  return {position.epoch + 1, 0};
}

void DeviceFeeder::ProduceLoop() {
  device_->EnterThread();
  while (true) {
    {
      MutexLock lock(mu_);
      // The wait bounds ready_; the slots of the ring, if there is one, bound
      // it, too. After a final error the thread waits for a Seek().
      while (!closed_ && (!final_.ok() || ready_.size() >= options_.prefetch)) {
        changed_.Wait(lock);
      }
      if (closed_) return;
      // From now on Await() watches the deadline, because this thread may wait
      // for a slot that the consumer holds. Without a ring, and once the slot
      // is there, the host loader watches it.
      waiting_for_slot_ = ring_ != nullptr;
      changed_.NotifyAll();
    }
    Produced produced = Produce(SteadyTime::max());
    absl::StatusOr<Prepared>& prepared = produced.prepared;
    {
      MutexLock lock(mu_);
      waiting_for_slot_ = false;
      // With another generation, a Seek() came in between and the result is
      // dropped.
      if (produced.generation == generation_) {
        if (IsFinal(prepared.status())) {
          final_ = std::move(prepared).status();
        } else {
          ready_.push_back(std::move(prepared));
        }
        changed_.NotifyAll();
        continue;
      }
    }
    // Dropped without the lock, because the release of a lease runs a callback
    // of the host loader.
    if (prepared.ok()) Drop(*std::move(prepared));
  }
}

absl::StatusOr<DeviceFeeder::Prepared> DeviceFeeder::Await() {
  const SteadyTime deadline = SteadyDeadline(options_.next_timeout);
  // The host loader's deadline began when the thread called its Next(), before
  // this call began. So its timeout may come early: it is kept and returned at
  // the deadline of this call.
  absl::Status early;
  MutexLock lock(mu_);
  while (true) {
    if (closed_) return absl::CancelledError("the loader was closed");
    if (!ready_.empty()) {
      absl::StatusOr<Prepared> front = std::move(ready_.front());
      ready_.pop_front();
      changed_.NotifyAll();
      if (front.ok()) return GiveOut(*std::move(front));
      early = std::move(front).status();
      if (std::chrono::steady_clock::now() >= deadline) return early;
      continue;
    }
    if (!final_.ok()) return final_;
    if (!waiting_for_slot_) {
      // The host loader's Next() ends at its own deadline, with an error that
      // names the awaited step; the producer puts it into ready_. After such an
      // early error, this thread watches its own deadline.
      if (early.ok()) {
        changed_.Wait(lock);
      } else if (!changed_.WaitUntil(lock, deadline) && ready_.empty() &&
                 final_.ok() && !closed_) {
        return early;
      }
    } else if (!changed_.WaitUntil(lock, deadline) && waiting_for_slot_ &&
               ready_.empty() && !closed_) {
      return AllSlotsAreHeld();
    }
  }
}

absl::StatusOr<DeviceFeeder::Prepared> DeviceFeeder::ProduceNow() {
  const SteadyTime deadline = SteadyDeadline(options_.next_timeout);
  while (true) {
    {
      MutexLock lock(mu_);
      if (!final_.ok()) return final_;
    }
    Produced produced = Produce(deadline);
    MutexLock lock(mu_);
    // With another generation, a Seek() came in between and the result is
    // dropped. On the host that needs no event. `produced` is destroyed after
    // `lock`, so the lease is released without the lock.
    if (produced.generation != generation_) continue;
    if (produced.prepared.ok()) return GiveOut(*std::move(produced.prepared));
    if (IsFinal(produced.prepared.status())) {
      final_ = produced.prepared.status();
    }
    return produced.prepared;
  }
}

absl::Status DeviceFeeder::Seek(Position position) {
  std::deque<absl::StatusOr<Prepared>> dropped;
  {
    // Both generations change under one lock: a batch that the host loader
    // returns from here on is of the new position, and no thread can compare it
    // with the old generation. The host loader's lock is taken under this one,
    // never the other way round.
    MutexLock lock(mu_);
    if (closed_) return absl::CancelledError("the loader was closed");
    MR_RETURN_IF_ERROR(host_->Seek(position));
    ++generation_;
    position_ = Normal(position);
    final_ = absl::OkStatus();
    // Dropped after the lock.
    dropped.swap(ready_);
    changed_.NotifyAll();
  }
  for (auto& prepared : dropped) {
    if (prepared.ok()) Drop(*std::move(prepared));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceBatch> DeviceFeeder::Next() {
  const auto start = std::chrono::steady_clock::now();
  const bool threaded = !device_->is_host() || options_.thread;
  absl::StatusOr<Prepared> prepared = threaded ? Await() : ProduceNow();
  if (prepared.ok() && prepared->ready != nullptr) {
    // Called on the caller's thread, because the caller's current stream must
    // wait, and without the lock.
    device_->ConsumerWaits(*prepared->ready);
  }
  const double seconds = SecondsSince(start);
  MutexLock lock(mu_);
  stats_.wait_seconds += seconds;
  if (!prepared.ok()) {
    // After a Close(), any error means Cancelled.
    return closed_ ? absl::CancelledError("the loader was closed")
                   : prepared.status();
  }
  return std::move(prepared->batch);
}

Position DeviceFeeder::position() const {
  MutexLock lock(mu_);
  return position_;
}

DeviceFeeder::Stats DeviceFeeder::stats() const {
  MutexLock lock(mu_);
  return stats_;
}

void DeviceFeeder::ReleaseLoop() {
  device_->EnterThread();
  while (true) {
    Copied copied;
    {
      MutexLock lock(mu_);
      // Copies are in the order of the copy stream, so awaiting the first one
      // delays no other. Ends when the producer has ended and all copies are
      // done.
      while (copies_.empty() && !copies_ended_) changed_.Wait(lock);
      if (copies_.empty()) return;
      copied = std::move(copies_.front());
      copies_.pop_front();
    }
    // Without the lock: this may take as long as a step.
    copied.done->Await();
    const double seconds = copied.done->SecondsAfter(*copied.begun);
    MutexLock lock(mu_);
    stats_.device_copy_seconds += seconds;
  }  // the lease dies here, outside the lock
}

void DeviceFeeder::Close() {
  {
    MutexLock lock(mu_);
    closed_ = true;
    changed_.NotifyAll();
  }
  // Wakes a producer that waits for a batch; ring_->Close() wakes one that
  // waits for a slot. closed_ is set, so it does not wait again.
  host_->Close();
  if (ring_ != nullptr) ring_->Close();

  // A second caller waits here until the threads have ended. mu_ is taken under
  // join_mu_; the threads never take join_mu_.
  MutexLock join(join_mu_);
  if (producer_.joinable()) producer_.join();
  std::deque<absl::StatusOr<Prepared>> undelivered;
  {
    MutexLock lock(mu_);
    // Set after the end of the producer, which is the only thread that adds
    // copies.
    copies_ended_ = true;
    undelivered.swap(ready_);
    changed_.NotifyAll();
  }
  // Received memory must go back before the host loader is destroyed.
  if (releaser_.joinable()) releaser_.join();
  for (auto& prepared : undelivered) {
    if (prepared.ok()) Drop(*std::move(prepared));
  }
}

}  // namespace millrace::device
