// Datasets of records in files: indexing, the cache of indexes, and reads, with
// a small format (lines_format.h).

#include "server/storage/extents/extent_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "common/usage_error.h"
#include "proto/error_detail.h"
#include "server/storage/content_hash.h"
#include "server/storage/extents/extent_cache.h"
#include "server/storage/objects/local_objects.h"
#include "tests/server/storage/extents/lines_format.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ExtentSourceTest : public ::testing::Test {
 protected:
  ExtentSourceTest() {
    std::filesystem::create_directory(data());
    Write("0.rec", {"2cat", "0a dog", "1"});
    Write("1.rec", {"4the last"});
    Write("2.rec", {"0x", "3yy"});
    options_.cache_dir = folder_ / "cache";
  }
  std::string data() const { return folder_ / "data"; }
  std::string Path(const std::string& name) const {
    return absl::StrCat(data(), "/", name);
  }
  void Write(const std::string& name, const std::vector<std::string>& bodies) {
    WriteFile(Path(name), Lines(bodies));
  }
  static Samples All() {
    return {{"cat", Scalar<int64_t>(2)}, {"a dog", Scalar<int64_t>(0)},
            {"", Scalar<int64_t>(1)},    {"the last", Scalar<int64_t>(4)},
            {"x", Scalar<int64_t>(0)},   {"yy", Scalar<int64_t>(3)}};
  }

  absl::StatusOr<std::unique_ptr<RecordSource>> TryOpen(
      const std::string& query = "") {
    ::testing::internal::CaptureStderr();
    auto source = OpenExtentSource(format_, data() + query, options_);
    log_ = ::testing::internal::GetCapturedStderr();
    return source;
  }
  std::unique_ptr<RecordSource> Open(const std::string& query = "") {
    auto source = TryOpen(query);
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? *std::move(source) : nullptr;
  }
  // `millrace-data index`.
  absl::StatusOr<std::unique_ptr<const ExtentIndex>> Index(
      BuildOptions build = {.threads = 3, .content = true, .progress = {}},
      const std::string& query = "") {
    const auto uri = ExtentUri::Parse("lines", data() + query);
    EXPECT_TRUE(uri.ok());
    LocalObjects objects;
    return MakeExtentIndex(format_, *uri, objects, options_.cache_dir, build,
                           &index_file_);
  }
  std::string IndexError(const std::string& query = "") {
    const auto index =
        Index({.threads = 3, .content = true, .progress = {}}, query);
    return std::string(index.status().message());
  }
  std::string CacheFile() const {
    std::string found;
    for (const auto& entry :
         std::filesystem::directory_iterator(options_.cache_dir)) {
      found = entry.path();
    }
    return found;
  }
  static absl::Status Read(const RecordSource& source, int64_t index) {
    const auto reader = source.NewReader();
    return (*reader)->Read(
        index, [](const EncodedSample&) { return absl::OkStatus(); });
  }

  TempFolder folder_;
  LinesFormat format_;
  OpenSourceOptions options_;
  std::string log_;
  std::string index_file_;
};

TEST_F(ExtentSourceTest, GivesTheRecordsInTheOrderOfTheObjects) {
  const auto source = Open();
  const auto samples = ReadAll(*source);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(*samples, All());
  const DatasetInfo& info = source->info();
  EXPECT_EQ(info.format(), "lines");
  EXPECT_EQ(info.samples(), 6);
  ASSERT_EQ(info.shards_size(), 3);
  EXPECT_EQ(info.shards(1).name(), "1.rec");
  EXPECT_EQ(info.shards(1).first_sample(), 3);
  EXPECT_EQ(info.shards(2).samples(), 2);
  EXPECT_EQ(info.shards(0).content_sum(), "");
  EXPECT_EQ(info.schema().fields(1).num_classes(), 0);
  EXPECT_EQ(source->read_wait(), ReadWait::kRead);
  EXPECT_GT(source->metadata_bytes(), 0);
  for (const int64_t index : {-1, 6}) {
    EXPECT_TRUE(absl::IsOutOfRange(Read(*source, index)));
  }
}

TEST_F(ExtentSourceTest, TheScanKnowsClassesForFree) {
  const LinesFormat with_classes(true);
  const auto source = OpenExtentSource(with_classes, data(), options_);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->info().schema().fields(1).num_classes(), 5);
  EXPECT_EQ(*ReadAll(**source), All());
}

