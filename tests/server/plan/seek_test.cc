// What it costs to make a plan and to go anywhere in it: counted in memory,
// which follows the spec and not the number of samples.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "proto/spec_text.h"
#include "server/plan/plan.h"
#include "server/plan/resolve.h"

namespace {

std::atomic<uint64_t> g_allocations{0};
std::atomic<uint64_t> g_bytes{0};

void* Counted(size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  g_bytes.fetch_add(bytes, std::memory_order_relaxed);
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Counted(bytes); }
void* operator new[](size_t bytes) { return Counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace millrace::plan {
namespace {

struct Cost {
  uint64_t allocations = g_allocations.load();
  uint64_t bytes = g_bytes.load();
};

Cost Since(const Cost& start) {
  Cost now;
  now.allocations -= start.allocations;
  now.bytes -= start.bytes;
  return now;
}

DatasetInfo Info(const std::string& name, int64_t samples) {
  DatasetInfo info;
  info.set_name(name);
  info.set_samples(samples);
  info.set_fingerprint(name);
  Field* field = info.mutable_schema()->add_fields();
  field->set_name("x");
  field->set_kind(FIELD_KIND_TENSOR);
  field->set_dtype(DTYPE_INT64);
  return info;
}

constexpr const char* kSpecs[] = {
    "sources { dataset: 'a' } ",
    "sources { dataset: 'a' subset { to: 0.9 } } ",
    ("sources { dataset: 'a' subset { to: 0.9 unit: 64 } } "
     "shuffle { mode: BLOCK } "),
    "sources { dataset: 'a' weight: 3 } sources { dataset: 'b' weight: 1 } ",
    "sources { dataset: 'a' } sources { dataset: 'b' } concatenate: true ",
};

// Making the plan, and then going to positions all over the epochs.
struct Costs {
  Cost make;
  Cost seek;
  Cost read;
};

Costs Measure(const std::string& text, int64_t samples) {
  const DatasetInfo a = Info("a", samples), b = Info("b", samples / 3);
  auto spec = ParseSpecText(text + "batch_size: 64 seed: 9", "test");
  EXPECT_TRUE(spec.ok()) << spec.status();
  auto resolved = ResolveSpec(*spec, {{"a", &a}, {"b", &b}});
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  std::vector<const DatasetInfo*> infos = {&a};
  if (resolved->sources_size() == 2) infos.push_back(&b);

  Costs costs;
  const Cost before;
  const auto plan = Plan::Create(*resolved, infos);
  costs.make = Since(before);
  EXPECT_TRUE(plan.ok()) << plan.status();
  for (uint64_t e = 0; e < 3; ++e) {
    const Cost start;
    const Plan::Epoch epoch = plan->ForEpoch(e * 1'000'003);
    costs.seek = Since(start);
    const Cost reads;
    for (uint64_t i = 0; i < 1000; ++i) {
      const uint64_t step = Mix64(i) % plan->steps().steps();
      const auto rows = plan->steps().Rows(step, 3, 4);
      const SampleRef ref = epoch.At(rows->first);
      EXPECT_TRUE(ref.valid);
      EXPECT_LT(ref.index, samples);
    }
    costs.read = Since(reads);
  }
  return costs;
}

TEST(Seek, CostsTheSameAtAThousandMillionSamples) {
  for (const char* text : kSpecs) {
    const Costs few = Measure(text, 100'000);
    const Costs many = Measure(text, 1'000'000'000);
    EXPECT_EQ(many.make.allocations, few.make.allocations) << text;
    EXPECT_EQ(many.make.bytes, few.make.bytes) << text;
    EXPECT_LT(many.make.bytes, 64u << 10) << text;
    EXPECT_LE(many.seek.allocations, 1u) << text;
    EXPECT_LT(many.seek.bytes, 8u << 10) << text;
    EXPECT_EQ(many.seek.bytes, few.seek.bytes) << text;
    EXPECT_EQ(many.read.allocations, 0u) << text;
  }
}

}  // namespace
}  // namespace millrace::plan
