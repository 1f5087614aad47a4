#include "server/lease/leased_datasets.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/config.h"

namespace millrace::lease {
namespace {

// Digits of the fingerprint in a name: 64 bits, and two datasets of one name
// are told apart all the same.
constexpr size_t kNameDigits = 16;
// A name is part of log lines, of answers and of every request of a job.
constexpr size_t kMaxNameBytes = 200;

// Requests of one key are answered one after the other: the second one then
// finds the dataset of the first. The URIs of two files of arrays may be equal.
std::string KeyOf(const LeaseRequest& request) {
  struct stat file = {};
  if (request.arrays == nullptr || fstat(request.arrays->get(), &file) != 0) {
    return request.uri;
  }
  return absl::StrCat(request.uri, " ", file.st_ino);
}

// Of two files that are open. The size and the time are compared, too, because
// the kernel's numbers of anonymous files start again after 2^32 files.
bool IsSameFile(const UniqueFd& one, const UniqueFd& other) {
  struct stat a = {};
  struct stat b = {};
  return fstat(one.get(), &a) == 0 && fstat(other.get(), &b) == 0 &&
         a.st_dev == b.st_dev && a.st_ino == b.st_ino &&
         a.st_size == b.st_size && a.st_ctim.tv_sec == b.st_ctim.tv_sec &&
         a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

}  // namespace

std::string NameOfContent(absl::string_view fingerprint) {
  return absl::StrCat("data-", fingerprint.substr(0, kNameDigits));
}

absl::StatusOr<LeasedDataset> LeasedDatasets::Acquire(
    const LeaseRequest& request) {
  if (!request.name.empty() && !server::IsDatasetName(request.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset name `", request.name,
                     "` must consist of letters, digits, '_', '-' and '.'"));
  }
  if (request.name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the dataset name has ", request.name.size(),
                     " bytes: use one of at most ", kMaxNameBytes));
  }
  const std::string key = KeyOf(request);
  {
    MutexLock lock(mu_);
    while (opening_.contains(key)) opened_.Wait(lock);
    opening_.insert(key);
  }
  absl::StatusOr<LeasedDataset> held = AcquireAlone(request);
  MutexLock lock(mu_);
  opening_.erase(key);
  opened_.NotifyAll();
  if (held.ok() && request.arrays != nullptr) {
    const auto it = datasets_.find(held->name);  // it has a holder
    MR_CHECK(it != datasets_.end()) << held->name;
    const std::shared_ptr<const UniqueFd>& served = it->second.arrays;
    if (served != nullptr && !IsSameFile(*served, *request.arrays)) {
      held->arrays = served;
    }
  }
  return held;
}

absl::StatusOr<LeasedDataset> LeasedDatasets::AcquireAlone(
    const LeaseRequest& request) {
  MR_ASSIGN_OR_RETURN(const std::string fingerprint, LookAt(request));
  if (!fingerprint.empty()) {
    if (std::string name = HoldOpen(request, fingerprint); !name.empty()) {
      return LeasedDataset{std::move(name), fingerprint};
    }
  }
  MR_ASSIGN_OR_RETURN(Source source, Open(request));
  return Register(request, std::move(source));
}

absl::StatusOr<std::string> LeasedDatasets::LookAt(
    const LeaseRequest& request) {
  {
    MutexLock lock(mu_);
    bool known = false;
    for (const auto& [name, dataset] : datasets_) {
      if (request.arrays == nullptr) {
        known |= dataset.uri == request.uri;
      } else if (dataset.arrays != nullptr &&
                 IsSameFile(*dataset.arrays, *request.arrays)) {
        return dataset.fingerprint;  // it is sealed
      }
    }
    if (!known) return "";
  }
  MR_ASSIGN_OR_RETURN(const Source look,
                      options_.open(request.uri, /*to_look=*/true));
  return look->info().fingerprint();
}

absl::StatusOr<LeasedDatasets::Source> LeasedDatasets::Open(
    const LeaseRequest& request) {
  const auto open = [&] {
    return request.arrays != nullptr
               ? options_.open_arrays(request.arrays->get())
               : options_.open(request.uri, /*to_look=*/false);
  };
  absl::StatusOr<Source> source = open();
  if (!absl::IsResourceExhausted(source.status())) return source;
  {
    MutexLock lock(mu_);
    if (CloseUnusedSince(SteadyTime::max()) == 0) return source;
  }
  return open();
}

std::string LeasedDatasets::HoldOpen(const LeaseRequest& request,
                                     const std::string& fingerprint) {
  const std::string name =
      request.name.empty() ? NameOfContent(fingerprint) : request.name;
  MutexLock lock(mu_);
  const auto it = datasets_.find(name);
  if (it == datasets_.end() || it->second.fingerprint != fingerprint ||
      !it->second.source->CheckFiles().ok()) {
    return "";
  }
  ++it->second.holders;
  return name;
}

absl::StatusOr<LeasedDataset> LeasedDatasets::Register(
    const LeaseRequest& request, Source source) {
  const DatasetInfo& info = source->info();
  LeasedDataset held{.fingerprint = info.fingerprint()};
  // The same content from another path, or opened by another thread.
  held.name = HoldOpen(request, held.fingerprint);
  if (!held.name.empty()) return held;
  held.name =
      request.name.empty() ? NameOfContent(held.fingerprint) : request.name;
  Source replaced;  // destroyed without the lock: that closes files
  MutexLock lock(mu_);
  const auto it = datasets_.find(held.name);
  if (it == datasets_.end()) {
    if (datasets_.size() >= options_.max_datasets &&
        CloseUnusedSince(SteadyTime::max()) == 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          options_.max_datasets,
          " datasets are open, the maximum of this server: close loaders"));
    }
  } else if (it->second.holders > 0 &&
             it->second.fingerprint != held.fingerprint) {
    return absl::AlreadyExistsError(
        absl::StrCat("the name `", held.name, "` belongs to ", it->second.uri,
                     " with fingerprint ", it->second.fingerprint,
                     ", which a running program reads; ", request.uri,
                     " has other content (fingerprint ", held.fingerprint,
                     "): use another name, or none"));
  }
  MR_RETURN_IF_ERROR(options_.add(held.name, source));
  MR_LOG(INFO) << "dataset " << held.name << " (" << request.uri
               << "): " << CountText(info.samples(), "sample")
               << ", fingerprint " << held.fingerprint;
  Dataset& dataset = datasets_[held.name];
  dataset.uri = request.uri;
  dataset.arrays = request.arrays;
  replaced = std::exchange(dataset.source, std::move(source));
  dataset.fingerprint = held.fingerprint;
  ++dataset.holders;
  return held;
}

void LeasedDatasets::Release(const std::string& name) {
  MutexLock lock(mu_);
  const auto it = datasets_.find(name);
  MR_CHECK(it != datasets_.end() && it->second.holders > 0);
  if (--it->second.holders == 0) {
    it->second.unused_since = it->second.arrays != nullptr
                                  ? SteadyTime::min()
                                  : std::chrono::steady_clock::now();
  }
}

void LeasedDatasets::CloseUnused(SteadyTime now) {
  MutexLock lock(mu_);
  CloseUnusedSince(now - absl::ToChronoNanoseconds(options_.keep_unused));
}

size_t LeasedDatasets::CloseUnusedSince(SteadyTime since) {
  return std::erase_if(datasets_, [&](const auto& entry) {
    const auto& [name, dataset] = entry;
    if (dataset.holders > 0 || dataset.unused_since > since) return false;
    options_.remove(name);
    MR_LOG(INFO) << "dataset " << name << " (" << dataset.uri
                 << ") is closed: no program holds it";
    return true;
  });
}

}  // namespace millrace::lease
