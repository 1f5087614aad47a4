#include "server/data_tool/dataset_diff.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/cgroup.h"
#include "common/count_text.h"
#include "common/status_macros.h"
#include "server/data_tool/field_text.h"
#include "server/data_tool/ordered_reads.h"
#include "server/data_tool/report.h"
#include "server/storage/content_hash.h"

namespace millrace::data_tool {
namespace {

using Bytes = absl::Span<const uint8_t>;

// A field that both datasets have with one type.
struct Pair {
  int a;
  int b;
};

class Comparison {
 public:
  Comparison(const storage::RecordSource& a, const storage::RecordSource& b,
             const DatasetDiffOptions& options)
      : a_(a), b_(b), options_(options) {}

  absl::StatusOr<DatasetDiff> Run() {
    CompareSchemas();
    const int64_t samples = std::min(a_.info().samples(), b_.info().samples());
    if (a_.info().samples() != b_.info().samples()) {
      Add("A has ", CountText(a_.info().samples(), "sample"), ", B has ",
          GroupedText(static_cast<uint64_t>(b_.info().samples())));
    }
    MR_RETURN_IF_ERROR(CompareSamples(samples));
    if (sum_known_ && a_.info().samples() == b_.info().samples()) {
      diff_.fingerprint = storage::DatasetFingerprint(
          samples, a_.info().schema(), sum_.value());
    }
    return std::move(diff_);
  }

 private:
  template <typename... Text>
  void Add(const Text&... text) {
    ++diff_.count;
    if (static_cast<int64_t>(diff_.first.size()) < options_.max_differences) {
      diff_.first.push_back(absl::StrCat(text...));
    }
  }

  void CompareSchemas() {
    const auto& fields_a = a_.info().schema().fields();
    const auto& fields_b = b_.info().schema().fields();
    std::vector<bool> met(static_cast<size_t>(fields_b.size()));
    bool in_order = true;
    for (int i = 0; i < fields_a.size(); ++i) {
      int j = 0;
      while (j < fields_b.size() && fields_b[j].name() != fields_a[i].name()) {
        ++j;
      }
      if (j == fields_b.size()) {
        Add("field ", Readable(fields_a[i].name()), ": ",
            FieldTypeText(fields_a[i]), " in A, missing in B");
        continue;
      }
      met[static_cast<size_t>(j)] = true;
      in_order = in_order && i == j;
      if (CompareFields(fields_a[i], fields_b[j])) pairs_.push_back({i, j});
    }
    bool same = pairs_.size() == static_cast<size_t>(fields_a.size());
    for (int j = 0; j < fields_b.size(); ++j) {
      if (met[static_cast<size_t>(j)]) continue;
      same = false;
      Add("field ", Readable(fields_b[j].name()), ": missing in A, ",
          FieldTypeText(fields_b[j]), " in B");
    }
    if (same && !in_order) {
      const auto names = [](const Schema& schema) {
        return absl::StrJoin(schema.fields(), ", ",
                             [](std::string* out, const Field& field) {
                               out->append(Readable(field.name()));
                             });
      };
      Add("the fields are in another order: ", names(a_.info().schema()),
          " in A, ", names(b_.info().schema()), " in B");
    }
  }

  // Whether the bytes of the two fields mean the same.
  bool CompareFields(const Field& a, const Field& b) {
    const std::string name = absl::StrCat("field ", Readable(a.name()), ": ");
    const std::string type_a = FieldTypeText(a), type_b = FieldTypeText(b);
    if (type_a != type_b) {
      Add(name, type_a, " in A, ", type_b, " in B");
      return false;
    }
    if (a.num_classes() != b.num_classes()) {
      Add(name, CountText(a.num_classes(), "class", "classes"), " in A, ",
          GroupedText(static_cast<uint64_t>(b.num_classes())), " in B");
    } else if (a.class_names_size() != b.class_names_size()) {
      Add(name, CountText(a.class_names_size(), "class name"), " in A, ",
          b.class_names_size(), " in B");
    } else {
      for (int i = 0; i < a.class_names_size(); ++i) {
        if (a.class_names(i) == b.class_names(i)) continue;
        Add(name, "class ", i, " is ", Readable(a.class_names(i)), " in A, ",
            Readable(b.class_names(i)), " in B");
        break;
      }
    }
    return true;
  }

