// Models from TorchScript files, which Python wrote (make_golden.py beside
// them), and models run as graphs.

#include "trainer/models/script_model.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>
#include <torch/utils.h>

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/testing/subprocess.h"
#include "tests/trainer/formula.h"
#include "trainer/class_loss.h"
#include "trainer/fit.h"
#include "trainer/models/graph_model.h"
#include "trainer/models/model_name.h"
#include "trainer/weights/zip_archive.h"

namespace millrace::trainer {
namespace {

using ::millrace::testing::ExpectClose;
using ::millrace::testing::Golden;
using ::millrace::testing::Images;
using ::millrace::testing::ModelFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr models::ImageShape kDigits = {
    .channels = 1, .height = 28, .width = 28};

std::shared_ptr<models::Classifier> Load(const std::string& file) {
  auto model = models::MakeModel("torchscript:" + ModelFile(file), kDigits,
                                 /*outputs=*/10);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::string Refusal(const std::string& path) {
  const auto model = models::MakeModel("torchscript:" + path, kDigits, 10);
  EXPECT_FALSE(model.ok());
  return std::string(model.status().message());
}

torch::Tensor Labels() { return torch::tensor({1, 7, 3, 0}, torch::kLong); }

// Mean losses of a few steps of SGD; the last of them with half the rows.
std::vector<double> Train(models::Classifier& model,
                          const torch::Tensor& images, int steps, double rate) {
  torch::optim::SGD optimizer(models::TrainableParameters(model),
                              torch::optim::SGDOptions(rate));
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const int64_t rows = step + 1 < steps || steps < 5 ? 4 : 2;
    optimizer.zero_grad();
    const torch::Tensor loss =
        SumOfLosses(model.forward(images.slice(0, 0, rows)),
                    Labels().slice(0, 0, rows)) /
        rows;
    losses.push_back(loss.item<double>());
    loss.backward();
    optimizer.step();
  }
  return losses;
}

TEST(ScriptModel, NamesItsWeightsAsPythonDoes) {
  const auto model = Load("small_cnn.pt");
  std::vector<std::string> names;
  for (const auto& named : model->named_parameters()) {
    names.push_back(named.key());
  }
  EXPECT_THAT(names, ElementsAre("features.0.weight", "features.0.bias",
                                 "features.1.weight", "features.1.bias",
                                 "head.weight", "head.bias"));
  EXPECT_EQ(model->named_buffers().size(), 3u);
  EXPECT_EQ(models::CountParameters(*model), 4 * 9 + 4 + 8 + 640 + 10);
}

TEST(ScriptModel, LearnsWhatPythonLearns) {
  const auto golden = Golden("script.txt");
  const torch::Tensor images = Images({4, 1, 28, 28});
  for (const char* file : {"small_cnn.pt", "traced_cnn.pt"}) {
    for (const bool graph : {false, true}) {
      SCOPED_TRACE(absl::StrCat(file, graph ? " as a graph" : ""));
      auto model = Load(file);
      if (graph) model = models::GraphOf(model);
      models::UseChannelsLast(*model);
      if (file == std::string("small_cnn.pt")) {
        const torch::NoGradGuard no_grad;
        model->eval();
        ExpectClose(model->forward(images), golden.at("small_cnn eval"), 1e-5,
                    "eval");
      }
      model->train();
      ExpectClose(torch::tensor(Train(*model, images, 4, 0.5), torch::kDouble),
                  golden.at("small_cnn losses"), 1e-4, "losses");
      // The other one's statistics moved when it was traced, too.
      if (file == std::string("small_cnn.pt")) {
        ExpectClose(model->named_buffers()["features.1.running_mean"],
                    golden.at("small_cnn running_mean"), 1e-4, "running_mean");
      }
    }
  }
}

TEST(ScriptModel, DropsOutInTrainingOnly) {
  const auto model = Load("dropped.pt");
  const torch::NoGradGuard no_grad;
  const torch::Tensor images = Images({4, 1, 28, 28});
  model->train();
  torch::manual_seed(1);
  const torch::Tensor dropped = model->forward(images);
  EXPECT_GT(dropped.eq(0).sum().item<int64_t>(), 5);
  model->eval();
  EXPECT_EQ(model->forward(images).eq(0).sum().item<int64_t>(), 0);
  EXPECT_TRUE(torch::equal(model->forward(images), model->forward(images)));
}

TEST(ScriptModel, TakesWeightsFromAnArchiveOfLibtorch) {
  const torch::Tensor images = Images({4, 1, 28, 28});
  const auto trained = Load("small_cnn.pt");
  Train(*trained, images, 3, 0.5);
  std::stringstream bytes;
  {
    torch::serialize::OutputArchive archive;
    trained->save(archive);
    archive.save_to(bytes);
  }
  const auto other = Load("small_cnn.pt");
  torch::serialize::InputArchive archive;
  archive.load_from(bytes);
  other->load(archive);
  trained->eval();
  other->eval();
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(trained->forward(images), other->forward(images)));
}

TEST(ScriptModel, TrainsOnlyWhatWantsAGradientAndSharedWeightsOnce) {
  const auto model = Load("half_fixed.pt");
  EXPECT_EQ(models::TrainableParameters(*model).size(), 3u);
  const torch::Tensor fixed =
      model->named_parameters()["backbone.weight"].clone();
  const torch::Tensor shared =
      model->named_parameters()["first.weight"].clone();
  Train(*model, Images({4, 1, 28, 28}), 2, 0.1);
  EXPECT_TRUE(
      torch::equal(model->named_parameters()["backbone.weight"], fixed));
  EXPECT_FALSE(torch::equal(model->named_parameters()["first.weight"], shared));
}

TEST(ScriptModel, RefusesFilesThatItCannotTrain) {
  EXPECT_THAT(Refusal("/no/such/file.pt"), HasSubstr("/no/such/file.pt"));
  EXPECT_THAT(Refusal(ModelFile("resnet.txt")),
              AllOf(HasSubstr("resnet.txt"), HasSubstr("TorchScript")));
  const std::string cut = testing::NewTempDir() + "/cut.pt";
  const std::string whole = testing::ReadFile(ModelFile("small_cnn.pt"));
  testing::WriteFile(cut, whole.substr(0, whole.size() / 2));
  EXPECT_THAT(Refusal(cut), HasSubstr("not a whole TorchScript module"));
  // Of weights it spoke of an internal error.
  testing::WriteFile(cut, weights::ToZip({{"w/data.pkl", "."},
                                          {"w/data/0", "1234"},
                                          {"w/version", "3\n"}}));
  EXPECT_THAT(Refusal(cut), AllOf(HasSubstr("not a whole TorchScript module"),
                                  Not(HasSubstr("miniz"))));
  // In the middle of a weight: it was trained on.
  std::string flipped = whole;
  const auto entries = weights::ParseZip(whole);
  ASSERT_TRUE(entries.ok()) << entries.status();
  for (const weights::ZipEntry& entry : *entries) {
    if (!absl::EndsWith(entry.name, "/data/0")) continue;
    flipped[entry.data.data() - whole.data() + 3] ^= 0x40;
  }
  ASSERT_NE(flipped, whole);
  testing::WriteFile(cut, flipped);
  EXPECT_THAT(Refusal(cut), HasSubstr("data/0\" is damaged"));
  EXPECT_THAT(Refusal(ModelFile("double.pt")),
              AllOf(HasSubstr("head.weight is Double"), HasSubstr(".float()")));
  EXPECT_THAT(Refusal(ModelFile("frozen.pt")),
              HasSubstr("no parameters to train"));
}

std::string FitOf(const std::string& file, models::ImageShape shape,
                  int64_t outputs) {
  const auto model = Load(file);
  model->train();
  auto loss = losses::MakeLoss({}, torch::kCPU);
  EXPECT_TRUE(loss.ok()) << loss.status();
  const auto before = model->buffers();
  std::vector<torch::Tensor> copies;
  for (const torch::Tensor& buffer : before) copies.push_back(buffer.clone());
  const absl::Status fit =
      CheckFit(*model, **loss,
               {{shape.channels, shape.height, shape.width}, torch::kFloat},
               {.kind = losses::TargetForm::kClasses,
                .outputs = outputs,
                .classes = outputs},
               losses::LossKind::kCrossEntropy, file, torch::kCPU);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(torch::equal(before[i], copies[i]));
  }
  EXPECT_TRUE(model->is_training());
  return std::string(fit.message());
}

