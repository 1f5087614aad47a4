// The program over a link that flips bits which TCP's checksum lets pass: it
// trains on the values that the server sent. 26 of 29 flips were trained on,
// with exit code 0.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/tcp_gate.h"
#include "tests/trainer/train_world.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DamagedLink : public Train {
 protected:
  DamagedLink() : gate_(world_->server->port()) {
    // 16 pixels of an image in the middle of the data: no other bytes of a
    // batch are equal to them.
    const std::string images =
        ReadFile(world_->folder + "/t10k-images-idx3-ubyte");
    pattern_ = images.substr(16 + 40 * 784 + 400, 16);
  }

  std::vector<double> Learn(const std::string& name,
                            const std::vector<std::string>& more) {
    std::vector<std::string> flags = {
        "--endpoint=" + gate_.address(), "--dataset=test", "--batch_size=16",
        "--last_batch=pad", "--step_losses=" + Path(name)};
    flags.insert(flags.end(), more.begin(), more.end());
    run_ = Run(flags);
    EXPECT_EQ(run_.exit_code, 0) << run_.err;
    return Losses(name);
  }

  std::string EvaluationLoss() const {
    const std::string json = ReadFile(Path("eval.json"));
    const size_t at = json.find("\"eval_loss\": [");
    EXPECT_NE(at, std::string::npos) << json;
    return json.substr(at, json.find(']', at) - at);
  }

  TcpGate gate_;
  std::string pattern_;
  ProgramResult run_;
};

TEST_F(DamagedLink, NoFlippedBitIsTrainedOn) {
  const std::vector<double> whole = Learn("whole", {});
  ASSERT_EQ(whole.size(), 5u);
  gate_.Damage(pattern_, 1);
  EXPECT_EQ(Learn("damaged", {}), whole);
  EXPECT_EQ(gate_.damages(), 1);
  EXPECT_THAT(run_.err, HasSubstr("differs from the digest"));

  // The evaluation's batches are compared as well.
  const std::vector<std::string> evaluated = {
      "--dataset=train", "--eval_dataset=test", "--json=" + Path("eval.json")};
  const std::vector<double> trained = Learn("trained", evaluated);
  const std::string loss = EvaluationLoss();
  gate_.Damage(pattern_, 1);
  EXPECT_EQ(Learn("trained", evaluated), trained);
  EXPECT_EQ(gate_.damages(), 1);
  EXPECT_EQ(EvaluationLoss(), loss);
}

// Shows that the bit matters, and that the flag does what it says.
TEST_F(DamagedLink, ItIsTrainedOnWithoutTheComparison) {
  const std::vector<double> whole = Learn("whole", {"--verify_payload=false"});
  gate_.Damage(pattern_, 1);
  EXPECT_NE(Learn("damaged", {"--noverify_payload"}), whole);
  EXPECT_EQ(gate_.damages(), 1);
  EXPECT_THAT(run_.err, Not(HasSubstr("digest")));
}

}  // namespace
}  // namespace millrace::testing
