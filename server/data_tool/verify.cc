// millrace-data verify: reads a whole dataset and compares it with what was
// packed.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/cgroup.h"
#include "common/count_text.h"
#include "common/first_of.h"
#include "common/standard_output.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/usage_error.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/image_check.h"
#include "server/data_tool/progress.h"
#include "server/data_tool/report.h"
#include "server/data_tool/sample_place.h"
#include "server/operators/operators.h"
#include "server/storage/content_hash.h"
#include "server/storage/dataset_files.h"
#include "server/storage/open_in_order.h"
#include "server/storage/sample_files.h"
#include "server/storage/schemes.h"

namespace millrace::data_tool {
namespace {

// After this number of consecutive unusable samples, the rest of a shard is
// skipped, because each may cost the decoding of a whole row group.
constexpr int64_t kMaxRefused = 1000;

// The position of the child process, in case it dies.
struct Place {
  volatile int64_t sample;
  char shard[256];
};

// The content hash of these was made by `millrace-data index`.
bool IsIndexed(const DatasetInfo& info) {
  return storage::ReadsFiles(absl::StrCat(info.format(), ":")) ||
         info.format() == "arrow";
}

// The content hash was made by `millrace-data pack`. Otherwise the dataset is
// indexed, or its source (of an operator library, or synthetic) has the hash.
bool IsPacked(const DatasetInfo& info) {
  return storage::HasScheme(absl::StrCat(info.format(), ":")) &&
         !IsIndexed(info);
}

// The damage of a dataset: for each kind, the number and the first places.
class Damage {
 public:
  Damage(const storage::RecordSource& source, bool decode)
      : info_(source.info()),
        files_(source.sample_files()),
        packed_(IsPacked(info_)),
        decode_(decode),
        images_of_(info_.shards_size()) {}

  // Adds a sample that the reader refuses.
  void AddSample(int64_t sample, const absl::Status& status) {
    if (++samples_ <= static_cast<int64_t>(kMaxListed)) {
      first_samples_.push_back(Describe(sample, "", status));
    }
    unread_.insert(ShardOf(info_, sample));
  }

  void AddImage(int64_t sample, const std::string& field,
                const absl::Status& status) {
    if (++images_ <= static_cast<int64_t>(kMaxListed)) {
      first_images_.push_back(
          Describe(sample, absl::StrCat(", field ", field), status));
    }
    ++images_of_[ShardOf(info_, sample)];
  }

  // Records that the reader has refused too many consecutive samples.
  void AddRest(int shard, int64_t row) { rests_.emplace_back(shard, row); }

  // Not called for a shard with unreadable samples, which are missing from the
  // hash.
  void AddHash(int shard, std::string found) {
    if (!unread_.contains(shard)) hashes_.emplace_back(shard, std::move(found));
  }

  // One sentence for each kind of damage. `hashes_known`: every shard has a
  // hash.
  std::vector<absl::Status> Sentences(int64_t image_count,
                                      bool hashes_known) const {
    std::vector<absl::Status> sentences;
    const auto add = [&sentences](auto... text) {
      sentences.push_back(absl::DataLossError(absl::StrCat(text...)));
    };
    if (samples_ > 0) {
      add(samples_, " of ", CountText(info_.samples(), "sample"),
          " cannot be used: ", FirstOf(first_samples_, "; ", samples_),
          hashes_known && packed_
              ? "; pack checked every sample, so the damage is newer: copy the "
                "file again, or pack the dataset again"
              : "; repair the files, or train with another policy than FAIL "
                "(docs/operations.md)");
    }
    for (const auto& [shard, row] : rests_) {
      add("shard ", info_.shards(shard).name(), " is not read from row ", row,
          " on: ", kMaxRefused, " consecutive samples cannot be used");
    }
    if (images_ > 0) {
      add(images_, " of ", CountText(image_count, "image"),
          " cannot be decoded: ", FirstOf(first_images_, "; ", images_),
          !hashes_known ? "; repair the files, or train with another policy "
                          "than FAIL (docs/operations.md)"
          : !packed_
              ? "; repair the files, or train with another policy than FAIL "
                "(docs/operations.md)"
          : hashes_.empty() && unread_.empty()
              ? "; the shards are as they were packed, so the damage is older: "
                "repair the original files and pack again, or train with "
                "another "
                "policy than FAIL (docs/operations.md)"
              : "");
    }
    for (size_t i = 0; i < hashes_.size(); ++i) {
      if (i == kMaxListed) {
        add("the content of ", hashes_.size() - i, " more shards is not ",
            Known());
        break;
      }
      if (files_ != nullptr) {
        add("the content of the files is not what `millrace-data index` has "
            "read: the hash is ",
            hashes_[i].second, " instead of ",
            info_.shards(hashes_[i].first).content_sum(),
            "; restore the files, or run `millrace-data index` again");
        continue;
      }
      const auto& [shard, found] = hashes_[i];
      const ShardInfo& info = info_.shards(shard);
      add("the content of shard ", info.name(), " is not ", Known(),
          ": its hash is ", found, " instead of ", info.content_sum(), "; ",
          images_of_[shard] > 0
              ? absl::StrCat(CountText(images_of_[shard], "image"),
                             " cannot be decoded (see above)")
              : absl::StrCat("every sample of it can be read",
                             image_count == 0 ? ""
                             : decode_        ? " and decoded"
                                       : " (without --no_decode each image "
                                         "would be decoded as well)",
                             ", and the hash of the whole shard does not show "
                             "which sample has changed"),
          packed_ ? "; copy the file again, or pack the dataset again"
          : IsIndexed(info_)
              ? "; restore the file, or run `millrace-data index` again"
              : "; restore the files of the dataset");
    }
    return sentences;
  }