// The fingerprint of the content is that of the same samples packed.
TEST_F(ExtentSourceTest, ContentHasTheFingerprintOfThePackedDataset) {
  const std::string listed = Open()->info().fingerprint();
  for (const uint32_t threads : {1, 5}) {
    const auto index =
        Index({.threads = threads, .content = true, .progress = {}});
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_EQ((*index)->lengths(0)[1], 5);
    int64_t label;
    ASSERT_EQ((*index)->value(1, 3).size(), sizeof(label));
    std::memcpy(&label, (*index)->value(1, 3).data(), sizeof(label));
    EXPECT_EQ(label, 4);
    const auto source = Open();
    EXPECT_THAT(log_, HasSubstr("by the index"));
    DatasetInfo info;
    info.set_samples(6);
    *info.mutable_schema() = LinesRule().schema();
    info.mutable_schema()->mutable_fields(1)->set_num_classes(5);
    const auto packed = Pack(
        absl::StrCat("lmdb:", folder_ / absl::StrCat(threads)), info, All());
    ASSERT_TRUE(packed.ok()) << packed.status();
    EXPECT_EQ(source->info().fingerprint(), packed->fingerprint());
    EXPECT_NE(source->info().fingerprint(), listed);
    EXPECT_EQ(*ReadAll(*source), All());
    ContentSum sum;
    for (int s = 0; s < 3; ++s) {
      Hash128 part;
      ASSERT_TRUE(HashFromHex(source->info().shards(s).content_sum(), &part));
      sum.Add(part);
    }
    EXPECT_EQ(HashToHex(sum.value()), packed->shards(0).content_sum());
  }
}

TEST_F(ExtentSourceTest, ManyRecordsInManyPieces) {
  Samples expected;
  std::vector<std::string> bodies;
  for (int i = 0; i < 30'000; ++i) {
    const std::string text(static_cast<size_t>(i * 7 % 990), 'a' + i % 26);
    bodies.push_back(absl::StrCat(i % 10, text));
    expected.push_back({text, Scalar<int64_t>(i % 10)});
  }
  Write("0.rec", bodies);
  std::filesystem::remove(Path("1.rec"));
  std::filesystem::remove(Path("2.rec"));
  std::string fingerprints[2];
  int64_t last = 0;
  for (int i = 0; i < 2; ++i) {
    const auto index = Index({.threads = i == 0 ? 1u : 4u,
                              .content = true,
                              .progress = [&](int64_t done, int64_t, int64_t) {
                                last = done;
                                return true;
                              }});
    ASSERT_TRUE(index.ok()) << index.status();
    fingerprints[i] = (*index)->head().content_sum();
    if (i == 0) {
      EXPECT_EQ(last, 30'000);
    }
  }
  EXPECT_EQ(fingerprints[0], fingerprints[1]);
  const auto source = Open();
  EXPECT_EQ(*ReadAll(*source), expected);
}

TEST_F(ExtentSourceTest, WithoutOtherFieldsNoObjectIsRead) {
  ASSERT_TRUE(Index().ok());
  const auto source = Open();
  std::filesystem::remove_all(data());
  const auto reader = source->NewReader();
  ASSERT_TRUE((*reader)->UseFields({false, true}).ok());
  int64_t label = -1;
  ASSERT_TRUE((*reader)
                  ->Read(3,
                         [&](const EncodedSample& sample) {
                           std::memcpy(&label, sample.fields[1].data(),
                                       sizeof(label));
                           return absl::OkStatus();
                         })
                  .ok());
  EXPECT_EQ(label, 4);
  ASSERT_TRUE((*reader)->UseFields({true, false}).ok());
  EXPECT_TRUE(absl::IsDataLoss((*reader)->Read(
      3, [](const EncodedSample&) { return absl::OkStatus(); })));
}

TEST_F(ExtentSourceTest, OptionsOfLabels) {
  WriteFile(folder_ / "names", "a\nb\nc\nd\ne\nf\n");
  EXPECT_EQ(Open("?num_classes=9")->info().schema().fields(1).num_classes(), 9);
  const auto named = Open(absl::StrCat("?classes=", folder_ / "names"));
  EXPECT_EQ(named->info().schema().fields(1).class_names_size(), 6);
  const auto moved = Open("?label_offset=3");
  Samples samples = All();
  for (auto& sample : samples) {
    int64_t label;
    std::memcpy(&label, sample[1].data(), sizeof(label));
    sample[1] = Scalar<int64_t>(label + 3);
  }
  EXPECT_EQ(*ReadAll(*moved), samples);
  EXPECT_THAT(IndexError("?num_classes=4"),
              AllOf(HasSubstr(Path("1.rec")), HasSubstr("record 0 (4the last)"),
                    HasSubstr("is class 4, but there are only 4 classes")));
  // Negative: at once when labels are known, and as a damaged sample.
  EXPECT_THAT(IndexError("?label_offset=-1"),
              AllOf(HasSubstr(Path("0.rec")), HasSubstr("record 1 (0a dog)"),
                    HasSubstr("'label' is 0, with label_offset=-1, and a class "
                              "index must not be negative: remove the option "
                              "label_offset, or set it so")));
  const auto low = Open("?label_offset=-1");
  EXPECT_TRUE(Read(*low, 0).ok());
  const absl::Status status = Read(*low, 1);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(GetErrorDetail(status).shard(), "0.rec");
  EXPECT_EQ(GetErrorDetail(status).row(), 1);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the record 0a dog at byte 10 is damaged"));
  const LinesFormat with_classes(true);
  EXPECT_THAT(
      std::string(
          OpenExtentSource(with_classes, data() + "?label_offset=-2", options_)
              .status()
              .message()),
      AllOf(HasSubstr(Path("0.rec") + ": byte 10: record line1"),
            HasSubstr("must not be negative")));
}

TEST_F(ExtentSourceTest, UsageErrors) {
  const auto wrong = TryOpen("?color=red");
  EXPECT_TRUE(IsUsageError(wrong.status())) << wrong.status();
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr("did you mean colour?"));
  EXPECT_TRUE(IsUsageError(TryOpen("?num_classes=x").status()));
}

