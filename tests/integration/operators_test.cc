// Operators as their users meet them: libraries of C files, loaded by real
// servers, over the wire.

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/spec_text.h"
#include "tests/testing/digits.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ProgramPath;
using testing::ReceivedBatch;
using testing::RpcClient;

std::string Example(const std::string& name) {
  return "--operators=" + ProgramPath("docs/example/operators/" + name + ".so");
}
std::string Library(const std::string& name) {
  return "--operators=" +
         ProgramPath("tests/testing/operators/" + name + ".so");
}

PipelineSpec Spec(const std::string& text) {
  auto spec = ParseSpecText(text, "test");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : PipelineSpec();
}

// The payloads of an epoch by step; none when something fails.
std::map<uint64_t, std::string> Payloads(const std::string& address,
                                         const OpenResponse& plan) {
  std::vector<ReceivedBatch> batches;
  const absl::Status status = RpcClient(address).GetBatches(
      RpcClient::Request(plan, 0, plan.steps_per_epoch()), &batches);
  EXPECT_TRUE(status.ok()) << status;
  std::map<uint64_t, std::string> payloads;
  for (ReceivedBatch& batch : batches) {
    payloads[batch.header.step()] = std::move(batch.payload);
  }
  EXPECT_EQ(payloads.size(), plan.steps_per_epoch());
  return payloads;
}

absl::Status FirstStep(const std::string& address, const OpenResponse& plan) {
  std::vector<ReceivedBatch> batches;
  return RpcClient(address).GetBatches(RpcClient::Request(plan, 0, 1),
                                       &batches);
}

class OperatorsTest : public testing::ServiceTest {
 protected:
  // CIFAR-10 records whose pixels are the record's number + 100.
  std::string WriteCifar(int records) {
    std::string bytes;
    for (int i = 0; i < records; ++i) {
      bytes.push_back(static_cast<char>(i % 10));
      bytes.append(3072, static_cast<char>(100 + i));
    }
    const std::string path = Path("cifar.bin");
    testing::WriteFile(path, bytes);
    return "--dataset=cifar=cifar10:" + path;
  }

  // PPM and PGM images of two classes; returns their folder.
  std::string WritePnm() {
    const std::string images = Path("images");
    for (int i = 0; i < 8; ++i) {
      const bool grey = i % 2 == 1;
      const int width = 5 + i;
      const std::string folder = absl::StrCat(images, grey ? "/grey" : "/rgb");
      EXPECT_EQ(testing::RunProgram({"/bin/mkdir", "-p", folder}).exit_code, 0);
      testing::WriteFile(
          absl::StrCat(folder, "/", i, ".pnm"),
          absl::StrCat(grey ? "P5" : "P6", " ", width, " 6 255\n",
                       std::string(width * 6 * (grey ? 1 : 3), 'a' + i)));
    }
    return images;
  }

  const std::string digits_ = Digits(60);
};

constexpr char kCutout[] =
    "sources { dataset: 'digits' } batch_size: 10 seed: 3 "
    "transforms { custom { name: 'cutout' config: '9' fields: 'image' } }";

TEST_F(OperatorsTest, ATransformRunsOnEveryServerAlike) {
  const auto one = Serve({digits_, Example("cutout"), "--threads=1"});
  const auto two = Serve({digits_, Example("cutout"), "--threads=4"});
  const auto plan = RpcClient(one->address()).Open(Spec(kCutout), 1);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const CustomTransform& custom = plan->resolved_spec().transforms(0).custom();
  EXPECT_EQ(custom.version(), "1.0");
  EXPECT_EQ(custom.library_hash().size(), 32);
  // The second never saw Open.
  const auto payloads = Payloads(one->address(), *plan);
  EXPECT_EQ(Payloads(two->address(), *plan), payloads);

  // Each image has its square of zeros, and only it.
  std::vector<ReceivedBatch> batches;
  ASSERT_TRUE(RpcClient(one->address())
                  .GetBatches(RpcClient::Request(*plan, 0, 1), &batches)
                  .ok());
  const auto& tensors = batches[0].header.tensors();
  int64_t indices[10];
  for (const TensorHeader& tensor : tensors) {
    if (tensor.name() == "sample_index") {
      std::memcpy(indices, batches[0].payload.data() + tensor.offset(),
                  sizeof(indices));
    }
  }
  ASSERT_EQ(tensors[0].name(), "image");
  for (int row = 0; row < 10; ++row) {
    int changed = 0;
    for (int i = 0; i < 28 * 28; ++i) {
      const uint8_t got = static_cast<uint8_t>(
          batches[0].payload[tensors[0].offset() + row * 28 * 28 + i]);
      const uint8_t was = testing::DigitPixel(indices[row], i);
      EXPECT_TRUE(got == was || got == 0);
      changed += got != was;
    }
    EXPECT_GT(changed, 15);  // a quarter of the square at a corner, at least
    EXPECT_LE(changed, 81);
  }
}

