#include "trainer/checkpoint.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

#include "tests/testing/subprocess.h"
#include "trainer/models/model.h"
#include "trainer/optim/updater.h"
#include "trainer/weights/zip_archive.h"

// libtorch's reader of archives does not free what it has read of a directory
// that it then refuses. The files here are damaged on purpose.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:mz_zip_reader_init\n";
}

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

// A model with all the state that a run may have.
struct Training {
  explicit Training(const std::string& optimizer = "adam",
                    const std::string& precision = "float16")
      : updater(Options(optimizer, precision), model->parameters(),
                torch::kCPU) {}
  static optim::Updater::Options Options(const std::string& optimizer,
                                         const std::string& precision) {
    TrainerConfig config;
    config.optimizer = optimizer;
    config.precision = precision;
    if (precision == "float16") config.ema = 0.5;
    config.lr = 0.1;
    return optim::UpdaterOptions(config, optim::BatchGroups(100, 1));
  }
  void Step() {
    updater.ClearGradients();
    updater.Scale(model->forward(torch::ones({1, 3})).sum()).backward();
    updater.Step(steps++, 1);
  }
  torch::nn::Linear model{3, 2};
  optim::Updater updater;
  uint64_t steps = 0;
};

class Checkpoint : public ::testing::Test {
 protected:
  static CheckpointInfo Info() {
    CheckpointInfo info;
    info.model = "linear";
    info.optimizer = "adam";
    info.classes = 2;
    info.accumulate = 4;
    info.position = {.epoch = 3, .step = 4};
    info.steps = 5;
    info.plan_hash = "hash";
    info.fingerprint = "print";
    return info;
  }
  absl::Status Write(Training& training) {
    return WriteCheckpoint(path_, Info(), *training.model,
                           training.updater.State());
  }
  absl::Status Restore(Training& training) {
    return RestoreCheckpoint(path_, *training.model, training.updater.State());
  }
  const std::string path_ = testing::NewTempDir() + "/checkpoint";
};

TEST_F(Checkpoint, GivesBackWhatWasWritten) {
  Training training;
  training.Step();
  training.Step();
  ASSERT_TRUE(Write(training).ok());
  const auto info = ReadCheckpointInfo(path_);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->model, "linear");
  EXPECT_EQ(info->position, (Position{3, 4}));
  EXPECT_EQ(info->steps, 5u);
  EXPECT_EQ(info->accumulate, 4u);
  EXPECT_EQ(info->plan_hash, "hash");
  EXPECT_THAT(info->parts, ElementsAre("optimizer", "scaler", "average"));

  Training other;
  const void* place = other.model->weight.data_ptr();
  ASSERT_TRUE(Restore(other).ok());
  EXPECT_EQ(other.model->weight.data_ptr(), place) << "restored in place";
  // The same steps from the same state.
  other.steps = training.steps;
  training.Step();
  other.Step();
  EXPECT_TRUE(torch::equal(other.model->weight, training.model->weight));
  const optim::NamedParts expected = training.updater.State();
  const optim::NamedParts state = other.updater.State();
  ASSERT_EQ(state.size(), expected.size());
  for (size_t i = 0; i < state.size(); ++i) {
    ASSERT_EQ(state[i].second.size(), expected[i].second.size());
    for (size_t j = 0; j < state[i].second.size(); ++j) {
      EXPECT_TRUE(
          torch::equal(state[i].second[j].second, expected[i].second[j].second))
          << state[i].first << " " << state[i].second[j].first;
    }
  }
}

TEST_F(Checkpoint, LeavesPartsThatTheFileLacksAsTheyAre) {
  Training training("sgd", "float32");
  training.Step();
  ASSERT_TRUE(Write(training).ok());
  Training other("sgd", "float16");
  ASSERT_TRUE(Restore(other).ok());
  EXPECT_TRUE(torch::equal(other.model->weight, training.model->weight));
  EXPECT_EQ(other.updater.scaler()->scale(), optim::GradScaler::kFirstScale);
}

TEST_F(Checkpoint, KeepsTheLayoutOfTheModelThatIsThere) {
  torch::nn::Conv2d plain(torch::nn::Conv2dOptions(3, 4, 3));
  ASSERT_TRUE(WriteCheckpoint(path_, Info(), *plain, {}).ok());
  torch::nn::Conv2d other(torch::nn::Conv2dOptions(3, 4, 3));
  models::UseChannelsLast(*other);
  const auto strides = other->weight.strides().vec();
  ASSERT_NE(strides, plain->weight.strides().vec());
  ASSERT_TRUE(RestoreCheckpoint(path_, *other, {}).ok());
  EXPECT_EQ(other->weight.strides().vec(), strides);
  EXPECT_TRUE(torch::equal(other->weight, plain->weight));
}