TEST_F(ExtentSourceTest, ObjectsThatCannotBeIndexed) {
  WriteFile(Path("1.rec"), "");
  EXPECT_THAT(std::string(TryOpen().status().message()),
              HasSubstr(Path("1.rec") + " has no records"));
  WriteFile(Path("1.rec"), "00");
  EXPECT_THAT(std::string(TryOpen().status().message()),
              HasSubstr(Path("1.rec") + ": byte 0: the object ends at byte 2"));
  WriteFile(Path("1.rec"), "0031abx");
  EXPECT_THAT(std::string(TryOpen().status().message()),
              HasSubstr(Path("1.rec") + ": byte 6: the object ends"));
  WriteFile(Path("1.rec"), "0091ab");
  const auto cut = TryOpen();
  EXPECT_TRUE(absl::IsDataLoss(cut.status())) << cut.status();
  EXPECT_THAT(std::string(cut.status().message()),
              HasSubstr("1.rec: byte 3: the record line0 is cut off"));
  std::filesystem::remove(Path("1.rec"));
  std::filesystem::create_symlink(Path("0.rec"), Path("1.rec"));
  EXPECT_THAT(std::string(TryOpen().status().message()),
              HasSubstr(absl::StrCat(Path("1.rec"), " and ", Path("0.rec"),
                                     " are one file under two names")));
  EXPECT_FALSE(std::filesystem::exists(options_.cache_dir));
}

// The first object is cut off between the look at its identity and its scan.
class ShrinkingObjects final : public ObjectReader {
 public:
  absl::StatusOr<ObjectIdentity> Stat(const std::string& name) override {
    auto identity = files_.Stat(name);
    if (absl::EndsWith(name, "0.rec")) {
      std::filesystem::resize_file(name, identity->bytes - 1);
    }
    return identity;
  }
  absl::Status Read(const std::string& name, const ObjectIdentity& expected,
                    uint64_t offset, absl::Span<uint8_t> data) override {
    return files_.Read(name, expected, offset, data);
  }
  absl::Status ReadUnchecked(const std::string& name,
                             const ObjectIdentity& expected, uint64_t offset,
                             absl::Span<uint8_t> data) override {
    // As a network's file system that has the old bytes.
    return data.empty() || offset + data.size() < expected.bytes
               ? files_.ReadUnchecked(name, expected, offset, data)
               : absl::OkStatus();
  }
  absl::Status CheckIdentity(const std::string& name,
                             const ObjectIdentity& expected) override {
    return files_.CheckIdentity(name, expected);
  }

