// Ranks as threads of one process: what they tell each other is the same.

#include "trainer/ddp/communicator.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "trainer/ddp/replicas.h"

namespace millrace::ddp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Calls `body` with each rank's communicator, and gives what it said.
std::vector<absl::Status> OnAll(
    uint32_t world, const std::function<absl::Status(Communicator&)>& body) {
  // c10d's flight recorder is one for the process, and libtorch 2.11 notes a
  // group's first call in it without its lock: groups of several threads, which
  // a program never has, break its map. 0 entries turn it off.
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(fd, 16), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  std::vector<absl::Status> said(world);
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] {
      const trainer::RankEnv env = {.rank = rank,
                                    .world_size = world,
                                    .local_rank = rank,
                                    .local_world_size = world,
                                    .master_address = "127.0.0.1",
                                    .master_port = ntohs(address.sin_port),
                                    .master_fd = rank == 0 ? fd : -1};
      auto joined = Communicator::Join(
          env, {.timeout = absl::Minutes(1), .call_timeout = absl::Minutes(1)});
      if (!joined.ok()) {
        said[rank] = joined.status();
        return;
      }
      said[rank] = body(**joined);
      if (said[rank].ok()) {
        said[rank] = (*joined)->Leave();
      } else {
        (*joined)->Fail(said[rank]);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return said;
}

struct TwoLayers : torch::nn::Module {
  TwoLayers()
      : first(register_module("first", torch::nn::Linear(3, 4))),
        norm(register_module("norm", torch::nn::BatchNorm1d(4))),
        second(register_module("second", torch::nn::Linear(4, 2))) {
    torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters()) parameter.fill_(0.5);
  }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear second;
};

TEST(Communicator, CountsWhatIsSpentOnOtherRanks) {
  const auto said = OnAll(2, [](Communicator& ranks) -> absl::Status {
    torch::Tensor ones = at::ones({1000}, torch::kDouble);
    if (absl::Status status = ranks.Sum(ones); !status.ok()) return status;
    EXPECT_EQ(ones[999].item<double>(), 2);
    const Communicator::Stats after_sum = ranks.stats();
    EXPECT_EQ(after_sum.bytes, 8000u);
    EXPECT_GT(after_sum.allreduce_seconds, 0);

    torch::nn::Linear layer(3, 2);
    {
      torch::NoGradGuard no_grad;
      layer->weight.fill_(1);
      layer->bias.fill_(0);
    }
    if (absl::Status status = ranks.AverageGradientsOf(layer->parameters());
        !status.ok()) {
      return status;
    }
    const double mine = ranks.rank() + 1;
    double before = after_sum.allreduce_seconds;
    for (uint64_t step = 1; step <= 3; ++step) {
      layer->zero_grad();
      ranks.BeforeForward();
      const torch::Tensor loss =
          (layer->forward(at::ones({1, 3})) * mine).sum();
      ranks.BeforeBackward();
      loss.backward();
      ranks.AfterBackward();
      // The mean of 1 and 2.
      EXPECT_EQ(layer->weight.grad()[1][2].item<float>(), 1.5f);
      EXPECT_EQ(ranks.stats().bytes, 8000u + step * 4 * (6 + 2));
      EXPECT_GT(ranks.stats().allreduce_seconds, before);
      before = ranks.stats().allreduce_seconds;
    }
    // Without an average nothing is waited for.
    layer->zero_grad();
    (layer->forward(at::ones({1, 3})) * mine).sum().backward();
    ranks.AfterBackward();
    EXPECT_EQ(layer->weight.grad()[1][2].item<float>(), mine);
    EXPECT_EQ(ranks.stats().allreduce_seconds, before);
    return absl::OkStatus();
  });
  for (const absl::Status& status : said) EXPECT_TRUE(status.ok()) << status;
}

TEST(Communicator, NamesTheRankThatIsMissing) {
  const auto said = OnAll(3, [](Communicator& ranks) -> absl::Status {
    if (ranks.rank() == 2) return absl::DataLossError("its disk is broken");
    torch::Tensor one = at::ones({1});
    return ranks.Sum(one);
  });
  for (size_t rank : {0, 1}) {
    EXPECT_TRUE(absl::IsUnavailable(said[rank])) << said[rank];
    EXPECT_THAT(std::string(said[rank].message()),
                AllOf(HasSubstr("rank 2 of 3 on host "),
                      HasSubstr("has ended: its disk is broken"),
                      HasSubstr("noticed by rank ")));
  }
}

// As Gloo writes to its own, without a flag against SIGPIPE: a sum with a rank
// that had ended killed about one process in a hundred that way.
TEST(Communicator, OutlivesAWriteToAClosedConnection) {
  const auto said = OnAll(2, [](Communicator&) -> absl::Status {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
      return absl::ErrnoToStatus(errno, "socketpair");
    }
    close(ends[0]);
    const char byte = 0;
    EXPECT_EQ(write(ends[1], &byte, 1), -1);
    EXPECT_EQ(errno, EPIPE);
    close(ends[1]);
    return absl::OkStatus();
  });
  for (const absl::Status& status : said) EXPECT_TRUE(status.ok()) << status;
}

TEST(Replicas, AreEqualOrTheDifferenceIsNamed) {
  const auto equal = OnAll(2, [](Communicator& ranks) {
    const TwoLayers model;
    return VerifyReplicas(model, {{"the step", 7}}, ranks, "at the start");
  });
  for (const absl::Status& status : equal) EXPECT_TRUE(status.ok()) << status;

  const auto other_bit = OnAll(3, [](Communicator& ranks) {
    TwoLayers model;
    if (ranks.rank() == 1) {
      torch::NoGradGuard no_grad;
      // -0.5 of 0.5: one bit.
      model.second->weight[1][3].neg_();
      model.norm->running_mean.fill_(1);
    }
    return VerifyReplicas(model, {}, ranks, "after epoch 2");
  });
  for (const absl::Status& status : other_bit) {
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("after epoch 2: rank 1 of 3 differs from rank 0, "
                          "first in second.weight (2 of 9 values differ)"));
  }

  const auto other_step = OnAll(2, [](Communicator& ranks) {
    const TwoLayers model;
    return VerifyReplicas(model, {{"the step", 7 + ranks.rank()}}, ranks,
                          "at the start");
  });
  for (const absl::Status& status : other_step) {
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("first in the step"), HasSubstr("--resume")));
  }

  const auto other_model = OnAll(2, [](Communicator& ranks) {
    const TwoLayers two;
    const torch::nn::Linear one(3, 4);
    return ranks.rank() == 0 ? VerifyReplicas(two, {}, ranks, "at the start")
                             : VerifyReplicas(*one, {}, ranks, "at the start");
  });
  for (const absl::Status& status : other_model) {
    EXPECT_TRUE(absl::IsAborted(status)) << status;
  }
}

}  // namespace
}  // namespace millrace::ddp
