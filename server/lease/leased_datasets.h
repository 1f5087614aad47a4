// LeasedDatasets are the datasets that programs have asked the data server of
// their user and machine to serve: which of them are open, under which names,
// and how many programs hold each. A dataset that nobody holds is closed after
// a while. It knows no sockets.
//
// A dataset without a wanted name gets one that follows from its content, so
// that a checkpoint of a job does not depend on the place of the files. Each
// request looks at the files again: a path that has other content by then is
// another dataset, and programs that read the old content are not disturbed.
// Equal files at two paths are one dataset. Files that are compared with their
// version at each read are not (RecordSource::FilesIdentity()): a file may
// change at one of the paths, or get other attributes after it was opened.
// Such datasets of one content differ by a number in the name
// (proto/dataset_name.h).
//
// Arrays that a program has passed are a dataset, too: programs that pass equal
// ones share it. Its memory is the program's, so it is closed with its last
// holder.
//
// Thread-safe. Acquire() may block as long as opening takes; requests for one
// URI, or one file of arrays, are answered one after the other, others at the
// same time. No lock is held while files are opened, checked or closed.
//
//   MR_ASSIGN_OR_RETURN(LeasedDataset held, datasets.Acquire({uri, ""}));
//   ...
//   datasets.Release(held.name);

#ifndef MILLRACE_SERVER_LEASE_LEASED_DATASETS_H_
#define MILLRACE_SERVER_LEASE_LEASED_DATASETS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "server/lease/lease_protocol.h"
#include "server/storage/record_source.h"

namespace millrace::lease {

class LeasedDatasets {
 public:
  using Source = std::shared_ptr<const storage::RecordSource>;

  struct Options {
    // As storage::OpenRecordSource(). `to_look`: only the content's description
    // is wanted, so the source takes no part of the memory for caches.
    std::function<absl::StatusOr<Source>(const std::string& uri, bool to_look)>
        open;
    // As storage::OpenArrays().
    std::function<absl::StatusOr<Source>(int file)> open_arrays;
    // As Engine::AddDataset() and Engine::RemoveDataset(). Thread-safe; calls
    // for one name come one after the other.
    std::function<absl::Status(const std::string& name, Source source)> add;
    std::function<void(const std::string& name)> remove;
    // Time that a dataset of files stays open after its last holder.
    absl::Duration keep_unused = absl::Seconds(10);
    // Upper bound of open datasets.
    size_t max_datasets = 256;
  };

  explicit LeasedDatasets(Options options) : options_(std::move(options)) {}

  // Opens the dataset, or finds it open, and counts a holder. Errors of `open`;
  // AlreadyExists: the wanted name belongs to other content, or to another
  // folder, that a program holds; InvalidArgument: the name cannot be one;
  // ResourceExhausted: too many datasets.
  absl::StatusOr<LeasedDataset> Acquire(const LeaseRequest& request);

  // A holder of that name is gone.
  void Release(const std::string& name);

  // Closes the datasets of files that have had no holder for `keep_unused`, and
  // those of arrays that have none.
  void CloseUnused(SteadyTime now);

 private:
  // What a dataset holds. Datasets of equal content are one.
  struct Content {
    std::string fingerprint;
    std::string files;  // RecordSource::FilesIdentity()
    bool operator==(const Content&) const = default;
  };
  struct Dataset {
    std::string uri;
    Source source;
    Content content;
    // The file that is served; null: a dataset of files.
    std::shared_ptr<const UniqueFd> arrays;
    uint64_t holders = 0;
    SteadyTime unused_since;  // if it has no holders
    // A thread adds, replaces or removes it without the lock. Others wait, and
    // then look again; only the number of holders may fall.
    bool changing = false;
  };
  using Datasets = std::map<std::string, Dataset>;

  static Content ContentOf(const storage::RecordSource& source);

  // While no other thread opens the same URI.
  absl::StatusOr<LeasedDataset> AcquireAlone(const LeaseRequest& request);
  // What is known of the content of the request without reading all of it;
  // absent: nothing. Errors of `open`.
  absl::StatusOr<std::optional<Content>> LookAt(const LeaseRequest& request)
      MR_EXCLUDES(mu_);
  // Opens it, if need be after the datasets without holders are closed.
  absl::StatusOr<Source> Open(const LeaseRequest& request);
  // Holds the open dataset of this content that the request may have, if its
  // files are as they were; "": there is none.
  std::string HoldOpen(const LeaseRequest& request, const Content& content)
      MR_EXCLUDES(mu_);
  absl::StatusOr<LeasedDataset> Register(const LeaseRequest& request,
                                         Source source) MR_EXCLUDES(mu_);
  // The dataset of this content that the request may have, after any change of
  // it; the end: there is none.
  Datasets::iterator Find(MutexLock& lock, const LeaseRequest& request,
                          const Content& content) MR_REQUIRES(mu_);
  // A dataset that is changing, for the source of the request: a new one, or
  // one that is to be replaced. Errors of Acquire().
  absl::StatusOr<Datasets::iterator> Claim(const LeaseRequest& request,
                                           const Content& content)
      MR_EXCLUDES(mu_);
  // Closes those that have had no holder since `since`. Returns their number.
  size_t CloseUnusedSince(SteadyTime since) MR_EXCLUDES(mu_);

  const Options options_;
  Mutex mu_;
  CondVar changed_;  // a request was answered, or a change of a dataset is over
  std::set<std::string> opening_ MR_GUARDED_BY(mu_);  // keys of requests
  Datasets datasets_ MR_GUARDED_BY(mu_);
};

// The name of a dataset that was asked for without one.
std::string NameOfContent(absl::string_view fingerprint);

}  // namespace millrace::lease

#endif  // MILLRACE_SERVER_LEASE_LEASED_DATASETS_H_