 private:
  LocalObjects files_;
};

TEST_F(ExtentSourceTest, AnObjectThatChangesDuringTheScanIsNamedAsSuch) {
  const auto uri = ExtentUri::Parse("lines", data());
  ASSERT_TRUE(uri.ok());
  ShrinkingObjects objects;
  for (const bool content : {false, true}) {
    const auto index = MakeExtentIndex(
        format_, *uri, objects, options_.cache_dir,
        {.threads = 1, .content = content, .progress = {}}, &index_file_);
    EXPECT_TRUE(absl::IsDataLoss(index.status())) << index.status();
    EXPECT_THAT(std::string(index.status().message()),
                HasSubstr("0.rec was truncated"));
  }
}

TEST_F(ExtentSourceTest, IndexingStopsWhenItIsTold) {
  const auto index =
      Index({.threads = 2,
             .content = true,
             .progress = [](int64_t, int64_t, int64_t) { return false; }});
  EXPECT_TRUE(absl::IsCancelled(index.status())) << index.status();
}

TEST_F(ExtentSourceTest, AnIndexIsUsedUntilAnObjectChanges) {
  const std::string first = Open()->info().fingerprint();
  EXPECT_THAT(log_, HasSubstr("scanned 6 records in 3 files"));
  EXPECT_EQ(Open()->info().fingerprint(), first);
  EXPECT_THAT(log_, AllOf(HasSubstr("6 records in 3 files by the index "),
                          HasSubstr("`millrace-data index lines:")));
  Write("1.rec", {"5a longer one"});
  EXPECT_NE(Open()->info().fingerprint(), first);
  EXPECT_THAT(log_, HasSubstr(absl::StrCat("is outdated: ", Path("1.rec"),
                                           " has changed")));
  Write("3.rec", {"0"});
  EXPECT_EQ(Open()->info().samples(), 7);
  EXPECT_THAT(log_, HasSubstr(Path("3.rec") + " was added"));
  std::filesystem::remove(Path("0.rec"));
  EXPECT_EQ(Open()->info().samples(), 4);
  EXPECT_THAT(log_, HasSubstr(Path("0.rec") + " was removed"));
}

TEST_F(ExtentSourceTest, ADamagedIndexIsMadeAgain) {
  const std::string first = Open()->info().fingerprint();
  std::string bytes = ReadFile(CacheFile());
  bytes[bytes.size() / 2] ^= 1;
  WriteFile(CacheFile(), bytes);
  EXPECT_EQ(Open()->info().fingerprint(), first);
  EXPECT_THAT(log_, AllOf(HasSubstr("is not used: it is damaged: its checksum "
                                    "differs"),
                          HasSubstr("scanned 6 records")));
  Open();
  EXPECT_THAT(log_, HasSubstr("by the index"));
}

// The rule of a later version, which this one does not know.
TEST_F(ExtentSourceTest, AnIndexWithAnotherRuleIsMadeAgain) {
  const std::string first = Open()->info().fingerprint();
  const auto index = ExtentIndex::FromBytes(ReadFile(CacheFile()));
  ASSERT_TRUE(index.ok()) << index.status();
  ExtentIndexHead head = (*index)->head();
  head.set_rule("lines 2");
  WriteFile(CacheFile(), (*index)->WithHead(head));
  EXPECT_EQ(Open()->info().fingerprint(), first);
  EXPECT_THAT(log_, HasSubstr("another version of Millrace has written it"));
  head = (*index)->head();
  head.mutable_schema()->mutable_fields(0)->set_name("renamed");
  WriteFile(CacheFile(), (*index)->WithHead(head));
  EXPECT_EQ(*ReadAll(*Open()), All());
  EXPECT_THAT(log_, HasSubstr("another version of Millrace has written it"));
}

