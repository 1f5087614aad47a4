// Fuzz target of the spec as it comes over the wire: protobuf's bytes, checked,
// resolved and hashed.

#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/logging.h"
#include "proto/spec_text.h"
#include "tests/fuzz/fuzz_specs.h"
#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

bool Run(const uint8_t* data, size_t size) {
  // protobuf writes a line for each string that is no UTF-8.
  static const auto quiet = google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string&) {});
  (void)quiet;
  PipelineSpec spec;
  if (!spec.ParseFromArray(data, static_cast<int>(size))) return false;
  return FuzzSpec(spec);
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const std::string& text : FuzzSpecTexts()) {
    auto spec = ParseSpecText(text, "seed");
    MR_CHECK(spec.ok()) << spec.status();
    seeds.push_back(spec->SerializeAsString());
    // With everything written out.
    auto resolved = plan::ResolveSpec(*spec, FuzzDatasets());
    MR_CHECK(resolved.ok()) << resolved.status();
    seeds.push_back(resolved->SerializeAsString());
  }
  return seeds;
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds};
  return target;
}

}  // namespace millrace
