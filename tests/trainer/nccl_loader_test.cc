// The plug-in for several ranks on GPUs, as far as it can be tested without
// one: how it is found and refused, and that it fits the libraries it is for.

#include "trainer/ddp/nccl_loader.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <sstream>
#include <string>

#include "client/torch/cuda_runtime.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string PlugIn() { return ProgramPath("trainer/ddp/libmillrace_nccl.so"); }

std::string Nm(const std::string& which) {
  const ProgramResult nm = RunProgram({"/usr/bin/nm", "-D", which, PlugIn()});
  EXPECT_EQ(nm.exit_code, 0) << nm.err;
  return nm.out;
}

TEST(NcclLoader, NamesTheFilesThatAreMissing) {
  auto make = ddp::LoadNccl({"/no/such/one.so", "/no/such/two.so"});
  EXPECT_EQ(make.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(make.status().message()),
              AllOf(HasSubstr("/no/such/one.so"), HasSubstr("/no/such/two.so"),
                    HasSubstr("--device=cpu")));
}

TEST(NcclLoader, LooksBesideLibtorchAndBesideTheProgram) {
  ASSERT_EQ(torch::zeros({1}).numel(), 1) << "libtorch is linked";
  const auto paths = ddp::NcclPluginPaths();
  ASSERT_EQ(paths.size(), 3u);
  EXPECT_EQ(paths[0], device::LibtorchFolder() + "/libmillrace_nccl.so");
  for (const std::string& path : paths) {
    EXPECT_THAT(path, ::testing::EndsWith("lib/libmillrace_nccl.so"));
  }
}

TEST(NcclLoader, SaysThatTheCudaPartOfLibtorchIsMissing) {
  // This process never opens libtorch_cuda.so, GPU or not.
  auto make = ddp::LoadNccl({PlugIn()});
  EXPECT_EQ(make.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(make.status().message()),
              AllOf(HasSubstr("undefined symbol"),
                    HasSubstr("libtorch_cuda.so of the version")));
}

TEST(NcclLoader, TellsWhatThePlugInTells) {
  ddp::MakeNcclBackend* make = [](const ddp::NcclRequest* request,
                                  ddp::NcclReply* reply) {
    reply->error = "no GPU is number " + std::to_string(request->device);
    return 1;
  };
  auto backend = ddp::ConnectNccl(make, {.rank = 3, .size = 8, .device = 5});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(backend.status().message()),
              AllOf(HasSubstr("rank 3 of 8"), HasSubstr("number 5")));
}

TEST(NcclPlugIn, ExportsItsFunctionAndNothingElse) {
  std::istringstream lines(Nm("--defined-only"));
  std::string address, type, name, more;
  ASSERT_TRUE(lines >> address >> type >> name);
  EXPECT_EQ(type, "T");
  EXPECT_EQ(name, ddp::kMakeNcclBackend);
  EXPECT_FALSE(lines >> more) << more;
}

TEST(NcclPlugIn, LeavesOpenOnlyWhatLibtorchCudaHas) {
  ASSERT_EQ(torch::zeros({1}).numel(), 1) << "libtorch is linked";
  std::istringstream lines(Nm("--undefined-only"));
  std::string type, name;
  int of_cuda = 0;
  while (lines >> type >> name) {
    if (type != "U") continue;  // weak ones may stay open
    name = name.substr(0, name.find('@'));
    if (dlsym(RTLD_DEFAULT, name.c_str()) != nullptr) continue;
    EXPECT_THAT(name, HasSubstr("16ProcessGroupNCCL"));
    ++of_cuda;
  }
  EXPECT_GT(of_cuda, 0) << "the process group is libtorch_cuda's";
}

}  // namespace
}  // namespace millrace::testing
