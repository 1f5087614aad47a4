// Specs come from the network: whatever the bytes are, resolving answers with
// a status, and what it accepts it accepts again unchanged.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/spec_text.h"
#include "server/plan/keys.h"
#include "server/plan/plan.h"
#include "server/plan/resolve.h"
#include "server/plan/spec_check.h"

namespace millrace::plan {
namespace {

DatasetInfo Photos() {
  DatasetInfo info;
  info.set_name("photos");
  info.set_samples(1000);
  Field& image = *info.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  Field& label = *info.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(10);
  Field& mask = *info.mutable_schema()->add_fields();
  mask.set_name("mask");
  mask.set_kind(FIELD_KIND_ENCODED_IMAGE);
  Field& boxes = *info.mutable_schema()->add_fields();
  boxes.set_name("boxes");
  boxes.set_kind(FIELD_KIND_TENSOR);
  boxes.set_dtype(DTYPE_FLOAT32);
  boxes.add_shape(6);
  boxes.add_shape(4);
  return info;
}

TEST(ForeignSpec, AnyBytesGetAnAnswer) {
  const DatasetInfo info = Photos();
  const DatasetInfos datasets = {{"photos", &info}};
  std::vector<std::string> seeds;
  for (const char* text : {
           "sources { dataset: 'photos' } batch_size: 8 "
           "preset: 'imagenet_train'",
           "sources { dataset: 'photos' subset { from: 0.5 to: 1 seed: 9 } } "
           "batch_size: 8 seed: 77 last_batch: LAST_BATCH_PAD "
           "transforms { decode_image { color: GRAY } } "
           "transforms { resize { height: 9 width: 7 } } "
           "transforms { horizontal_flip { p: 0.25 } } "
           "transforms { center_crop { height: 5 width: 5 } } "
           "transforms { normalize { mean: 0.5 stddev: 0.5 } } "
           "outputs { field: 'image' name: 'x' } bad_samples { action: ZERO }",
           "sources { dataset: 'photos' weight: 2 } batch_size: 100 "
           "shuffle { mode: BLOCK block_size: 10 window_blocks: 3 }",
           "sources { dataset: 'photos' } batch_size: 8 "
           "preset: 'imagenet_train_v2'",
           "sources { dataset: 'photos' } batch_size: 8 "
           "field_roles { field: 'mask' role: MASK fill: 255 } "
           "field_roles { field: 'boxes' role: BOXES_XYXY of: 'image' } "
           "transforms { decode_image {} } "
           "transforms { decode_image { field: 'mask' color: INDEX } } "
           "transforms { random_affine { fields: ['image', 'mask', 'boxes'] "
           "degrees_max: 9 scale_min: 0.5 scale_max: 2 fill: [1, 2, 3] } } "
           "transforms { random_crop { fields: ['image', 'mask', 'boxes'] "
           "height: 9 width: 9 padding: [1, 2] pad_if_needed: true } } "
           "transforms { color_jitter { hue_min: -0.1 hue_max: 0.1 } } "
           "transforms { gaussian_blur { kernel_size: 3 } } "
           "transforms { normalize { mean: [0, 0, 0] stddev: [1, 1, 1] "
           "placement: PLACEMENT_SERVER } } "
           "transforms { to_dtype { dtype: DTYPE_FLOAT16 } } "
           "outputs { field: 'image' layout: NCHW } outputs { field: 'mask' } "
           "outputs { field: 'boxes' } "
           "outputs { field: 'label' dtype: DTYPE_INT16 }",
           "sources { dataset: 'photos' } batch_size: 8 "
           "transforms { decode_image {} } "
           "transforms { resize { height: 20 width: 20 } } "
           "transforms { pad { padding: 3 padding_mode: PADDING_EDGE } } "
           "transforms { random_rotation { degrees_max: 9 } } "
           "transforms { rand_augment { num_ops: 3 magnitude: 5 } } "
           "transforms { vertical_flip {} } transforms { grayscale { p: 0.1 } "
           "} "
           "transforms { cut_mix { alpha: 0.5 labels: 'label' } }",
           "sources { dataset: 'photos' weight: 3 } "
           "sources { dataset: 'photos' subset { to: 0.5 unit: 20 } } "
           "batch_size: 8 epoch_samples: 300 outputs { field: 'label' } "
           "shuffle { mode: BLOCK block_size: 10 window_blocks: 3 }",
           "sources { dataset: 'photos' } sources { dataset: 'photos' } "
           "batch_size: 8 concatenate: true preset: 'imagenet_train'",
       }) {
    const auto spec = ParseSpecText(text, "seed");
    ASSERT_TRUE(spec.ok()) << spec.status();
    seeds.push_back(spec->SerializeAsString());
  }
  uint64_t state = 1;
  const auto random = [&state](uint64_t n) {
    return Mix64(state += kGolden64) % n;
  };
  int accepted = 0, parsed = 0;
  for (int i = 0; i < 30'000; ++i) {
    std::string bytes = seeds[random(seeds.size())];
    for (uint64_t edit = random(3) + 1; edit > 0; --edit) {
      const uint64_t at = random(bytes.size());
      switch (random(3)) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random(8)));
          break;
        case 1:
          bytes[at] = static_cast<char>(random(256));
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(random(256)));
      }
    }
    PipelineSpec spec;
    if (!spec.ParseFromString(bytes)) continue;
    ++parsed;
    const auto resolved = ResolveSpec(spec, datasets);
    if (!resolved.ok()) {
      EXPECT_LT(resolved.status().message().size(), 4096u);
      continue;
    }
    ++accepted;
    EXPECT_TRUE(FindSpecProblems(spec).empty());
    const auto again = ResolveSpec(*resolved, datasets);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->SerializeAsString(), resolved->SerializeAsString());
    const std::vector<const DatasetInfo*> infos(resolved->sources_size(),
                                                &info);
    const auto plan = Plan::Create(*resolved, infos);
    if (!plan.ok()) continue;
    const SampleRef ref =
        plan->ForEpoch(random(1000)).At(random(plan->steps().samples()));
    EXPECT_LT(ref.index, 1000);
    EXPECT_GE(ref.index, 0);
  }
  // The mutations reach both sides.
  EXPECT_GT(parsed, 3000);
  EXPECT_GT(accepted, 300);
  EXPECT_LT(accepted, parsed);
}

}  // namespace
}  // namespace millrace::plan