TEST(CheckFit, SaysWhatTheModelTakesAndGives) {
  EXPECT_EQ(FitOf("small_cnn.pt", kDigits, 10), "");
  EXPECT_THAT(FitOf("small_cnn.pt", kDigits, 7),
              AllOf(HasSubstr("returned [2, 10]"),
                    HasSubstr("must return [2, 7]"), HasSubstr("each class")));
  EXPECT_THAT(FitOf("small_cnn.pt", {3, 28, 28}, 10),
              AllOf(HasSubstr("[2, 3, 28, 28]"), HasSubstr("channels")));
  EXPECT_THAT(FitOf("dropped.pt", {1, 14, 14}, 10), HasSubstr("shapes"));
  EXPECT_THAT(FitOf("of_all_rows.pt", kDigits, 10),
              AllOf(HasSubstr("returned [10]"), HasSubstr("2 rows")));
  EXPECT_THAT(FitOf("tupled.pt", kDigits, 10), HasSubstr("no tensor"));
}

TEST(ModelName, OfAFileGoesByItsContent) {
  const std::string folder = testing::NewTempDir();
  const std::string bytes = testing::ReadFile(ModelFile("dropped.pt"));
  testing::WriteFile(folder + "/a.pt", bytes);
  testing::WriteFile(folder + "/b.pt", bytes);
  testing::WriteFile(folder + "/c.pt", bytes + "x");
  const auto identity = [&](const std::string& name) {
    const auto parsed = models::ParseModelName("torchscript:" + folder + name);
    return *models::IdentityOf(*parsed);
  };
  EXPECT_EQ(identity("/a.pt"), identity("/b.pt"));
  EXPECT_NE(identity("/a.pt"), identity("/c.pt"));
  EXPECT_EQ(*models::IdentityOf(*models::ParseModelName("resnet34")),
            "resnet34");
  EXPECT_FALSE(
      models::IdentityOf(*models::ParseModelName("torchscript:/no/such")).ok());
  EXPECT_FALSE(models::ParseModelName("torchscript:").ok());
  // A pipe was waited for, and can be read only once.
  ASSERT_EQ(mkfifo((folder + "/pipe.pt").c_str(), 0600), 0);
  const absl::Status pipe =
      models::IdentityOf(
          *models::ParseModelName("torchscript:" + folder + "/pipe.pt"))
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(pipe)) << pipe;
  EXPECT_THAT(std::string(pipe.message()),
              ::testing::HasSubstr("pipe.pt is not a regular file"));
}

