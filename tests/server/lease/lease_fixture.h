// Datasets that exist by being named, for tests of leases: what a URI stands
// for is a map, and what the engine would serve is a map.
//
//   FakeFiles files;
//   files.Put("lmdb:/a", "f1");             // a fingerprint
//   LeasedDatasets datasets(files.options());

#ifndef MILLRACE_TESTS_SERVER_LEASE_LEASE_FIXTURE_H_
#define MILLRACE_TESTS_SERVER_LEASE_LEASE_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "proto/names.h"
#include "server/lease/leased_datasets.h"
#include "server/storage/record_source.h"

namespace millrace::lease {

// Thread-safe.
class FakeFiles {
 public:
  // The URI has this content from now on. `files`: their identity.
  void Put(const std::string& uri, const std::string& fingerprint,
           const std::string& files = "") {
    MutexLock lock(mu_);
    content_[uri] = {fingerprint, files};
  }
  // Sources of it that are open say so.
  void Damage(const std::string& uri) {
    MutexLock lock(mu_);
    ++damage_[uri];
  }
  // Opening it waits, until Continue().
  void Hold(const std::string& uri) {
    MutexLock lock(mu_);
    held_ = uri;
  }
  void Continue() { Hold(""); }
  // Sources of it wait when they are closed, until LetClose().
  void HoldClosing(const std::string& uri) {
    MutexLock lock(mu_);
    held_closing_ = uri;
  }
  void LetClose() { HoldClosing(""); }
  void AwaitClosing() {
    MutexLock lock(mu_);
    while (!closing_) changed_.Wait(lock);
  }
  // The next dataset is not added.
  void RefuseNext() {
    MutexLock lock(mu_);
    refuse_ = true;
  }
  void AwaitOpening(int count) {
    MutexLock lock(mu_);
    while (opening_ < count) changed_.Wait(lock);
  }
  // At most so many sources that do not merely look are open at a time.
  void Limit(int sources) {
    MutexLock lock(mu_);
    limit_ = sources;
  }
  std::map<std::string, std::string> served() {  // name -> fingerprint
    MutexLock lock(mu_);
    return served_;
  }
  int opened() {  // in all, without looks
    MutexLock lock(mu_);
    return opened_;
  }
  int open() {  // now
    MutexLock lock(mu_);
    return open_;
  }

  // A file of arrays.
  static UniqueFd File(const std::string& content) {
    UniqueFd file(memfd_create("test", MFD_CLOEXEC));
    EXPECT_EQ(write(file.get(), content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
    return file;
  }

  LeasedDatasets::Options options() {
    return {.open = [this](const std::string& uri,
                           bool to_look) { return Open(uri, to_look); },
            .open_arrays = [this](int file) { return OpenArrays(file); },
            .add =
                [this](const std::string& name, LeasedDatasets::Source source) {
                  MutexLock lock(mu_);
                  if (std::exchange(refuse_, false)) {
                    return absl::FailedPreconditionError("refused by the test");
                  }
                  served_[name] = source->info().fingerprint();
                  return absl::OkStatus();
                },
            .remove =
                [this](const std::string& name) {
                  MutexLock lock(mu_);
                  EXPECT_EQ(served_.erase(name), 1u);
                }};
  }

 private:
  struct Content {
    std::string fingerprint;
    std::string files;  // RecordSource::FilesIdentity()
  };

  class FakeSource final : public storage::RecordSource {
   public:
    FakeSource(FakeFiles* files, std::string uri, Content content, int damage,
               bool counts)
        : files_(files),
          uri_(std::move(uri)),
          identity_(std::move(content.files)),
          damage_(damage),
          counts_(counts) {
      info_.set_fingerprint(content.fingerprint);
      info_.set_samples(10);
    }
    ~FakeSource() override {
      MutexLock lock(files_->mu_);
      if (!counts_) return;
      while (files_->held_closing_ == uri_) {
        files_->closing_ = true;
        files_->changed_.NotifyAll();
        files_->changed_.WaitUntil(lock, SteadyDeadline(absl::Milliseconds(5)));
      }
      --files_->open_;
    }
    std::string FilesIdentity() const override { return identity_; }
    const DatasetInfo& info() const override { return info_; }
    absl::StatusOr<std::unique_ptr<storage::RecordReader>> NewReader()
        const override {
      return absl::UnimplementedError("no test reads");
    }
    absl::Status CheckFiles() const override {
      MutexLock lock(files_->mu_);
      return files_->damage_[uri_] == damage_
                 ? absl::OkStatus()
                 : absl::UnavailableError("the file has changed");
    }

   private:
    FakeFiles* const files_;
    const std::string uri_;
    const std::string identity_;
    const int damage_;
    const bool counts_;
    DatasetInfo info_;
  };

  absl::StatusOr<LeasedDatasets::Source> Open(const std::string& uri,
                                              bool to_look) {
    MutexLock lock(mu_);
    ++opening_;
    changed_.NotifyAll();
    while (held_ == uri) {
      changed_.WaitUntil(lock, SteadyDeadline(absl::Milliseconds(5)));
    }
    const auto it = content_.find(uri);
    if (it == content_.end()) {
      return absl::NotFoundError(absl::StrCat(uri, ": no such file"));
    }
    if (!to_look && open_ >= limit_) {
      return absl::ResourceExhaustedError("no memory for another cache");
    }
    if (!to_look) {
      ++open_;
      ++opened_;
    }
    return std::make_shared<FakeSource>(this, uri, it->second, damage_[uri],
                                        !to_look);
  }

  // The bytes of the file are the fingerprint.
  absl::StatusOr<LeasedDatasets::Source> OpenArrays(int file) {
    std::string content(1000, '\0');
    const ssize_t bytes = pread(file, content.data(), content.size(), 0);
    if (bytes <= 0) return absl::InvalidArgumentError("no arrays");
    content.resize(static_cast<size_t>(bytes));
    MutexLock lock(mu_);
    ++open_;
    ++opened_;
    return std::make_shared<FakeSource>(this, "memory:", Content{content, ""},
                                        0, true);
  }

  Mutex mu_;
  CondVar changed_;
  std::map<std::string, Content> content_ MR_GUARDED_BY(mu_);
  std::map<std::string, int> damage_ MR_GUARDED_BY(mu_);
  std::map<std::string, std::string> served_ MR_GUARDED_BY(mu_);
  std::string held_ MR_GUARDED_BY(mu_);
  std::string held_closing_ MR_GUARDED_BY(mu_);
  bool closing_ MR_GUARDED_BY(mu_) = false;
  bool refuse_ MR_GUARDED_BY(mu_) = false;
  int opening_ MR_GUARDED_BY(mu_) = 0;
  int open_ MR_GUARDED_BY(mu_) = 0;
  int opened_ MR_GUARDED_BY(mu_) = 0;
  int limit_ MR_GUARDED_BY(mu_) = 1000;
};

}  // namespace millrace::lease

#endif  // MILLRACE_TESTS_SERVER_LEASE_LEASE_FIXTURE_H_
