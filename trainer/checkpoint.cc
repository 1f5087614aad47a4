#include "trainer/checkpoint.h"

#include <ATen/Functions.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/atomic_file.h"
#include "common/hex.h"
#include "common/status_macros.h"
#include "proto/spec_text.h"
#include "trainer/file_map.h"
#include "trainer/files.h"
#include "trainer/torch_error.h"
#include "trainer/weights/zip_archive.h"

namespace millrace::trainer {
namespace {

constexpr int64_t kFormat = 2;

absl::Status NotWhole(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(
      path, " is not a whole checkpoint of this trainer: ", why,
      "; resume from a copy of it or from an earlier checkpoint, or "
      "start again without --resume"));
}

absl::Status Damaged(const std::string& path, const std::exception& error) {
  return NotWhole(path, TorchSentence(error));
}

absl::Status OnlyWeights(const std::string& path) {
  return absl::DataLossError(absl::StrCat(
      path,
      " holds weights and is no checkpoint of this trainer: to start from "
      "these weights, give the file to --init_weights instead of --resume"));
}

// Entries of a checkpoint are stored, not compressed. The exception is the
// definition of the archive's types, which libtorch writes beside them.
bool IsTypes(const weights::ZipEntry& entry) {
  return absl::StrContains(entry.name, "/code/");
}

absl::Status CheckEntries(const std::vector<weights::ZipEntry>& entries) {
  for (const weights::ZipEntry& entry : entries) {
    if (!entry.compressed || IsTypes(entry)) continue;
    return absl::DataLossError(
        absl::StrCat("the entry \"", entry.name, "\" is compressed"));
  }
  return absl::OkStatus();
}

bool HasEntry(const std::vector<weights::ZipEntry>& entries,
              absl::string_view name) {
  return std::any_of(entries.begin(), entries.end(),
                     [name](const weights::ZipEntry& entry) {
                       return absl::EndsWith(entry.name, name);
                     });
}

// An archive of torch.save: unlike a checkpoint, it defines no types and no
// constants.
bool IsOfTorchSave(const std::vector<weights::ZipEntry>& entries) {
  return HasEntry(entries, "/data.pkl") && !HasEntry(entries, "/constants.pkl");
}

// Opens the file and compares its checksums.
absl::StatusOr<std::unique_ptr<const FileMap>> OpenWhole(
    const std::string& path) {
  // Tells a missing file and a folder from a damaged one.
  MR_RETURN_IF_ERROR(CheckReadable(path));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<const FileMap> file, FileMap::Open(path));
  const absl::StatusOr<std::vector<weights::ZipEntry>> entries =
      weights::ParseZip(file->bytes());
  if (!entries.ok()) {
    if (absl::EndsWith(path, ".safetensors")) return OnlyWeights(path);
    return NotWhole(path, entries.status().message());
  }
  if (IsOfTorchSave(*entries)) return OnlyWeights(path);
  if (const absl::Status whole = CheckEntries(*entries); !whole.ok()) {
    return NotWhole(path, whole.message());
  }
  return file;
}

void Load(const FileMap& file, torch::Device device,
          torch::serialize::InputArchive& archive) {
  archive.load_from(file.bytes().data(), file.bytes().size(), device);
}

std::string ReadString(torch::serialize::InputArchive& archive,
                       const std::string& key) {
  c10::IValue value;
  archive.read(key, value);
  return value.toStringRef();
}

int64_t ReadInt(torch::serialize::InputArchive& archive,
                const std::string& key) {
  c10::IValue value;
  archive.read(key, value);
  return value.toInt();
}

uint64_t ReadCount(torch::serialize::InputArchive& archive,
                   const std::string& key, int64_t min = 0) {
  const int64_t value = ReadInt(archive, key);
  TORCH_CHECK(value >= min, "its ", key, " is ", value);
  return static_cast<uint64_t>(value);
}

