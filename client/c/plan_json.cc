#include "client/c/plan_json.h"

#include "absl/strings/escaping.h"
#include "client/batch_files/explanation_json.h"
#include "common/json_text.h"
#include "proto/dtype.h"
#include "proto/tensor_view.h"

namespace millrace::c {
namespace {

// Enough to get the same float32 back.
constexpr int kFloatDigits = 9;

std::string CastJson(const TensorSpec& spec) {
  if (!spec.has_device_transform()) return "null";
  const DeviceTransform& cast = spec.device_transform();
  return JsonObject()
      .Add("dtype", DTypeName(cast.dtype()))
      .AddJson("scale", JsonNumber(cast.scale(), kFloatDigits))
      .AddJson("mean", JsonOf(cast.mean(), kFloatDigits))
      .AddJson("stddev", JsonOf(cast.stddev(), kFloatDigits))
      .Add("channels_first", cast.channels_first())
      .Json();
}

std::string TensorJson(const TensorSpec& spec) {
  return JsonObject()
      .Add("name", spec.name())
      .Add("dtype", DTypeName(spec.dtype()))
      .Add("sample_shape", spec.sample_shape())
      .Add("num_classes", spec.num_classes())
      .Add("class_names", spec.class_names())
      .Add("view", IsSeenChannelsFirst(spec) ? "channels_first" : "as_stored")
      .AddJson("cast", CastJson(spec))
      .Json();
}

std::string SourceJson(const SourcePlan& source) {
  return JsonObject()
      .Add("dataset", source.dataset())
      .Add("samples", source.samples())
      .Add("samples_per_epoch", source.samples_per_epoch())
      .Add("slots", source.slots())
      .Add("fingerprint", source.fingerprint())
      .Json();
}

std::string ServerJson(const diagnosis::ServerTimes& server) {
  return JsonObject()
      .Add("address", server.address)
      .Add("batches", server.batches)
      .Add("timed_batches", server.timed_batches)
      .Add("shared_batches", server.shared_batches)
      .Add("read_seconds", server.read_seconds)
      .Add("decode_seconds", server.decode_seconds)
      .Add("augment_seconds", server.augment_seconds)
      .Add("wait_memory_seconds", server.wait_memory_seconds)
      .Add("wait_thread_seconds", server.wait_thread_seconds)
      .Add("send_seconds", server.send_seconds)
      .Add("make_seconds", server.make_seconds)
      .Add("idle_seconds", server.idle_seconds)
      .Add("receive_seconds", server.receive_seconds)
      .Add("waited_seconds", server.waited_seconds)
      .Json();
}

}  // namespace

std::string PlanJson(const OpenResponse& plan) {
  return JsonObject()
      .Add("content_revision", plan.content_revision())
      .Add("steps_per_epoch", plan.steps_per_epoch())
      .Add("samples_per_epoch", plan.samples_per_epoch())
      .Add("dropped_per_epoch", plan.dropped_per_epoch())
      .Add("batch_size", plan.resolved_spec().batch_size())
      .Add("max_batch_bytes", plan.max_payload_bytes())
      .Add("plan_hash", absl::BytesToHexString(plan.plan_hash()))
      .Add("fingerprint", plan.fingerprint())
      .Add("decoder_digest", plan.decoder_digest())
      .Add("pipeline", plan.resolved_spec().ShortDebugString())
      .AddJson("tensors", JsonList(plan.tensors(), TensorJson))
      .AddJson("sources", JsonList(plan.sources(), SourceJson))
      .Json();
}

std::string StatsJson(const HostLoader::Stats& stats) {
  return JsonObject()
      .Add("batches", stats.batches)
      .Add("samples", stats.samples)
      .Add("payload_bytes", stats.payload_bytes)
      .Add("wire_bytes", stats.wire_bytes)
      .Add("wait_seconds", stats.wait_seconds)
      .Add("no_answer_seconds", stats.no_answer_seconds)
      .Add("no_answer", stats.no_answer)
      .Add("first_batch_seconds", stats.first_batch_seconds)
      .Add("retried_steps", stats.retried_steps)
      .Add("servers", stats.servers)
      .Add("open_slots", stats.open_slots)
      .Add("hedged_steps", stats.hedged_steps)
      .Add("hedge_wins", stats.hedge_wins)
      .Add("extra_bytes", stats.extra_bytes)
      .Add("window", stats.window)
      .Add("first_window", stats.first_window)
      .Add("window_changes", stats.window_changes)
      .Add("window_reason", stats.window_reason)
      .Add("copy_seconds", stats.copy_seconds)
      .AddJson("by_server", JsonList(stats.by_server, ServerJson))
      .Json();
}

std::string ExplanationJson(const ExplainBatchResponse& explained,
                            Position position) {
  return JsonObject()
      .Add("epoch", position.epoch)
      .Add("step", position.step)
      .Add("rows", explained.rows())
      .AddJson("drawn", batch_files::DrawnJson(explained.drawn()))
      .AddJson("samples", batch_files::ExplainedRowsJson(explained))
      .Json();
}

}  // namespace millrace::c