// The same seed, with and without a graph: the same losses, weights and running
// statistics. The last step has another number of rows.
TEST(GraphModel, LearnsWhatTheModelLearns) {
  for (const std::string name : {"mlp", "cnn", "resnet18"}) {
    SCOPED_TRACE(name);
    const int64_t channels = name == "resnet18" ? 3 : 1;
    const int64_t size = name == "resnet18" ? 64 : 28;
    const torch::Tensor images = Images({4, channels, size, size});
    const auto make = [&] {
      auto model = models::MakeModel(name, {channels, size, size}, 10);
      EXPECT_TRUE(model.ok()) << model.status();
      testing::Fill(**model);
      models::UseChannelsLast(**model);
      (*model)->train();
      return *model;
    };
    const auto plain = make();
    const auto graph = models::GraphOf(make());
    const std::vector<double> expected = Train(*plain, images, 6, 0.01);
    const std::vector<double> losses = Train(*graph, images, 6, 0.01);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(losses[i], expected[i], 1e-4 * expected[0]) << "step " << i;
    }
    EXPECT_EQ(static_cast<models::GraphModel&>(*graph).graphs(), 2u);
    const auto a = plain->named_buffers(), b = graph->named_buffers();
    ASSERT_EQ(a.size(), b.size());
    for (const auto& named : a) {
      EXPECT_TRUE(torch::allclose(named.value(), b[named.key()], 1e-3, 1e-4))
          << named.key();
    }
    const torch::NoGradGuard no_grad;
    for (int i = 0; i < 3; ++i) {
      plain->eval();
      graph->eval();
      EXPECT_TRUE(torch::allclose(plain->forward(images),
                                  graph->forward(images), 1e-3, 1e-3));
    }
  }
}

