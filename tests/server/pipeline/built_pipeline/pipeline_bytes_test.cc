// The estimate of what a pipeline takes, compared with what malloc gives for
// it.

#include "server/pipeline/built_pipeline/pipeline_bytes.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <string>

#include "server/pipeline/engine.h"
#include "tests/server/pipeline/engine_fixture.h"
#include "tests/testing/sanitizer.h"

namespace millrace::pipeline {
namespace {

TEST(PipelineBytes, AreAnUpperEstimateOfWhatItTakes) {
#if MR_WITH_SANITIZER
  GTEST_SKIP() << "malloc is the sanitizer's";
#endif
  ByteBudget budget(uint64_t{8} << 30);
  Engine::Options options;
  options.threads = 1;
  options.budget = &budget;
  auto engine = Engine::Create(options, {{"images", Images(40)}});
  ASSERT_TRUE(engine.ok()) << engine.status();
  for (const int sources : {1, 16, 256}) {
    for (const int transforms : {0, 5, 59}) {
      // What is kept once, whatever the number of pipelines.
      for (const bool warm : {true, false}) {
        PipelineSpec spec = Spec(
            "batch_size: 8 transforms { decode_image {} } transforms { "
            "random_resized_crop { height: 64 width: 64 } }");
        for (int i = 0; i < sources; ++i) {
          Source& source = *spec.add_sources();
          source.set_dataset("images");
          if (sources > 1) source.set_weight(1);
        }
        for (int i = 0; i < transforms; ++i) {
          Transform& transform = *spec.add_transforms();
          switch (i % 4) {
            case 0:
              transform.mutable_horizontal_flip();
              break;
            case 1:
              transform.mutable_color_jitter()->set_brightness_min(0.5);
              transform.mutable_color_jitter()->set_brightness_max(1.5);
              break;
            case 2:
              transform.mutable_gaussian_blur()->set_kernel_size(5);
              break;
            case 3:
              transform.mutable_random_rotation()->set_degrees_min(-10);
              transform.mutable_random_rotation()->set_degrees_max(10);
              break;
          }
        }
        spec.set_seed(warm ? 1 : 2);
        const uint64_t before = mallinfo2().uordblks;
        const auto pipeline = (*engine)->Open(spec);
        ASSERT_TRUE(pipeline.ok()) << pipeline.status();
        const uint64_t taken = mallinfo2().uordblks - before;
        if (warm) continue;
        const uint64_t estimate =
            PipelineBytes((*pipeline)->description().resolved_spec());
        EXPECT_LE(taken, estimate) << sources << " x " << transforms;
        EXPECT_LE(MinPipelineBytes(spec), estimate)
            << sources << " x " << transforms;
        EXPECT_LE(estimate, 16 * taken) << sources << " x " << transforms;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::pipeline
