#include "client/audit/audit_check.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/status_macros.h"

namespace millrace::audit {
namespace {

// Max number of steps between the ends of ranks that train in lockstep and are
// killed.
constexpr uint64_t kEndsApart = 2;
constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();

// Steps [from, to), counted from epoch 0, and the place of their records.
struct Piece {
  uint64_t from = 0;
  uint64_t to = 0;
  const AuditSegment* segment = nullptr;
  uint64_t first = 0;  // record of `from`
};

struct RankLog {
  std::vector<Piece> pieces;  // in ascending order
  uint64_t end() const { return pieces.empty() ? 0 : pieces.back().to; }
};

struct Attempt {
  uint32_t world = 0;
  std::map<uint32_t, RankLog> ranks;
};

absl::Status TwoJobs(const AuditSegment& first, const AuditSegment& other) {
  const auto plan = [](const AuditSegment& segment) {
    return absl::StrCat("plan ",
                        absl::BytesToHexString(segment.run.plan_hash()),
                        " over content ", segment.run.fingerprint());
  };
  if (first.file == other.file) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the audit log ", first.file, " has steps of two jobs: ", plan(first),
        " and ", plan(other),
        ". An earlier version let a second job append to the log, which now "
        "proves neither job; give every job a folder of its own"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the logs are of different jobs: ", first.file, " has ", plan(first),
      ", ", other.file, " has ", plan(other), "; give the logs of one job"));
}

class Checker {
 public:
  explicit Checker(absl::Span<const AuditFile> files) : files_(files) {}

  absl::StatusOr<AuditResult> Run() {
    MR_RETURN_IF_ERROR(Gather());
    Clip();
    MR_RETURN_IF_ERROR(AddUp());
    Judge();
    const uint64_t end = covered_.empty() ? begin_ : covered_.front().second;
    result_.begin = {begin_ / steps_, begin_ % steps_};
    result_.end = {end / steps_, end % steps_};
    return std::move(result_);
  }

 private:
  std::string At(uint64_t step) const {
    return absl::StrCat("epoch ", step / steps_, " step ", step % steps_);
  }
  std::string Between(uint64_t from, uint64_t to) const {
    if (to - from == 1) return At(from);
    return absl::StrCat(At(from), " to ", At(to - 1));
  }

  absl::Status Gather();
  void AddPiece(RankLog& log, Piece piece, const std::string& who);
  // `rank` has a record of a start before `attempt`.
  bool WasLogged(uint32_t rank, uint64_t attempt) const;
  // Decides which pieces count, and finds lost steps.
  void Clip();
  absl::Status AddUp();
  void Judge();

  const absl::Span<const AuditFile> files_;
  AuditResult result_;
  uint64_t steps_ = 1;
  std::map<uint64_t, Attempt> attempts_;
  std::vector<Piece> counted_;
  uint64_t begin_ = 0;  // of the pieces that count
  // Steps that every rank received, in descending order.
  std::vector<std::pair<uint64_t, uint64_t>> covered_;
};

absl::Status Checker::Gather() {
  const AuditSegment* first = nullptr;
  for (const AuditFile& file : files_) {
    for (const AuditSegment& segment : file.segments) {
      if (segment.records == 0) continue;
      const AuditRun& run = segment.run;
      if (run.steps_per_epoch() == 0 || run.world_size() == 0 ||
          run.rank() >= run.world_size() ||
          run.step() >= run.steps_per_epoch() ||
          run.epoch() > (kEnd >> 1) / run.steps_per_epoch()) {
        return absl::InvalidArgumentError(absl::StrCat(
            segment.file,
            " has a position or a rank that does not exist: the file was "
            "damaged or edited"));
      }
      if (first == nullptr) {
        first = &segment;
        result_.run = run;
        steps_ = run.steps_per_epoch();
      }
      if (!IsSamePlan(run, first->run)) return TwoJobs(*first, segment);
      Attempt& attempt = attempts_[run.attempt()];
      if (attempt.world == 0) attempt.world = run.world_size();
      if (attempt.world != run.world_size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "start ", run.attempt(), " has logs of ",
            CountText(attempt.world, "rank"), " and of ",
            CountText(run.world_size(), "rank"), " (", segment.file,
            "); every start of a job needs its own number"));
      }
      const uint64_t from = run.epoch() * steps_ + run.step();
      AddPiece(attempt.ranks[run.rank()],
               {from, from + segment.records, &segment, 0},
               absl::StrCat("rank ", run.rank(), " of ", run.world_size()));
      result_.records += segment.records;
    }
    if (file.damaged_at.has_value() && !file.segments.empty()) {
      result_.damaged = true;
      result_.AddProblem(absl::StrCat(
          "damaged: ", DamageText(file.segments[0].file, *file.damaged_at)));
    } else if (file.skipped_bytes > 0) {
      result_.notes.push_back(absl::StrCat(
          file.segments.empty() ? "a log" : file.segments[0].file, " has ",
          CountText(file.skipped_bytes, "byte"),
          " outside the records: a write was cut short, as when a process is "
          "killed; its step is ignored"));
    }
  }
  if (first == nullptr) {
    for (const AuditFile& file : files_) {
      if (!file.damaged_at.has_value() || file.segments.empty()) continue;
      return absl::DataLossError(
          DamageText(file.segments[0].file, *file.damaged_at));
    }
    return absl::InvalidArgumentError("the logs contain no record");
  }
  result_.attempts = attempts_.size();
  return absl::OkStatus();
}