TEST_F(OperatorsTest, AServerWithAnotherLibraryRefusesTheJob) {
  const auto built = Serve({digits_, Library("good")});
  const auto rebuilt = Serve({digits_, Library("good_rebuilt")});
  const auto newer = Serve({digits_, Library("good_newer")});
  const auto without = Serve({digits_});
  const auto plan = RpcClient(built->address())
                        .Open(Spec("sources { dataset: 'digits' } "
                                   "batch_size: 10 transforms { custom { "
                                   "name: 'paint' fields: 'image' } }"),
                              1);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(FirstStep(built->address(), *plan).ok());
  const std::string hash =
      plan->resolved_spec().transforms(0).custom().library_hash();

  const absl::Status other = FirstStep(rebuilt->address(), *plan);
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(other.message(), HasSubstr("transform paint differs"));
  EXPECT_THAT(other.message(), HasSubstr(hash));
  EXPECT_THAT(other.message(), HasSubstr("copy one file to every server"));
  const absl::Status version = FirstStep(newer->address(), *plan);
  EXPECT_EQ(version.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(version.message(), HasSubstr("the pipeline names version 1.0"));
  const absl::Status none = FirstStep(without->address(), *plan);
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(none.message(), HasSubstr("which is not loaded (loaded: "));

  const absl::Status unknown =
      RpcClient(without->address()).Open(Spec(kCutout), 1).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(unknown.message(), HasSubstr("no transform \"cutout\""));
}

TEST_F(OperatorsTest, ASourceIsServedLikeADataset) {
  const std::string flag = WriteCifar(30);
  const auto server = Serve({flag, Example("cifar10")});
  // The preset takes what the schema says.
  const auto plan =
      RpcClient(server->address())
          .Open(Spec("sources { dataset: 'cifar' } batch_size: 10 "
                     "shuffle { mode: SEQUENTIAL } preset: 'cifar_eval'"),
                1);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->resolved_spec().sources(0).reader().name(), "cifar10");
  const auto payloads = Payloads(server->address(), *plan);
  ASSERT_EQ(payloads.size(), 3);
  EXPECT_EQ(static_cast<uint8_t>(payloads.at(2)[0]), 120);
  EXPECT_EQ(static_cast<uint8_t>(payloads.at(2)[9 * 3072 + 3071]), 129);

  // Other content under the same name.
  WriteCifar(31);
  const auto changed = Serve({flag, Example("cifar10")});
  const absl::Status refused = FirstStep(changed->address(), *plan);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("the data differ"));
}

TEST_F(OperatorsTest, ADecoderReadsWhatTheServerDoesNot) {
  const std::string images = WritePnm();
  const std::string uri = "lmdb:" + Path("pnm.lmdb");
  const testing::ProgramResult packed =
      testing::RunProgram({ProgramPath("server/data_tool/millrace-data"),
                           "pack", "--format=imagefolder", "--input=" + images,
                           "--output=" + uri, Example("pnm")});
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  const auto server = Serve({"--dataset=pnm=" + uri, Example("pnm")});
  const std::string rest =
      "center_crop { height: 4 width: 4 } } "
      "shuffle { mode: SEQUENTIAL } batch_size: 8 sources { dataset: 'pnm' }";
  const auto plan = RpcClient(server->address())
                        .Open(Spec("transforms { decode_image { decoders { "
                                   "name: 'pnm' } } } transforms { " +
                                   rest),
                              1);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->resolved_spec()
                .transforms(0)
                .decode_image()
                .decoders(0)
                .library_hash()
                .size(),
            32);
  const auto payloads = Payloads(server->address(), *plan);
  ASSERT_EQ(payloads.size(), 1);
  std::string letters;
  for (int row = 0; row < 8; ++row) letters += payloads.at(0)[row * 48];
  EXPECT_EQ(letters, "bdfhaceg");  // grey ones come first, as RGB

  // Without its name in the spec it is not asked.
  const auto plain =
      RpcClient(server->address())
          .Open(Spec("transforms { decode_image {} } transforms { " + rest), 1);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const absl::Status bad = FirstStep(server->address(), *plain);
  EXPECT_EQ(bad.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(bad.message(), HasSubstr("not an image of a known format"));
}

