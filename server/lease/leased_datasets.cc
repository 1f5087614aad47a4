#include "server/lease/leased_datasets.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/dataset_name.h"
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
  // `opening_` has the key while one thread answers a request of it. The others
  // wait here, without a holder and without a file open.
  const std::string key = KeyOf(request);
  {
    MutexLock lock(mu_);
    while (opening_.contains(key)) changed_.Wait(lock);
    opening_.insert(key);
  }
  // Files are opened and read without the lock, which may take minutes:
  // requests of other keys and Release() go on meanwhile.
  absl::StatusOr<LeasedDataset> held = AcquireAlone(request);
  MutexLock lock(mu_);
  opening_.erase(key);
  changed_.NotifyAll();
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

LeasedDatasets::Content LeasedDatasets::ContentOf(
    const storage::RecordSource& source) {
  return {.fingerprint = source.info().fingerprint(),
          .files = source.FilesIdentity()};
}

absl::StatusOr<LeasedDataset> LeasedDatasets::AcquireAlone(
    const LeaseRequest& request) {
  MR_ASSIGN_OR_RETURN(const std::optional<Content> content, LookAt(request));
  // The cheap way first: a program asks for what another one has open already.
  // HoldOpen() checks the files, because LookAt() may be late.
  if (content.has_value()) {
    if (std::string name = HoldOpen(request, *content); !name.empty()) {
      return LeasedDataset{std::move(name), content->fingerprint};
    }
  }
  MR_ASSIGN_OR_RETURN(Source source, Open(request));
  return Register(request, std::move(source));
}

absl::StatusOr<std::optional<LeasedDatasets::Content>> LeasedDatasets::LookAt(
    const LeaseRequest& request) {
  {
    MutexLock lock(mu_);
    bool known = false;
    for (const auto& [name, dataset] : datasets_) {
      if (request.arrays == nullptr) {
        known |= dataset.uri == request.uri;
      } else if (dataset.arrays != nullptr &&
                 IsSameFile(*dataset.arrays, *request.arrays)) {
        return dataset.content;  // it is sealed
      }
    }
    if (!known) return std::nullopt;
  }
  MR_ASSIGN_OR_RETURN(const Source look,
                      options_.open(request.uri, /*to_look=*/true));
  return ContentOf(*look);
}

absl::StatusOr<LeasedDatasets::Source> LeasedDatasets::Open(
    const LeaseRequest& request) {
  const auto open = [&] {
    return request.arrays != nullptr
               ? options_.open_arrays(request.arrays->get())
               : options_.open(request.uri, /*to_look=*/false);
  };
  absl::StatusOr<Source> source = open();
  // Descriptors or memory are short. Datasets without holders are only kept for
  // speed, so they are closed and the open is tried once more.
  if (!absl::IsResourceExhausted(source.status()) ||
      CloseUnusedSince(SteadyTime::max()) == 0) {
    return source;
  }
  return open();
}

LeasedDatasets::Datasets::iterator LeasedDatasets::Find(
    MutexLock& lock, const LeaseRequest& request, const Content& content) {
  const std::string chosen = NameOfContent(content.fingerprint);
  const auto fits = [&](const Datasets::value_type& entry) {
    const auto& [name, dataset] = entry;
    return dataset.content == content &&
           (request.name.empty() ? PlainName(name) == chosen
                                 : name == request.name);
  };
  // Wait() releases the lock, so every iterator from before it is invalid: the
  // search starts again.
  for (;;) {
    const auto it = std::find_if(datasets_.begin(), datasets_.end(), fits);
    if (it == datasets_.end() || !it->second.changing) return it;
    changed_.Wait(lock);
  }
}

std::string LeasedDatasets::HoldOpen(const LeaseRequest& request,
                                     const Content& content) {
  std::string name;
  Source source;  // destroyed without the lock
  {
    MutexLock lock(mu_);
    const auto it = Find(lock, request, content);
    if (it == datasets_.end()) return "";
    name = it->first;
    source = it->second.source;
    ++it->second.holders;  // so that it stays open meanwhile
  }
  // The check reads the files, so it runs without the lock. The holder that was
  // counted keeps CloseUnusedSince() from removing the dataset meanwhile.
  if (source->CheckFiles().ok()) return name;
  Release(name);
  return "";
}