TEST(GraphModel, FollowsWeightsThatAreReplaced) {
  const torch::NoGradGuard no_grad;
  auto model = models::MakeModel("mlp", kDigits, 10);
  ASSERT_TRUE(model.ok());
  const auto graph = models::GraphOf(*model);
  graph->eval();
  const torch::Tensor images = Images({4, 1, 28, 28});
  for (int i = 0; i < 3; ++i) graph->forward(images);
  for (torch::Tensor& parameter : graph->parameters()) {
    parameter.set_data(at::zeros_like(parameter));
  }
  EXPECT_EQ(graph->forward(images).abs().sum().item<float>(), 0);
}

TEST(GraphModel, KnowsTheTypesThatAutocastChooses) {
  auto model = models::MakeModel("cnn", kDigits, 10);
  ASSERT_TRUE(model.ok());
  testing::Fill(**model);
  const auto graph = models::GraphOf(*model);
  const torch::Tensor images = Images({4, 1, 28, 28});
  torch::Tensor full, expected, half;
  for (int i = 0; i < 3; ++i) full = graph->forward(images);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  for (int i = 0; i < 3; ++i) {
    expected = (*model)->forward(images);
    at::autocast::clear_cache();
    half = graph->forward(images);
    at::autocast::clear_cache();
  }
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(full.scalar_type(), torch::kFloat);
  EXPECT_EQ(half.scalar_type(), torch::kBFloat16);
  // Both are rounded, and not alike: neither is further off than bfloat16 is.
  const auto error = [&](const torch::Tensor& logits) {
    return (logits.to(torch::kFloat) - full).abs().max().item<float>();
  };
  EXPECT_GT(error(half), 0);
  EXPECT_LT(error(half), 3 * error(expected));
  half.to(torch::kFloat).sum().backward();
  EXPECT_TRUE(graph->parameters()[0].grad().defined());
  EXPECT_TRUE(torch::allclose(graph->forward(images), full, 1e-5, 1e-5));
}

TEST(GraphModel, RunsWithoutAGraphAfterTooManyShapes) {
  const torch::NoGradGuard no_grad;
  auto model = models::MakeModel("mlp", kDigits, 10);
  ASSERT_TRUE(model.ok());
  const auto graph = models::GraphOf(*model);
  const torch::Tensor images = Images({40, 1, 28, 28});
  for (int64_t rows = 1; rows <= 40; ++rows) {
    const torch::Tensor some = images.slice(0, 0, rows);
    EXPECT_TRUE(torch::allclose(graph->forward(some), (*model)->forward(some)));
  }
  EXPECT_EQ(static_cast<models::GraphModel&>(*graph).graphs(),
            models::GraphModel::kMaxGraphs);
}

}  // namespace
}  // namespace millrace::trainer