 private:
  // What the hash of a shard's content says.
  absl::string_view Known() const {
    return packed_            ? "what was packed"
           : IsIndexed(info_) ? "what `millrace-data index` has read"
                              : "that of its content hash";
  }

  // Returns "shard part-00000-of-00002.lmdb, row 3 (sample 3, field image):
  // REASON", or "cat/1.jpg (sample 3, field image): REASON".
  std::string Describe(int64_t sample, absl::string_view field,
                       const absl::Status& status) const {
    if (files_ != nullptr) {
      return absl::StrCat(files_->FileOf(sample), " (sample ", sample, field,
                          "): ", status.message());
    }
    const ShardInfo& shard = info_.shards(ShardOf(info_, sample));
    return absl::StrCat("shard ", shard.name(), ", row ",
                        sample - shard.first_sample(), " (sample ", sample,
                        field, "): ", status.message());
  }

  const DatasetInfo& info_;
  const storage::SampleFiles* const files_;  // null: there are shards
  const bool packed_;
  const bool decode_;
  int64_t samples_ = 0;
  int64_t images_ = 0;
  std::vector<std::string> first_samples_;
  std::vector<std::string> first_images_;
  std::vector<int64_t> images_of_;  // keyed by shard
  std::set<int> unread_;            // shards with refused samples
  std::vector<std::pair<int, int64_t>> rests_;
  std::vector<std::pair<int, std::string>> hashes_;
};

absl::Status Verify(const std::string& uri,
                    const std::vector<std::string>& libraries,
                    const std::string& cache_dir, bool decode, Place* place,
                    std::ostream& out) {
  MR_ASSIGN_OR_RETURN(const auto operators,
                      UsageError(operators::Operators::Load(libraries)));
  MR_ASSIGN_OR_RETURN(
      auto source, storage::OpenInOrder(uri, {.cache_dir = cache_dir,
                                              .keep_content_index = true,
                                              .operators = operators.get()}));
  MR_ASSIGN_OR_RETURN(const storage::DatasetFiles files,
                      storage::FindDatasetFiles(uri));
  MR_ASSIGN_OR_RETURN(auto reader, source->NewReader());
  const DatasetInfo& info = source->info();
  std::vector<int> image_fields;
  for (int i = 0; i < info.schema().fields_size(); ++i) {
    if (info.schema().fields(i).kind() == FIELD_KIND_ENCODED_IMAGE) {
      image_fields.push_back(i);
    }
  }
  ImageCheck check(AvailableCpus(), operators.get());
  const auto images = static_cast<int64_t>(image_fields.size());
  std::optional<ToolProgress> progress(std::in_place, "verifying",
                                       info.samples());
  Damage damage(*source, decode);
  int64_t bytes = 0;
  bool hashes_known = true;
  for (int number = 0; number < info.shards_size(); ++number) {
    const ShardInfo& shard = info.shards(number);
    std::snprintf(place->shard, sizeof(place->shard), "%s",
                  shard.name().c_str());
    storage::ContentSum sum;
    int64_t refused = 0;  // consecutive
    for (int64_t row = 0; row < shard.samples(); ++row) {
      if (StopSignals::signal() != 0)
        return absl::CancelledError("interrupted");
      const int64_t index = shard.first_sample() + row;
      place->sample = index;
      const absl::Status read =
          reader->Read(index, [&](const storage::EncodedSample& sample) {
            sum.Add(index, sample.fields);
            for (const auto& field : sample.fields) bytes += field.size();
            for (int64_t i = 0; decode && i < images; ++i) {
              const auto& field = sample.fields[image_fields[i]];
              check.Add(
                  index * images + i,
                  [copy = std::string(
                       reinterpret_cast<const char*>(field.data()),
                       field.size())]() mutable -> absl::StatusOr<std::string> {
                    return std::move(copy);
                  });
            }
            return absl::OkStatus();
          });
      if (!read.ok() && !absl::IsDataLoss(read)) return read;
      refused = read.ok() ? 0 : refused + 1;
      if (!read.ok()) damage.AddSample(index, read);
      if (refused == kMaxRefused && row + 1 < shard.samples()) {
        damage.AddRest(number, row + 1);
        break;
      }
      progress->Update(index + 1, bytes);
    }
    hashes_known = hashes_known && !shard.content_sum().empty();
    if (!shard.content_sum().empty() &&
        storage::HashToHex(sum.value()) != shard.content_sum()) {
      damage.AddHash(number, storage::HashToHex(sum.value()));
    }
  }
  for (const ImageCheck::Bad& image : check.Finish()) {
    damage.AddImage(
        image.number / images,
        info.schema().fields(image_fields[image.number % images]).name(),
        image.status);
  }
  progress.reset();  // before any output
  const std::vector<absl::Status> sentences =
      damage.Sentences(info.samples() * images, hashes_known);
  if (!sentences.empty()) {
    MR_RETURN_IF_ERROR(source->CheckFiles());  // changed since the opening
    for (size_t i = 0; i + 1 < sentences.size(); ++i) {
      Report("verify", sentences[i]);
    }
    return sentences.back();
  }
  std::string what;
  if (images > 0 && !decode) {
    what = ", images not decoded (--no_decode)";
  } else if (info.samples() * images == 1) {
    what = ", its image decodes";
  } else if (images > 0) {
    what = absl::StrCat(", all ", info.samples() * images, " images decode");
  }
  const bool one = info.samples() == 1;
  const std::string as_before =
      IsPacked(info) || IsIndexed(info)
          ? absl::StrCat(one ? " and as it was " : " and as they were ",
                         IsIndexed(info) ? "indexed" : "packed")
      : one ? " and has the content hash of its source"
            : " and have the content hash of their source";
  out << absl::StreamFormat(
      "%s: %s (%s) in %s %s whole%s%s, fingerprint %s\n", Readable(uri),
      CountText(info.samples(), "sample"), SizeText(bytes),
      CountText(info.shards_size(), "shard"), one ? "is" : "are",
      hashes_known ? as_before
                   : " (the dataset has no content hash to compare)",
      what, info.fingerprint());
  if (files.files.size() > 1) {
    out << "the dataset consists of " << Readable(files.Sentence()) << "\n";
  }
  Warn("verify", files.Warnings());
  return absl::OkStatus();
}

}  // namespace

// A child process reads the dataset, because the source of an operator library
// may end the process when it reads a damaged file.
int RunVerify(const std::vector<std::string>& args, std::ostream& out) {
  std::vector<std::string> libraries;
  std::string cache_dir;
  bool no_decode = false;
  program::FlagSet flags(
      {.command = "millrace-data verify",
       .summary =
           "Reads every sample of a dataset, checks it against the schema, "
           "decodes every image, and compares the content hash with the hash "
           "that `pack` wrote. Continues after damage and reports all of it. "
           "Parquet and HDF5 files of other programs have no hash to compare; "
           "datasets of imagefolder:, tar:, tfrecord:, mds:, litdata:, csv: "
           "and arrow:, and LMDB files of other programs, have one only after "
           "`millrace-data index`.",
       .argument = "URI",
       .examples = {"millrace-data verify lmdb:/data/train"}});
  flags.Add("operators", &libraries, "FILE.so",
            "Library of a source that reads the dataset; may be repeated");
  AddCacheDirFlag(flags, &cache_dir);
  flags.Add("no_decode", &no_decode, "",
            "Do not decode the images: faster, but does not find images that "
            "were damaged before packing");
  int exit_code;
  if (!ParseOrLeave(flags, args, "verify", out, &exit_code)) return exit_code;
  void* shared = mmap(nullptr, sizeof(Place), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    return Report("verify", absl::ResourceExhaustedError("no memory"));
  }
  Place* place = static_cast<Place*>(shared);
  place->sample = -1;
  out.flush();
  const pid_t child = fork();
  if (child < 0) {
    return Report("verify",
                  absl::InternalError(absl::StrCat("cannot start a process: ",
                                                   std::strerror(errno))));
  }
  if (child == 0) {
    const StopSignals signals;
    absl::Status verified =
        Verify(flags.argument(), libraries, cache_dir, !no_decode, place, out);
    if (verified.ok()) verified = FlushStandardOutput();
    _exit(Report("verify", verified));
  }
  // Created after fork(), which copies only the calling thread: a lock that
  // another thread holds at that moment (for example of AddressSanitizer's
  // heap) stays locked in the child forever.
  const StopSignals signals;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  absl::Status result;
  if (WIFSIGNALED(status)) {
    const std::string where = place->sample < 0
                                  ? absl::StrCat("opening ", flags.argument())
                                  : absl::StrCat("reading shard ", place->shard,
                                                 " at sample ", place->sample);
    result = absl::DataLossError(absl::StrCat(
        "the process that reads the dataset died (",
        strsignal(WTERMSIG(status)), ") while ", where,
        ": the file is damaged; copy it again, or pack the dataset again"));
  }
  munmap(shared, sizeof(Place));
  if (!result.ok()) return Report("verify", result);
  return WEXITSTATUS(status);
}

}  // namespace millrace::data_tool