  absl::Status CompareSamples(int64_t samples) {
    // Both datasets are read at the same time.
    const OrderedReads::Options half = {
        .threads = std::max(AvailableCpus() / 2, kMinThreads)};
    MR_ASSIGN_OR_RETURN(const auto reads_a, OrderedReads::Start(a_, half));
    MR_ASSIGN_OR_RETURN(const auto reads_b, OrderedReads::Start(b_, half));
    for (int64_t i = 0; i < samples; ++i) {
      const OrderedReads::Sample& a = reads_a->Next();
      const OrderedReads::Sample& b = reads_b->Next();
      const int64_t before = diff_.count;
      MR_RETURN_IF_ERROR(CompareSample(i, a, b));
      diff_.different_samples += diff_.count > before;
      diff_.samples = i + 1;
      if (options_.progress != nullptr &&
          !options_.progress(i + 1, diff_.bytes)) {
        return absl::CancelledError(absl::StrCat(
            "interrupted after ", i + 1, " of ", CountText(samples, "sample")));
      }
    }
    // A file that has changed since it was opened is no difference.
    MR_RETURN_IF_ERROR(a_.CheckFiles());
    return b_.CheckFiles();
  }

  absl::Status CompareSample(int64_t index, const OrderedReads::Sample& a,
                             const OrderedReads::Sample& b) {
    for (const auto* sample : {&a, &b}) {
      if (sample->status.ok()) continue;
      if (!absl::IsDataLoss(sample->status)) return sample->status;
      Add("sample ", index, ": cannot be read in ", sample == &a ? "A" : "B",
          ": ", Readable(sample->status.message()));
    }
    if (a.status.ok()) {
      sum_.Add(index, a.fields);
      for (const Bytes& field : a.fields) {
        diff_.bytes += static_cast<int64_t>(field.size());
      }
    }
    sum_known_ = sum_known_ && a.status.ok();
    if (!a.status.ok() || !b.status.ok()) return absl::OkStatus();
    for (const Pair& pair : pairs_) {
      CompareValues(index, a_.info().schema().fields(pair.a),
                    b_.info().schema().fields(pair.b),
                    a.fields[static_cast<size_t>(pair.a)],
                    b.fields[static_cast<size_t>(pair.b)]);
    }
    return absl::OkStatus();
  }

  void CompareValues(int64_t index, const Field& field, const Field& field_b,
                     Bytes a, Bytes b) {
    if (a == b) return;
    const std::string name = absl::StrCat("sample ", index, ", field ",
                                          Readable(field.name()), ": ");
    if (field.kind() == FIELD_KIND_TENSOR && field.shape().empty()) {
      Add(name, ScalarText(field, a), " in A, ", ScalarText(field_b, b),
          " in B");
    } else if (a.size() != b.size()) {
      Add(name, CountText(a.size(), "byte"), " in A, ",
          GroupedText(static_cast<uint64_t>(b.size())), " in B");
    } else {
      const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first;
      Add(name, CountText(a.size(), "byte"), " in both, different at byte ",
          at - a.begin());
    }
  }

  // Reads wait for storage more than they compute.
  static constexpr uint32_t kMinThreads = 2;

  const storage::RecordSource& a_;
  const storage::RecordSource& b_;
  const DatasetDiffOptions& options_;
  std::vector<Pair> pairs_;
  storage::ContentSum sum_;  // of A
  bool sum_known_ = true;
  DatasetDiff diff_;
};

}  // namespace

absl::StatusOr<DatasetDiff> DiffDatasets(const storage::RecordSource& a,
                                         const storage::RecordSource& b,
                                         const DatasetDiffOptions& options) {
  return Comparison(a, b, options).Run();
}

}  // namespace millrace::data_tool
