#include "client/cli/digest.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "proto/wire/batch_view.h"
#include "xxhash.h"

namespace millrace::cli {
namespace {

static_assert(std::endian::native == std::endian::little,
              "digests are defined over little-endian numbers");

absl::uint128 Number(XXH128_hash_t hash) {
  return absl::MakeUint128(hash.high64, hash.low64);
}

template <typename T>
T Load(absl::Span<const uint8_t> payload, uint64_t offset) {
  T value;
  std::memcpy(&value, payload.data() + offset, sizeof(value));
  return value;
}

const TensorHeader* FindTensor(const BatchHeader& header,
                               absl::string_view name, DType dtype) {
  for (const TensorHeader& tensor : header.tensors()) {
    if (tensor.name() == name && tensor.dtype() == dtype &&
        tensor.sample_shape().empty()) {
      return &tensor;
    }
  }
  return nullptr;
}

// A tensor's rows within the payload.
struct Rows {
  bool ragged = false;
  uint64_t offset = 0;  // of row 0, or of the offsets
  uint64_t unit = 0;    // bytes of a row, or of a ragged value
  uint64_t values = 0;  // ragged: of value 0
};

// More sources than any spec has.
constexpr int32_t kMaxSources = 1 << 16;

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

absl::Status BadTensor(const TensorHeader& tensor) {
  return absl::DataLossError(
      absl::StrCat("tensor `", tensor.name(), "` has an invalid shape"));
}

}  // namespace

bool IndexSet::Insert(uint64_t index) {
  Page& page = pages_[index / kPageBits];
  uint64_t& word = page[index % kPageBits / 64];
  const uint64_t bit = uint64_t{1} << (index % 64);
  if ((word & bit) != 0) return false;
  word |= bit;
  ++size_;
  return true;
}

void IndexSet::Merge(const IndexSet& other) {
  for (const auto& [number, theirs] : other.pages_) {
    Page& ours = pages_[number];
    for (size_t i = 0; i < ours.size(); ++i) {
      size_ += std::popcount(theirs[i] & ~ours[i]);
      ours[i] |= theirs[i];
    }
  }
}

uint64_t IndexSet::Common(const IndexSet& other) const {
  uint64_t common = 0;
  for (const auto& [number, theirs] : other.pages_) {
    const auto ours = pages_.find(number);
    if (ours == pages_.end()) continue;
    for (size_t i = 0; i < theirs.size(); ++i) {
      common += std::popcount(ours->second[i] & theirs[i]);
    }
  }
  return common;
}

absl::Status EpochAudit::Add(const BatchHeader& header,
                             absl::Span<const uint8_t> payload) {
  const TensorHeader* index = FindTensor(header, "sample_index", DTYPE_INT64);
  const TensorHeader* valid = FindTensor(header, "valid", DTYPE_BOOL);
  if (index == nullptr || valid == nullptr) {
    return absl::DataLossError(
        "the batch cannot be audited: it has no `sample_index` and `valid`");
  }
  // Of several sources.
  const TensorHeader* source = FindTensor(header, "source_index", DTYPE_INT32);
  std::vector<Rows> tensors;
  for (const TensorHeader& tensor : header.tensors()) {
    Rows rows;
    uint64_t elements = 0;
    if (!wire::SampleElements(tensor.sample_shape(), &rows.ragged, &elements)) {
      return BadTensor(tensor);
    }
    rows.offset = tensor.offset();
    rows.unit = elements * ElementBytes(tensor.dtype());
    rows.values = tensor.values_offset();
    tensors.push_back(rows);
  }

  // On the heap: the state needs more alignment than a stack may have.
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  for (uint64_t row = 0; row < header.rows(); ++row) {
    struct {
      uint64_t position;
      uint32_t source;
      int64_t index;
    } key = {header.first_position() + row, 0,
             Load<int64_t>(payload, index->offset() + row * sizeof(int64_t))};
    const bool holds = payload[valid->offset() + row] != 0;
    if (!holds && key.index < 0) continue;  // padding
    if (key.index < 0) {
      return absl::DataLossError(
          absl::StrCat("the sample at position ", key.position,
                       " is valid and has the index ", key.index));
    }
    if (source != nullptr) {
      const auto number =
          Load<int32_t>(payload, source->offset() + row * sizeof(int32_t));
      if (number < 0 || number >= kMaxSources) {
        return absl::DataLossError(
            absl::StrCat("the sample at position ", key.position,
                         " is valid and has the source ", number));
      }
      key.source = static_cast<uint32_t>(number);
    }
    if (sources_.size() <= key.source) sources_.resize(key.source + 1);
    Source& counts = sources_[key.source];
    if (!holds) {
      ++counts.empty_rows;
      counts.empty.Insert(static_cast<uint64_t>(key.index));
      continue;
    }
    ++samples_;
    ++counts.samples;
    counts.indices.Insert(static_cast<uint64_t>(key.index));

    uint8_t bytes[20];
    std::memcpy(bytes, &key.position, 8);
    std::memcpy(bytes + 8, &key.source, 4);
    std::memcpy(bytes + 12, &key.index, 8);
    order_digest_ += Number(XXH3_128bits(bytes, sizeof(bytes)));

    XXH3_128bits_reset(state.get());
    XXH3_128bits_update(state.get(), &key.position, 8);
    for (const Rows& rows : tensors) {
      if (!rows.ragged) {
        XXH3_128bits_update(state.get(),
                            payload.data() + rows.offset + row * rows.unit,
                            rows.unit);
        continue;
      }
      const int64_t begin = Load<int64_t>(payload, rows.offset + row * 8);
      const int64_t end = Load<int64_t>(payload, rows.offset + row * 8 + 8);
      const uint64_t count = static_cast<uint64_t>(end - begin);
      XXH3_128bits_update(state.get(), &count, 8);
      XXH3_128bits_update(state.get(),
                          payload.data() + rows.values +
                              static_cast<uint64_t>(begin) * rows.unit,
                          count * rows.unit);
    }
    content_digest_ += Number(XXH3_128bits_digest(state.get()));
  }
  return absl::OkStatus();
}

uint64_t EpochAudit::distinct() const {
  uint64_t sum = 0;
  for (const Source& source : sources_) sum += source.indices.size();
  return sum;
}

uint64_t EpochAudit::named(int source) const {
  if (empty_rows(source) == 0) return distinct(source);
  IndexSet all = sources_[source].indices;
  all.Merge(sources_[source].empty);
  return all.size();
}

uint64_t EpochAudit::CountNamedIn(const EpochAudit& other) const {
  uint64_t count = 0;
  for (int i = 0; i < std::min(sources(), other.sources()); ++i) {
    IndexSet named = other.sources_[i].indices;
    named.Merge(other.sources_[i].empty);
    count += sources_[i].indices.Common(named);
  }
  return count;
}

void EpochAudit::Merge(const EpochAudit& other) {
  samples_ += other.samples_;
  if (sources_.size() < other.sources_.size()) {
    sources_.resize(other.sources_.size());
  }
  for (size_t i = 0; i < other.sources_.size(); ++i) {
    sources_[i].samples += other.sources_[i].samples;
    sources_[i].indices.Merge(other.sources_[i].indices);
    sources_[i].empty_rows += other.sources_[i].empty_rows;
    sources_[i].empty.Merge(other.sources_[i].empty);
  }
  order_digest_ += other.order_digest_;
  content_digest_ += other.content_digest_;
}

bool HasSchedule(const OpenResponse& plan) {
  return plan.sources_size() > 0 && plan.sources(0).slots() > 0;
}

EpochVerdict JudgeEpoch(const EpochAudit& audit, const OpenResponse& plan,
                        uint64_t epoch, const EpochAudit* dropped) {
  EpochVerdict verdict;
  const auto lack = [](uint64_t wanted, uint64_t came) {
    return wanted > came ? wanted - came : 0;
  };
  const auto policy = plan.resolved_spec().bad_samples().action();
  const bool zero = policy == BadSamplePolicy::ZERO;
  // Rows and distinct samples that count as samples of the plan.
  const auto rows_of = [&](int source) {
    return audit.samples(source) + (zero ? audit.empty_rows(source) : 0);
  };
  const auto distinct_of = [&](int source) {
    return zero ? audit.named(source) : audit.distinct(source);
  };
  // SUBSTITUTE explains the differences when the number of rows is right.
  const auto add = [&](uint64_t due, uint64_t rows, uint64_t missing,
                       uint64_t duplicates) {
    if (policy == BadSamplePolicy::SUBSTITUTE && rows == due) {
      verdict.replaced += std::max(missing, duplicates);
      return;
    }
    verdict.missing += missing;
    verdict.duplicates += duplicates;
  };
  if (zero) {
    for (int i = 0; i < audit.sources(); ++i) {
      verdict.empty_rows += audit.empty_rows(i);
    }
  }
  // With a schedule, a sample of a later epoch may have taken the place.
  verdict.replaced_is_min =
      HasSchedule(plan) || (plan.dropped_per_epoch() > 0 && dropped == nullptr);
  if (!HasSchedule(plan)) {
    uint64_t rows = 0;
    uint64_t distinct = 0;
    for (int i = 0; i < audit.sources(); ++i) {
      rows += rows_of(i);
      distinct += distinct_of(i);
    }
    const uint64_t due = plan.samples_per_epoch() - plan.dropped_per_epoch();
    const uint64_t not_due =
        dropped == nullptr ? 0 : audit.CountNamedIn(*dropped);
    add(due, rows, lack(due, distinct - not_due), rows - distinct);
    return verdict;
  }
  for (int i = 0; i < plan.sources_size(); ++i) {
    const uint64_t n = plan.sources(i).samples();
    const uint64_t rows = plan.sources(i).samples_per_epoch();
    const uint64_t samples = rows_of(i);
    const uint64_t distinct = distinct_of(i);
    uint64_t missing = lack(rows, samples);
    uint64_t duplicates = lack(samples, rows);
    if (n > 0) {
      // `head`: rows of the pass in which the epoch begins. `tail`: rows of the
      // last pass, after whole passes.
      const auto start = static_cast<uint64_t>(absl::uint128(epoch) * rows % n);
      const uint64_t head = std::min(rows, n - start);
      const uint64_t tail = (rows - head) % n;
      const bool whole = rows - head >= n || head == n;
      missing =
          std::max(missing, lack(whole ? n : std::max(head, tail), distinct));
      if (head == rows) duplicates = std::max(duplicates, samples - distinct);
    }
    add(rows, samples, missing, duplicates);
  }
  return verdict;
}

std::string DigestText(absl::uint128 digest) {
  return absl::StrFormat("%016x%016x", absl::Uint128High64(digest),
                         absl::Uint128Low64(digest));
}

}  // namespace millrace::cli