void Checker::AddPiece(RankLog& log, Piece piece, const std::string& who) {
  while (!log.pieces.empty() && log.pieces.back().to > piece.from) {
    Piece& last = log.pieces.back();
    if (last.segment->file != piece.segment->file) {
      result_.AddProblem(
          absl::StrCat("doubled: ", who, " received ",
                       Between(std::max(last.from, piece.from),
                               std::max(std::min(last.to, piece.to),
                                        std::max(last.from, piece.from) + 1)),
                       " in ", last.segment->file, " and in ",
                       piece.segment->file, ", both of the same start"));
    }
    // In one file, the loader went back: the later records count.
    const uint64_t keep = std::max(last.from, piece.from);
    result_.superseded += last.to - keep;
    last.to = keep;
    if (last.from == last.to) {
      log.pieces.pop_back();
    } else {
      break;
    }
  }
  log.pieces.push_back(piece);
}

bool Checker::WasLogged(uint32_t rank, uint64_t attempt) const {
  return std::any_of(
      attempts_.begin(), attempts_.lower_bound(attempt),
      [rank](const auto& entry) { return entry.second.ranks.count(rank) > 0; });
}

void Checker::Clip() {
  uint64_t bound = kEnd;  // the first step of the next start
  for (auto it = attempts_.rbegin(); it != attempts_.rend(); ++it) {
    Attempt& attempt = it->second;
    uint64_t start = kEnd;
    uint64_t longest = 0;
    uint64_t shortest = kEnd;
    for (const auto& [rank, log] : attempt.ranks) {
      start = std::min(start, log.pieces.front().from);
      longest = std::max(longest, log.end());
      shortest = std::min(shortest, log.end());
    }
    if (start >= bound) {
      for (const auto& [rank, log] : attempt.ranks) {
        for (const Piece& piece : log.pieces) {
          result_.superseded += piece.to - piece.from;
        }
      }
      continue;
    }
    uint64_t until = bound;
    if (bound == kEnd) {
      until = longest;
      bool logged = true;
      for (uint32_t rank = 0; rank < attempt.world; ++rank) {
        if (attempt.ranks.count(rank) > 0) continue;
        // Killed before its first step. If its log was left out, records of
        // earlier starts are missing, too.
        shortest = start;
        logged &= WasLogged(rank, it->first);
      }
      if (shortest != longest && longest - shortest <= kEndsApart && logged) {
        result_.notes.push_back(absl::StrCat(
            Between(shortest, longest),
            " reached only some of the ranks: the job ended there"));
        until = shortest;
      }
    }
    uint64_t whole = until;  // every rank received the steps before
    for (uint32_t rank = 0; rank < attempt.world; ++rank) {
      const auto found = attempt.ranks.find(rank);
      const std::string who =
          absl::StrCat("rank ", rank, " of ", attempt.world);
      if (found == attempt.ranks.end()) {
        if (until == start) continue;
        result_.AddProblem(absl::StrCat(
            "lost: ", who, " has no log of the start at ", At(start),
            ", so nothing proves that it received ", Between(start, until)));
        whole = start;
        continue;
      }
      uint64_t next = start;
      const auto lost = [&](uint64_t to) {
        result_.AddProblem(absl::StrCat("lost: ", who, " did not receive ",
                                        Between(next, to)));
        whole = std::min(whole, next);
      };
      for (Piece piece : found->second.pieces) {
        const uint64_t to = std::min(piece.to, until);
        // At the end of the last start nothing came again.
        if (bound != kEnd) {
          result_.superseded += piece.to - std::max(to, piece.from);
        }
        if (piece.from >= until) continue;
        if (piece.from > next) lost(piece.from);
        piece.to = to;
        counted_.push_back(piece);
        next = to;
      }
      if (next < until) lost(until);
    }
    if (whole > start) covered_.emplace_back(start, whole);
    bound = start;
  }
  begin_ = bound;
  if (bound > 0) {
    result_.notes.push_back(
        absl::StrCat("the logs begin at ", At(bound),
                     ": they do not contain earlier steps of the job"));
  }
}

