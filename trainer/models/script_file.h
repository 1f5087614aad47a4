// ScriptFile is a TorchScript module from a file that
// torch.jit.script(...).save(FILE) or torch.jit.trace(...).save(FILE) wrote.
//
// It runs operation by operation, as Python without a compiler does, unless
// Optimize() is called: libtorch's executor then profiles the first calls and
// fuses and rearranges operations.
//
// A TorchScript file is a program: run only files of people you trust. Not
// thread-safe. Copies share the module. Forward() throws libtorch's exceptions.
//
//   MR_ASSIGN_OR_RETURN(auto file, ScriptFile::Load("net.pt", torch::kCPU));
//   torch::Tensor logits = file.Forward({images}).toTensor();

#ifndef MILLRACE_TRAINER_MODELS_SCRIPT_FILE_H_
#define MILLRACE_TRAINER_MODELS_SCRIPT_FILE_H_

#include <torch/csrc/jit/api/module.h>
#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::models {

class ScriptFile {
 public:
  // NotFound: no such file. InvalidArgument: a folder. DataLoss: libtorch
  // cannot read it, a checksum in it differs, or it has no method forward.
  static absl::StatusOr<ScriptFile> Load(const std::string& path,
                                         torch::Device device);

  c10::IValue Forward(std::vector<c10::IValue> inputs);

  void Optimize() { optimized_ = true; }

  const std::string& path() const { return path_; }
  torch::jit::Module& module() { return module_; }

 private:
  ScriptFile(std::string path, torch::jit::Module module)
      : path_(std::move(path)), module_(std::move(module)) {}

  std::string path_;
  torch::jit::Module module_;
  bool optimized_ = false;
};

}  // namespace millrace::models

#endif  // MILLRACE_TRAINER_MODELS_SCRIPT_FILE_H_
