#include "tests/client/prefetch/fake_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "xxhash.h"

namespace millrace::testing {
namespace {

constexpr uint64_t kSampleBytes = 5;
constexpr uint64_t kAlignment = 64;

uint64_t Aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

OpenResponse MakePlan(uint64_t steps, uint64_t rows) {
  OpenResponse plan;
  plan.set_protocol_version(1);
  plan.set_plan_hash("hash");
  plan.set_fingerprint("content");
  plan.set_steps_per_epoch(steps);
  plan.set_samples_per_epoch(steps * rows);
  plan.mutable_resolved_spec()->set_batch_size(rows);
  TensorSpec* data = plan.add_tensors();
  data->set_name("data");
  data->set_dtype(DTYPE_UINT8);
  data->add_sample_shape(kSampleBytes);
  TensorSpec* index = plan.add_tensors();
  index->set_name("sample_index");
  index->set_dtype(DTYPE_INT64);
  TensorSpec* valid = plan.add_tensors();
  valid->set_name("valid");
  valid->set_dtype(DTYPE_BOOL);
  plan.set_max_payload_bytes(MakeBatch(plan, {0, 0}).header.payload_bytes());
  return plan;
}

FakeBatch MakeBatch(const OpenResponse& plan, Position position) {
  const uint64_t rows = plan.resolved_spec().batch_size();
  FakeBatch batch;
  BatchHeader& header = batch.header;
  header.set_epoch(position.epoch);
  header.set_step(position.step);
  header.set_world_size(1);
  header.set_rows(rows);
  header.set_local_valid(rows);
  header.set_global_valid(rows);
  header.set_first_position(position.step * rows);
  const uint64_t bytes[] = {rows * kSampleBytes, rows * 8, rows};
  for (int i = 0; i < 3; ++i) {
    const uint64_t offset = Aligned(batch.payload.size());
    TensorHeader* tensor = header.add_tensors();
    tensor->set_name(plan.tensors(i).name());
    tensor->set_dtype(plan.tensors(i).dtype());
    *tensor->mutable_sample_shape() = plan.tensors(i).sample_shape();
    tensor->set_offset(offset);
    tensor->set_bytes(bytes[i]);
    batch.payload.resize(offset + bytes[i]);
  }
  for (uint64_t i = 0; i < rows * kSampleBytes; ++i) {
    batch.payload[i] =
        static_cast<char>(position.epoch * 131 + position.step * 31 + i);
  }
  for (uint64_t row = 0; row < rows; ++row) {
    const int64_t index = static_cast<int64_t>(position.step * rows + row);
    std::memcpy(&batch.payload[header.tensors(1).offset() + row * 8], &index,
                8);
    batch.payload[header.tensors(2).offset() + row] = 1;
  }
  header.set_payload_bytes(batch.payload.size());
  header.set_payload_xxh3(
      XXH3_64bits(batch.payload.data(), batch.payload.size()));
  return batch;
}

void FakeTransport::SetServers(std::vector<prefetch::ServerState> servers) {
  servers_ = std::move(servers);
  if (events_ != nullptr) events_->OnServers(servers_);
}

void FakeTransport::Start(prefetch::TransportEvents* events) {
  events_ = events;
  events_->OnServers(servers_);
}

void FakeTransport::StartCall(prefetch::CallId id, prefetch::ServerId server,
                              const prefetch::AskedSteps& steps) {
  Call call;
  call.server = server;
  call.steps = steps;
  for (uint64_t i = 0; i < steps.step_count; ++i) {
    call.left.push_back(steps.first_step + i);
  }
  calls_[id] = std::move(call);
  history_.emplace_back(server, steps);
}

bool FakeTransport::SendFrame(prefetch::CallId id, uint64_t bytes) {
  Call& call = calls_.at(id);
  if (!call.begun) {
    if (call.left.empty()) return false;
    call.batch = MakeBatch(plan_, {call.steps.epoch, call.left.front()});
    call.left.erase(call.left.begin());
    call.begun = true;
    call.sent = 0;
  }
  wire::FrameView frame;
  frame.step = call.batch.header.step();
  if (call.sent == 0) {
    frame.has_header = true;
    frame.header = call.batch.header;
  }
  frame.offset = call.sent;
  frame.data_bytes =
      std::min<uint64_t>(bytes, call.batch.payload.size() - call.sent);
  const std::string data =
      call.batch.payload.substr(call.sent, frame.data_bytes);
  // In two slices, as a network would.
  const size_t half = data.size() / 2;
  frame.data = {absl::string_view(data).substr(0, half),
                absl::string_view(data).substr(half)};
  call.sent += frame.data_bytes;
  if (call.sent == call.batch.payload.size()) call.begun = false;
  events_->OnFrame(id, frame);  // may end the call
  return true;
}

void FakeTransport::Complete(prefetch::CallId id) {
  while (calls_.count(id) > 0 && SendFrame(id)) {
  }
  if (calls_.count(id) > 0) End(id, absl::OkStatus());
}

void FakeTransport::SendBatch(prefetch::CallId id, const FakeBatch& batch) {
  wire::FrameView frame;
  frame.step = batch.header.step();
  frame.has_header = true;
  frame.header = batch.header;
  frame.data_bytes = batch.payload.size();
  frame.data = {batch.payload};
  events_->OnFrame(id, frame);
}

void FakeTransport::End(prefetch::CallId id, absl::Status status) {
  calls_.erase(id);
  events_->OnCallDone(id, std::move(status));
}

std::vector<prefetch::CallId> FakeTransport::CallsAt(
    prefetch::ServerId server) const {
  std::vector<prefetch::CallId> ids;
  for (const auto& [id, call] : calls_) {
    if (call.server == server) ids.push_back(id);
  }
  return ids;
}

}  // namespace millrace::testing