absl::StatusOr<LeasedDatasets::Datasets::iterator> LeasedDatasets::Claim(
    const LeaseRequest& request, const Content& content) {
  for (;;) {
    {
      MutexLock lock(mu_);
      // Ends with a dataset that is marked as changing by this thread, and by
      // no other: until the mark is removed, only this thread may add, replace
      // or remove its source in the engine.
      // Of this content: its files have changed since it was opened, or another
      // thread was faster.
      auto it = Find(lock, request, content);
      if (it == datasets_.end() && !request.name.empty()) {
        it = datasets_.find(request.name);
        if (it != datasets_.end() && it->second.changing) {
          changed_.Wait(lock);
          continue;
        }
        if (it != datasets_.end() && it->second.holders > 0) {
          const Content& other = it->second.content;
          const bool same = other.fingerprint == content.fingerprint;
          return absl::AlreadyExistsError(absl::StrCat(
              "the name `", request.name, "` belongs to ", it->second.uri,
              " with fingerprint ", other.fingerprint,
              ", which a running program reads; ",
              same && it->second.uri == request.uri
                  ? "its files were replaced, or had their permissions, owner, "
                    "links or times changed, since the program opened them: "
                    "close the loaders that read it, or "
              : same ? absl::StrCat(request.uri,
                                    " has the same content in other files, of "
                                    "which each may change by itself: ")
                     : absl::StrCat(request.uri,
                                    " has other content (fingerprint ",
                                    content.fingerprint, "): "),
              "use another name, or none"));
        }
      }
      if (it == datasets_.end() && datasets_.size() < options_.max_datasets) {
        std::string name = request.name;
        for (uint64_t number = 1; name.empty(); ++number) {
          name = NumberedName(NameOfContent(content.fingerprint), number);
          if (datasets_.contains(name)) name.clear();
        }
        it = datasets_.emplace(name, Dataset{.content = content}).first;
      }
      if (it != datasets_.end()) {
        it->second.changing = true;
        return it;
      }
    }
    if (CloseUnusedSince(SteadyTime::max()) == 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          options_.max_datasets,
          " datasets are open, the maximum of this server: close loaders"));
    }
  }
}

absl::StatusOr<LeasedDataset> LeasedDatasets::Register(
    const LeaseRequest& request, Source source) {
  const Content content = ContentOf(*source);
  LeasedDataset held{.fingerprint = content.fingerprint};
  // The same content from another path, or opened by another thread.
  held.name = HoldOpen(request, content);
  if (!held.name.empty()) return held;
  MR_ASSIGN_OR_RETURN(const Datasets::iterator claimed,
                      Claim(request, content));
  held.name = claimed->first;
  // Without the lock, because the engine may wait. The mark of Claim() keeps
  // calls of add() and remove() for one name in order.
  const absl::Status added = options_.add(held.name, source);
  if (added.ok()) {
    MR_LOG(INFO) << "dataset " << held.name << " (" << request.uri
                 << "): " << CountText(source->info().samples(), "sample")
                 << ", fingerprint " << held.fingerprint;
  }
  // Declared before the lock, so that files are closed after it.
  Source replaced;
  Datasets::node_type refused;
  MutexLock lock(mu_);
  Dataset& dataset = claimed->second;
  dataset.changing = false;
  changed_.NotifyAll();
  if (!added.ok()) {
    // A dataset that was to be replaced keeps its old source, which the engine
    // still serves. A new one never had a source and disappears.
    if (dataset.source == nullptr) refused = datasets_.extract(claimed);
    return added;
  }
  dataset.uri = request.uri;
  dataset.arrays = request.arrays;
  replaced = std::exchange(dataset.source, std::move(source));
  dataset.content = content;
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
  CloseUnusedSince(now - absl::ToChronoNanoseconds(options_.keep_unused));
}

size_t LeasedDatasets::CloseUnusedSince(SteadyTime since) {
  // Marked under the lock, removed from the engine without it, and erased last:
  // a request for the same content waits in Find() until the name is free.
  std::vector<std::string> names;
  {
    MutexLock lock(mu_);
    for (auto& [name, dataset] : datasets_) {
      if (dataset.changing || dataset.holders > 0 ||
          dataset.unused_since > since) {
        continue;
      }
      dataset.changing = true;
      names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    options_.remove(name);
    Datasets::node_type closed;  // destroyed without the lock
    {
      MutexLock lock(mu_);
      closed = datasets_.extract(name);
      changed_.NotifyAll();
    }
    MR_LOG(INFO) << "dataset " << name << " (" << closed.mapped().uri
                 << ") is closed: no program holds it";
  }
  return names.size();
}

}  // namespace millrace::lease