// Throws libtorch's exceptions.
absl::StatusOr<CheckpointInfo> InfoOf(torch::serialize::InputArchive& archive,
                                      const std::string& path) {
  c10::IValue format_value;
  if (!archive.try_read("format", format_value)) {
    return NotWhole(path, "it has no entry \"format\"");
  }
  if (const int64_t format = format_value.toInt(); format != kFormat) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " has the checkpoint format ", format, "; this version reads ",
        kFormat,
        format < kFormat
            ? ". An earlier version wrote it: finish the run with that version"
            : ". A later version wrote it: resume with that version"));
  }
  CheckpointInfo info;
  info.model = ReadString(archive, "model_name");
  info.optimizer = ReadString(archive, "optimizer_name");
  info.classes = ReadInt(archive, "classes");
  info.accumulate = ReadCount(archive, "accumulate", 1);
  info.position.epoch = ReadCount(archive, "epoch");
  info.position.step = ReadCount(archive, "step");
  info.steps = ReadCount(archive, "steps");
  absl::StatusOr<std::string> hash = ParseHex(ReadString(archive, "plan_hash"));
  if (!hash.ok()) {
    return absl::DataLossError(absl::StrCat(
        path, " has an invalid plan_hash: ", hash.status().message(),
        "; the checkpoint is damaged or was edited"));
  }
  info.plan_hash = *std::move(hash);
  info.fingerprint = ReadString(archive, "fingerprint");
  if (c10::IValue text; archive.try_read("pipeline", text)) {
    absl::StatusOr<PipelineSpec> pipeline =
        ParseSpecText(text.toStringRef(), path);
    // The pipeline only explains a refusal: it may have fields of a later
    // version that this version does not know.
    if (pipeline.ok()) info.pipeline = *std::move(pipeline);
  }
  info.parts =
      absl::StrSplit(ReadString(archive, "parts"), ',', absl::SkipEmpty());
  return info;
}

// Looks at the extremes, which are NaN when a value is: isfinite() would
// allocate three tensors of the same size.
bool IsFinite(const torch::Tensor& tensor) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return true;
  const auto [min, max] = at::aminmax(tensor.detach());
  return std::isfinite(min.item<double>()) && std::isfinite(max.item<double>());
}

// All tensors that a step can spoil.
bool IsFinite(const torch::nn::Module& model, const optim::NamedParts& parts) {
  for (const torch::Tensor& tensor : model.parameters()) {
    if (!IsFinite(tensor)) return false;
  }
  for (const torch::Tensor& tensor : model.buffers()) {
    if (!IsFinite(tensor)) return false;
  }
  for (const auto& [part, tensors] : parts) {
    for (const auto& [name, tensor] : tensors) {
      if (!IsFinite(tensor)) return false;
    }
  }
  return true;
}

// Loading a module replaces its tensors by those that were read, perhaps in
// another layout. This copies the values into the tensors that were there
// before.
class KeepsPlaces {
 public:
  explicit KeepsPlaces(torch::nn::Module& model) {
    for (const torch::Tensor& tensor : model.parameters()) Add(tensor);
    for (const torch::Tensor& tensor : model.buffers()) Add(tensor);
  }
  void PutBack() {
    const torch::NoGradGuard no_grad;
    for (auto& [tensor, place] : places_) {
      TORCH_CHECK(tensor.sizes() == place.sizes(),
                  "the file has a weight of shape ", tensor.sizes(),
                  " for one of shape ", place.sizes());
      place.copy_(tensor.detach());
      tensor.set_data(place);
    }
  }

 private:
  void Add(const torch::Tensor& tensor) {
    places_.emplace_back(tensor, tensor.detach());
  }
  std::vector<std::pair<torch::Tensor, torch::Tensor>> places_;
};