absl::Status Checker::AddUp() {
  std::map<uint64_t, AuditEpoch> epochs;
  for (const Piece& piece : counted_) {
    const AuditSegment& segment = *piece.segment;
    const uint64_t segment_from =
        segment.run.epoch() * steps_ + segment.run.step();
    result_.parts.push_back({segment,
                             piece.from - segment_from,
                             piece.to - piece.from,
                             {piece.from / steps_, piece.from % steps_}});
    for (uint64_t from = piece.from; from < piece.to;) {
      const uint64_t to = std::min(piece.to, (from / steps_ + 1) * steps_);
      AuditEpoch& epoch = epochs[from / steps_];
      MR_RETURN_IF_ERROR(
          ReadAuditRecords(segment, from - segment_from, to - from,
                           [&epoch](const AuditRecord& record) {
                             epoch.samples += record.samples;
                             epoch.sample_sum += record.sample_sum;
                           }));
      from = to;
    }
  }
  for (auto& [number, epoch] : epochs) {
    epoch.epoch = number;
    for (const auto& [from, to] : covered_) {
      const uint64_t low = std::max(from, number * steps_);
      const uint64_t high = std::min(to, (number + 1) * steps_);
      if (low < high) epoch.steps += high - low;
    }
    result_.epochs.push_back(epoch);
  }
  return absl::OkStatus();
}

void Checker::Judge() {
  const AuditRun& run = result_.run;
  const uint64_t expected = run.samples_per_epoch() - run.dropped_per_epoch();
  const bool substitutes =
      run.resolved_spec().bad_samples().action() == BadSamplePolicy::SUBSTITUTE;
  std::optional<uint64_t> all;
  for (AuditEpoch& epoch : result_.epochs) {
    if (epoch.steps < steps_) continue;
    if (epoch.samples != expected) {
      epoch.proof = AuditEpoch::kWrong;
      result_.AddProblem(absl::StrCat("epoch ", epoch.epoch, " had ",
                                      CountText(epoch.samples, "sample"),
                                      " instead of ", expected));
      continue;
    }
    epoch.proof = AuditEpoch::kCounted;
    if (!HasKnownSamples(run) || run.dropped_per_epoch() > 0) continue;
    if (!all.has_value()) all = SumOfAllSamples(run.samples_per_epoch());
    if (epoch.sample_sum == *all) {
      epoch.proof = AuditEpoch::kProved;
    } else if (substitutes) {
      result_.notes.push_back(absl::StrCat(
          "epoch ", epoch.epoch,
          " did not have every sample: the policy SUBSTITUTE sends other "
          "samples instead of damaged ones"));
    } else {
      epoch.proof = AuditEpoch::kWrong;
      result_.AddProblem(absl::StrCat(
          "epoch ", epoch.epoch, " had ", expected,
          " samples, but not each sample once: the hash sum is not that of the "
          "dataset; give --endpoint to compare the steps"));
    }
  }
}

}  // namespace

void AuditResult::AddProblem(std::string problem) {
  if (problem_count++ < kMaxProblems) problems.push_back(std::move(problem));
}

bool HasKnownSamples(const AuditRun& run) {
  const PipelineSpec& spec = run.resolved_spec();
  return spec.sources_size() == 1 && !spec.sources(0).has_subset() &&
         spec.epoch_samples() == 0;
}

absl::StatusOr<AuditResult> CheckAuditLogs(absl::Span<const AuditFile> files) {
  return Checker(files).Run();
}

}  // namespace millrace::audit