TEST_F(Checkpoint, RefusesAnotherShape) {
  torch::nn::Linear wide(4, 2);
  ASSERT_TRUE(WriteCheckpoint(path_, Info(), *wide, {}).ok());
  Training training;
  const absl::Status status = Restore(training);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(path_), HasSubstr("shape")));
}

TEST_F(Checkpoint, KeepsTheOldFileWhenSomethingIsNoNumber) {
  Training training;
  training.Step();
  ASSERT_TRUE(Write(training).ok());
  const std::string good = testing::ReadFile(path_);
  ASSERT_FALSE(good.empty());
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> spoilt = {training.model->weight};
  for (const auto& [part, tensors] : training.updater.State()) {
    for (const auto& [name, tensor] : tensors) {
      if (tensor.is_floating_point()) spoilt.push_back(tensor);
    }
  }
  EXPECT_EQ(spoilt.size(), 1u + 5 + 2 + 2);
  for (torch::Tensor& tensor : spoilt) {
    const torch::Tensor before = tensor.clone();
    tensor.view({-1})[-1].fill_(&tensor == &spoilt[0] ? kNan : kInfinity);
    const absl::Status status = Write(training);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_EQ(testing::ReadFile(path_), good);
    tensor.copy_(before);
  }
  EXPECT_TRUE(Write(training).ok());
}

// Largest size of this process so far, and a new beginning of the count.
uint64_t PeakBytes() {
  std::istringstream lines(testing::ReadFile("/proc/self/status"));
  for (std::string word; lines >> word;) {
    uint64_t kib = 0;
    if (word == "VmHWM:" && lines >> kib) return kib << 10;
  }
  return 0;
}

TEST_F(Checkpoint, IsWrittenWithoutACopyOfTheWeights) {
  constexpr uint64_t kBytes = 64 << 20;
  torch::nn::Linear large(4096, 4096);
  testing::WriteFile("/proc/self/clear_refs", "5");
  const uint64_t before = PeakBytes();
  ASSERT_GT(before, kBytes);
  ASSERT_TRUE(WriteCheckpoint(path_, Info(), *large, {}).ok());
  EXPECT_LT(PeakBytes() - before, kBytes / 4);
  EXPECT_GT(testing::ReadFile(path_).size(), kBytes);
}

TEST_F(Checkpoint, RefusesWhatIsDamagedOrOfAnotherVersion) {
  // As much of the entries as is looked at before the mistake.
  const auto write = [this](int64_t format, const char* hash, int64_t step) {
    torch::serialize::OutputArchive archive;
    archive.write("format", c10::IValue(format));
    archive.write("model_name", c10::IValue("mlp"));
    archive.write("optimizer_name", c10::IValue("adam"));
    archive.write("classes", c10::IValue(int64_t{10}));
    archive.write("accumulate", c10::IValue(int64_t{1}));
    archive.write("epoch", c10::IValue(int64_t{0}));
    archive.write("step", c10::IValue(step));
    archive.write("steps", c10::IValue(int64_t{0}));
    archive.write("plan_hash", c10::IValue(hash));
    archive.write("fingerprint", c10::IValue("print"));
    archive.write("parts", c10::IValue("optimizer"));
    archive.save_to(path_);
    return ReadCheckpointInfo(path_).status();
  };
  EXPECT_TRUE(write(2, "00ff", 1).ok());
  const absl::Status hash = write(2, "00fg", 1);
  EXPECT_TRUE(absl::IsDataLoss(hash)) << hash;
  EXPECT_THAT(std::string(hash.message()),
              AllOf(HasSubstr(path_), HasSubstr("00fg"),
                    HasSubstr("not hexadecimal"), HasSubstr("damaged")));
  const absl::Status step = write(2, "00ff", -1);
  EXPECT_TRUE(absl::IsDataLoss(step)) << step;
  EXPECT_THAT(std::string(step.message()), HasSubstr("step is -1"));
  const absl::Status old = write(1, "00ff", 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(old)) << old;
  EXPECT_THAT(std::string(old.message()), HasSubstr("earlier version"));
  EXPECT_THAT(std::string(write(3, "00ff", 1).message()),
              HasSubstr("later version"));

  Training training;
  ASSERT_TRUE(Write(training).ok());
  const std::string whole = testing::ReadFile(path_);
  for (const size_t bytes : {whole.size() / 2, whole.size() - 1, size_t{0}}) {
    testing::WriteFile(path_, whole.substr(0, bytes));
    const absl::Status cut = ReadCheckpointInfo(path_).status();
    EXPECT_TRUE(absl::IsDataLoss(cut)) << bytes << ": " << cut;
  }
}