// InvalidArgument: the part was written with other flags.
absl::Status RestorePart(torch::serialize::InputArchive& file,
                         const std::string& path, const std::string& part,
                         const optim::NamedTensors& tensors) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    torch::Tensor read;
    if (!file.try_read(name, read, /*is_buffer=*/true)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " does not fit these flags: its ", part, " has no ", name,
          "; give the flags that it was written with"));
    }
    TORCH_CHECK(read.sizes() == tensor.sizes(), name, " has shape ",
                read.sizes(), ", not ", tensor.sizes());
    tensor.copy_(read);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteCheckpoint(const std::string& path,
                             const CheckpointInfo& info,
                             const torch::nn::Module& model,
                             const optim::NamedParts& parts) {
  absl::Status written;
  std::unique_ptr<AtomicFile> file;
  try {
    if (!IsFinite(model, parts)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the weights or the optimiser's state hold values that are NaN or "
          "infinite, so no checkpoint is written; an older checkpoint at ",
          path, " is kept"));
    }
    torch::serialize::OutputArchive archive;
    archive.write("format", c10::IValue(kFormat));
    archive.write("model_name", c10::IValue(info.model));
    archive.write("optimizer_name", c10::IValue(info.optimizer));
    archive.write("classes", c10::IValue(info.classes));
    archive.write("accumulate",
                  c10::IValue(static_cast<int64_t>(info.accumulate)));
    archive.write("epoch",
                  c10::IValue(static_cast<int64_t>(info.position.epoch)));
    archive.write("step",
                  c10::IValue(static_cast<int64_t>(info.position.step)));
    archive.write("steps", c10::IValue(static_cast<int64_t>(info.steps)));
    archive.write("plan_hash",
                  c10::IValue(absl::BytesToHexString(info.plan_hash)));
    archive.write("fingerprint", c10::IValue(info.fingerprint));
    if (info.pipeline.has_value()) {
      archive.write("pipeline", c10::IValue(info.pipeline->ShortDebugString()));
    }
    torch::serialize::OutputArchive weights(archive.compilation_unit());
    model.save(weights);
    archive.write("model", weights);
    archive.write("parts",
                  c10::IValue(absl::StrJoin(
                      parts, ",", [](std::string* out, const auto& part) {
                        out->append(part.first);
                      })));
    for (const auto& [part, tensors] : parts) {
      torch::serialize::OutputArchive state(archive.compilation_unit());
      for (const auto& [name, tensor] : tensors) {
        state.write(name, tensor, /*is_buffer=*/true);
      }
      archive.write(part, state);
    }
    MR_ASSIGN_OR_RETURN(file, AtomicFile::Create(path));
    archive.save_to([&](const void* data, size_t size) {
      // libtorch's writer cannot be told of an error: its exception would meet
      // another one in its destructor.
      written.Update(file->Write({static_cast<const char*>(data), size}));
      return size;
    });
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat("cannot write the checkpoint ", path, ": ", error.what()));
  }
  MR_RETURN_IF_ERROR(written);
  return file->Commit();
}

absl::StatusOr<CheckpointInfo> ReadCheckpointInfo(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const auto file, OpenWhole(path));
  try {
    torch::serialize::InputArchive archive;
    // The device that it was written on may not exist here.
    Load(*file, torch::kCPU, archive);
    MR_ASSIGN_OR_RETURN(CheckpointInfo info, InfoOf(archive, path));
    MR_RETURN_IF_ERROR(file->CheckWhole());
    return info;
  } catch (const std::exception& error) {
    return Damaged(path, error);
  }
}

absl::Status RestoreCheckpoint(const std::string& path,
                               torch::nn::Module& model,
                               const optim::NamedParts& parts) {
  MR_ASSIGN_OR_RETURN(const auto file, OpenWhole(path));
  try {
    torch::serialize::InputArchive archive;
    const std::vector<torch::Tensor> parameters = model.parameters();
    Load(*file,
         parameters.empty() ? torch::Device(torch::kCPU)
                            : parameters[0].device(),
         archive);
    MR_ASSIGN_OR_RETURN(const CheckpointInfo info, InfoOf(archive, path));
    KeepsPlaces places(model);
    torch::serialize::InputArchive weights;
    archive.read("model", weights);
    model.load(weights);
    places.PutBack();
    for (const auto& [part, tensors] : parts) {
      if (std::find(info.parts.begin(), info.parts.end(), part) ==
          info.parts.end()) {
        continue;
      }
      torch::serialize::InputArchive state;
      archive.read(part, state);
      MR_RETURN_IF_ERROR(RestorePart(state, path, part, tensors));
    }
    return file->CheckWhole();
  } catch (const std::exception& error) {
    return Damaged(path, error);
  }
}

}  // namespace millrace::trainer