TEST_F(ExtentSourceTest, AnotherTimeOfAttributesKeepsTheContentHash) {
  ASSERT_TRUE(Index().ok());
  const std::string first = Open()->info().fingerprint();
  ASSERT_EQ(chmod(Path("1.rec").c_str(), 0640), 0);
  const auto same = Open();
  EXPECT_EQ(same->info().fingerprint(), first);
  EXPECT_THAT(log_, HasSubstr("is outdated"));
  EXPECT_EQ(*ReadAll(*same), All());
  Write("1.rec", {"4the l_st"});
  EXPECT_NE(Open()->info().fingerprint(), first);
  EXPECT_THAT(log_, HasSubstr("fingerprint of the content is not known any "
                              "more"));
}

// Reading ahead waits for the room of a record before it reads it.
TEST_F(ExtentSourceTest, TheSizesOfSamplesAreKnown) {
  const auto listed = Open();
  EXPECT_EQ(listed->BytesOf(0, {}), 4 + 8);  // of the record, and a label
  EXPECT_EQ(listed->BytesOf(1, {true, false}), 6);
  EXPECT_EQ(listed->BytesOf(1, {false, true}), 8);
  ASSERT_TRUE(Index().ok());
  const auto indexed = Open();
  EXPECT_EQ(indexed->BytesOf(0, {}), 3 + 8);  // the lengths are known, too
  EXPECT_EQ(indexed->BytesOf(2, {true, false}), 0);
}

// A chmod made programs that came later read by the versions that were there
// before.
TEST_F(ExtentSourceTest, TheIdentityIsThatOfTheFilesVersions) {
  ASSERT_TRUE(Index().ok());
  const auto first = Open();
  EXPECT_EQ(Open()->FilesIdentity(), first->FilesIdentity());
  EXPECT_EQ(first->index_file(), index_file_);
  std::filesystem::permissions(Path("1.rec"),
                               std::filesystem::perms::owner_read);
  const auto later = Open();
  EXPECT_EQ(later->info().fingerprint(), first->info().fingerprint());
  EXPECT_NE(later->FilesIdentity(), first->FilesIdentity());
}

// `verify` replaced the index with the hash of the content by one without it,
// and the second `verify` found nothing to compare.
TEST_F(ExtentSourceTest, TheContentHashIsKeptForAComparison) {
  ASSERT_TRUE(Index().ok());
  const std::string index = ReadFile(index_file_);
  const auto first = Open();
  options_.keep_content_index = true;
  // As many records: samples are read, and their hash is compared.
  Write("1.rec", {"4the LAST"});
  for (int i = 0; i < 2; ++i) {
    const auto source = Open();
    EXPECT_EQ(source->info().fingerprint(), first->info().fingerprint());
    EXPECT_EQ(source->info().shards(1).content_sum(),
              first->info().shards(1).content_sum());
    EXPECT_EQ((*ReadAll(*source))[3][0], "the LAST");
    EXPECT_EQ(ReadFile(index_file_), index);
  }
  // More records: there is nothing to compare.
  Write("1.rec", {"4the last", "4the very last"});
  const auto more = TryOpen();
  EXPECT_TRUE(absl::IsDataLoss(more.status())) << more.status();
  EXPECT_THAT(std::string(more.status().message()),
              AllOf(HasSubstr(index_file_), HasSubstr("6 records in 3 files"),
                    HasSubstr("there are 7 records in 3 files; the first "
                              "difference is " +
                              Path("1.rec")),
                    HasSubstr("run `millrace-data index lines:")));
  std::filesystem::remove(Path("2.rec"));
  Write("1.rec", {"4the last"});
  EXPECT_THAT(std::string(TryOpen().status().message()),
              HasSubstr("the first difference is " + Path("2.rec")));
  EXPECT_EQ(ReadFile(index_file_), index);
  // The server serves what is there.
  options_.keep_content_index = false;
  EXPECT_EQ(Open()->info().samples(), 4);
  EXPECT_THAT(log_, HasSubstr("the fingerprint of the content is not known"));
}

TEST_F(ExtentSourceTest, HeadersAloneReplaceNoContentHashInSilence) {
  ASSERT_TRUE(Index().ok());
  const BuildOptions headers = {.threads = 1, .content = false, .progress = {}};
  EXPECT_NE((*Index(headers))->head().content_sum(), "");
  Write("1.rec", {"5a longer one"});
  ::testing::internal::CaptureStderr();
  const auto index = Index(headers);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("the fingerprint of the content is not known any "
                              "more"),
                    HasSubstr("`millrace-data index lines:")));
  EXPECT_EQ((*index)->head().content_sum(), "");
}