// libtorch looks at no checksum: a run went on from such a file with a loss of
// 4e35.
TEST_F(Checkpoint, RefusesAnEntryOfWhichABitIsFlipped) {
  Training training;
  training.Step();
  ASSERT_TRUE(Write(training).ok());
  const std::string whole = testing::ReadFile(path_);
  const auto entries = weights::ParseZip(whole);
  ASSERT_TRUE(entries.ok()) << entries.status();
  size_t flipped = 0;
  for (const weights::ZipEntry& entry : *entries) {
    if (entry.compressed || entry.data.empty()) continue;
    std::string damaged = whole;
    const size_t place = entry.data.data() - whole.data();
    damaged[place + entry.data.size() / 2] ^= 0x40;
    testing::WriteFile(path_, damaged);
    Training other;
    for (const absl::Status& status :
         {ReadCheckpointInfo(path_).status(), Restore(other)}) {
      EXPECT_TRUE(absl::IsDataLoss(status)) << entry.name << ": " << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(path_), HasSubstr(entry.name),
                        HasSubstr("earlier checkpoint")));
    }
    ++flipped;
  }
  EXPECT_GT(flipped, 10u) << "the weights, Adam's state, the values";
}

// The archive's own bytes have no checksum: what is flipped in them is refused
// or changes nothing.
TEST_F(Checkpoint, NoFlippedBitChangesWhatIsRestored) {
  Training training;
  training.Step();
  ASSERT_TRUE(Write(training).ok());
  const std::string whole = testing::ReadFile(path_);
  size_t refused = 0, restored = 0;
  // Every byte of the directory and the end; elsewhere a part, for the time.
  const size_t directory = whole.find("PK\1\2");
  ASSERT_NE(directory, std::string::npos);
  for (size_t i = 0; i < whole.size(); i += i < directory ? 23 : 1) {
    std::string damaged = whole;
    damaged[i] ^= static_cast<char>(1 << i % 8);
    testing::WriteFile(path_, damaged);
    Training other;
    const absl::Status status = Restore(other);
    if (!status.ok()) {
      ++refused;
      continue;
    }
    ++restored;
    EXPECT_TRUE(torch::equal(other.model->weight, training.model->weight)) << i;
    EXPECT_TRUE(torch::equal(other.model->bias, training.model->bias)) << i;
    const auto info = ReadCheckpointInfo(path_);
    ASSERT_TRUE(info.ok()) << i;
    EXPECT_EQ(info->position, (Position{3, 4})) << i;
    EXPECT_EQ(info->plan_hash, "hash") << i;
    EXPECT_THAT(info->parts, ElementsAre("optimizer", "scaler", "average"))
        << i;
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(restored, 0u) << "padding";
}

// The message was a dump of libtorch's parser, or spoke of an internal error.
TEST_F(Checkpoint, TellsOtherFilesOfLibtorchApart) {
  const auto refusal = [](const std::string& path) {
    const absl::Status status = ReadCheckpointInfo(path).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr(path), Not(HasSubstr("\n")), Not(HasSubstr("miniz"))));
    return std::string(status.message());
  };
  // As torch.save writes it.
  testing::WriteFile(path_, weights::ToZip({{"w/data.pkl", "."},
                                            {"w/byteorder", "little"},
                                            {"w/data/0", "1234"},
                                            {"w/version", "3\n"}}));
  EXPECT_THAT(refusal(path_), HasSubstr("give the file to --init_weights"));
  const std::string tensors = testing::NewTempDir() + "/w.safetensors";
  testing::WriteFile(tensors, std::string("\2\0\0\0\0\0\0\0{}", 10));
  EXPECT_THAT(refusal(tensors), HasSubstr("give the file to --init_weights"));

  torch::serialize::OutputArchive other;
  other.write("weight", torch::ones({2}));
  other.save_to(path_);
  EXPECT_THAT(refusal(path_), AllOf(HasSubstr("no entry \"format\""),
                                    HasSubstr("earlier checkpoint")));
  // The definitions of types have no checksum when they are compressed.
  testing::WriteFile(path_, weights::ToZip({{"a/data.pkl", "."},
                                            {"a/code/__torch__.py", "no code"},
                                            {"a/constants.pkl", "."},
                                            {"a/version", "3\n"}}));
  EXPECT_THAT(refusal(path_), AllOf(HasSubstr("not a whole checkpoint"),
                                    HasSubstr("earlier checkpoint")));
}

TEST_F(Checkpoint, RefusesAFolder) {
  const absl::Status status =
      ReadCheckpointInfo(testing::NewTempDir()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("it is a folder"));
}

}  // namespace
}  // namespace millrace::trainer