TEST_F(OperatorsTest, AnOperatorThatFailsMakesABadSample) {
  const auto server = Serve({digits_, Library("good")});
  const std::string text =
      "sources { dataset: 'digits' } batch_size: 10 transforms { custom { "
      "name: 'rescale' config: 'fail' fields: 'image' } } bad_samples { "
      "action: ";
  const auto fail = RpcClient(server->address()).Open(Spec(text + "FAIL }"), 1);
  ASSERT_TRUE(fail.ok()) << fail.status();
  EXPECT_EQ(fail->tensors(0).dtype(), DTYPE_FLOAT32);
  const absl::Status failed = FirstStep(server->address(), *fail);
  EXPECT_EQ(failed.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(failed.message(),
              HasSubstr("transforms[0]: transform rescale 1.0: it fails "
                        "always"));
  const auto zero = RpcClient(server->address()).Open(Spec(text + "ZERO }"), 1);
  ASSERT_TRUE(zero.ok()) << zero.status();
  std::vector<ReceivedBatch> batches;
  ASSERT_TRUE(RpcClient(server->address())
                  .GetBatches(RpcClient::Request(*zero, 0, 1), &batches)
                  .ok());
  EXPECT_EQ(batches[0].header.local_valid(), 0);
}

TEST_F(OperatorsTest, ATensorTravelsAsTheOperatorMakesIt) {
  const auto server = Serve({digits_, Library("good")});
  // Pixels are cropped, painted in place by one operator, halved by another.
  const auto plan =
      RpcClient(server->address())
          .Open(Spec("sources { dataset: 'digits' } batch_size: 10 "
                     "shuffle { mode: SEQUENTIAL } "
                     "transforms { center_crop { height: 2 width: 2 } } "
                     "transforms { custom { name: 'paint' config: 'scratch' } }"
                     "transforms { custom { name: 'rescale' config: 'same' } } "
                     "transforms { custom { name: 'rescale' } }"),
                1);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->tensors(0).dtype(), DTYPE_FLOAT32);
  EXPECT_THAT(plan->tensors(0).sample_shape(), ElementsAre(2, 2, 1));
  const auto payloads = Payloads(server->address(), *plan);
  float pixels[4];
  std::memcpy(pixels, payloads.at(1).data() + 3 * sizeof(pixels),
              sizeof(pixels));
  const auto digit = [](int64_t y, int64_t x) {
    return static_cast<uint8_t>(testing::DigitPixel(13, y * 28 + x) + 1) / 2.0f;
  };
  EXPECT_THAT(pixels, ElementsAre(digit(13, 14), digit(13, 13), digit(14, 14),
                                  digit(14, 13)));
}

TEST_F(OperatorsTest, TheServerSaysWhatItHasLoaded) {
  const auto server = Serve({digits_, Example("cutout"), Example("pnm")});
  const auto status = RpcClient(server->address()).GetStatus();
  ASSERT_TRUE(status.ok());
  ASSERT_EQ(status->operators_size(), 2);
  EXPECT_EQ(status->operators(0).kind(), "decoder");
  EXPECT_EQ(status->operators(0).ref().name(), "pnm");
  EXPECT_EQ(status->operators(1).ref().version(), "1.0");
  EXPECT_THAT(status->operators(1).file(), HasSubstr("cutout.so"));
  EXPECT_THAT(server->process().Stderr(), HasSubstr("transform cutout 1.0"));

  const testing::ProgramResult checked =
      RunServer({digits_, Example("cutout"), "--check_config"});
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("transform cutout     1.0"));
  EXPECT_THAT(checked.out,
              HasSubstr(status->operators(1).ref().library_hash()));
}

TEST_F(OperatorsTest, TheDataToolReadsThroughSources) {
  const std::string flag = WriteCifar(3);
  const std::string uri = flag.substr(flag.find("cifar10:"));
  const std::string tool = ProgramPath("server/data_tool/millrace-data");
  const testing::ProgramResult inspected =
      testing::RunProgram({tool, "inspect", Example("cifar10"), uri});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("format       cifar10"));
  EXPECT_THAT(inspected.out, HasSubstr("reader       cifar10 1.0 of"));
  EXPECT_THAT(inspected.out, HasSubstr("airplane"));
  const testing::ProgramResult verified =
      testing::RunProgram({tool, "verify", Example("cifar10"), uri});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("3 samples"));
  EXPECT_EQ(testing::RunProgram({tool, "inspect", uri}).exit_code, 2);
}

TEST_F(OperatorsTest, LibrariesThatDoNotWorkStopTheStart) {
  for (const auto& [flag, says] :
       {std::pair{Library("bad_wrong_abi"), "version 99"},
        std::pair{Library("bad_no_symbol"), "does not export"},
        std::pair{std::string("--operators=/none.so"), "No such file"}}) {
    const testing::ProgramResult result =
        RunServer({digits_, flag, "--listen=127.0.0.1:0"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(says));
  }
  // Of a configuration file, too.
  testing::WriteFile(Path("s.textproto"), "operators: \"/none.so\"");
  const testing::ProgramResult result =
      RunServer({digits_, "--config=" + Path("s.textproto")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("/none.so"));
}

}  // namespace
}  // namespace millrace