TEST_F(ExtentSourceTest, WithoutACacheFolderTheIndexIsInMemory) {
  options_.cache_dir = "off";
  const auto source = Open();
  EXPECT_THAT(log_, HasSubstr("there is no cache folder"));
  EXPECT_EQ(*ReadAll(*source), All());
  // A file is in the place of the folder.
  WriteFile(folder_ / "no_folder", "");
  options_.cache_dir = folder_ / "no_folder/cache";
  EXPECT_EQ(*ReadAll(*Open()), All());
  EXPECT_THAT(log_, HasSubstr("the index is not kept: cannot create folder"));
}

// A shard that was replaced by one of equal size in the middle of an epoch.
TEST_F(ExtentSourceTest, AReplacedObjectIsNeverServed) {
  const auto source = Open();
  ASSERT_TRUE(Read(*source, 0).ok());
  WriteFile(folder_ / "new", Lines({"1CAT", "1A DOG", "2"}));
  std::filesystem::rename(folder_ / "new", Path("0.rec"));
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = Read(*source, i);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(Path("0.rec") + " was "),
                      HasSubstr("restart the data server")));
    EXPECT_EQ(GetErrorDetail(status).shard(), "0.rec");
    EXPECT_EQ(GetErrorDetail(status).row(), i);
  }
  EXPECT_TRUE(Read(*source, 3).ok());
  // Batches of other objects are delivered, and the dataset is still opened:
  // its jobs fail at the changed object, and do not wait for another server.
  EXPECT_TRUE(source->CheckFilesOf({0, 3}).ok());
  EXPECT_TRUE(source->CheckFiles().ok());
  // Final: also when only the times of the object differ.
  std::filesystem::last_write_time(
      Path("1.rec"), std::filesystem::file_time_type::clock::now());
  const absl::Status touched = Read(*source, 3);
  EXPECT_TRUE(absl::IsDataLoss(touched)) << touched;
  EXPECT_THAT(std::string(touched.message()), HasSubstr(Path("1.rec")));
  EXPECT_TRUE(source->CheckFiles().ok());
}

TEST_F(ExtentSourceTest, ErrorsOfTheVisitPassThrough) {
  const auto source = Open();
  const auto reader = source->NewReader();
  EXPECT_TRUE(absl::IsDataLoss((*reader)->Read(0, [](const EncodedSample&) {
    return absl::DataLossError("does not decode");
  })));
  EXPECT_TRUE(source->CheckFiles().ok());
}

TEST_F(ExtentSourceTest, TheBudgetHoldsIndexAndRecords) {
  ByteBudget lists(1 << 20);
  ByteBudget reads(1 << 20);
  options_.metadata_budget = &lists;
  options_.read_budget = &reads;
  options_.read_bytes = 300;
  {
    const auto source = Open();
    EXPECT_EQ(lists.used(), source->metadata_bytes());
    EXPECT_EQ(reads.used(), 300);
    EXPECT_GT(source->unused_bytes(), 300);
    EXPECT_EQ(*ReadAll(*source), All());
  }
  EXPECT_EQ(lists.used() + reads.used(), 0);
  options_.metadata_advice = [](uint64_t bytes, const DatasetInfo*) {
    return absl::StrCat("give it ", bytes);
  };
  ByteBudget small(100);
  options_.metadata_budget = &small;
  const auto refused = TryOpen();
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_TRUE(IsUsageError(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("the index of 6 records in 3 files"),
                    HasSubstr("give it ")));
  EXPECT_EQ(small.used(), 0);
}

TEST_F(ExtentSourceTest, ReadersOfManyThreads) {
  ByteBudget reads(1 << 20);
  options_.read_budget = &reads;
  options_.read_bytes = 200;
  const auto source = Open();
  const Samples all = All();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto reader = source->NewReader();
      for (int n = 0; n < 300; ++n) {
        const int64_t i = (n * 5 + t) % 6;
        const absl::Status status =
            (*reader)->Read(i, [&](const EncodedSample& sample) {
              for (int f = 0; f < 2; ++f) {
                if (std::string(sample.fields[f].begin(),
                                sample.fields[f].end()) != all[i][f]) {
                  ++wrong;
                }
              }
              return absl::OkStatus();
            });
        if (!status.ok()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace millrace::storage
