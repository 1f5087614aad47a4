// BudgetAdvice computes the memory budget that a refusal names: the smallest
// budget with which the server starts, a row of each dataset's presets fits,
// and the batches of the added pipelines fit.
//
// The memory of a batch depends on the budget itself: a larger budget may have
// room for more threads, and each thread needs memory for the samples of a
// batch. Therefore each candidate is tried on an engine of its own, and the
// named budget has been tested.
//
// Not thread-safe. Owns no thread between calls; Sentence() makes engines and
// may take seconds.
//
//   BudgetAdvice advice(settings, options, catalog, needs);
//   return absl::InvalidArgumentError("...: " + advice.Sentence(bytes));

#ifndef MILLRACE_SERVER_BUDGET_ADVICE_H_
#define MILLRACE_SERVER_BUDGET_ADVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/config.h"
#include "server/pipeline/engine.h"
#include "server/pipeline/memory_use.h"

namespace millrace::server {

// Of the training and the evaluation preset of each dataset: the spec of a
// batch of `rows`, also where there are fewer samples. A dataset without
// presets has one spec with an empty preset.
std::vector<PipelineSpec> PresetSpecs(const pipeline::DatasetCatalog& catalog,
                                      uint64_t rows);

// A sufficient budget for datasets whose footers take `bytes`, whatever the
// datasets contain: an upper bound of the smallest one, for datasets that
// cannot be opened. 0: there is none.
uint64_t BudgetForFooters(const ServerSettings& settings,
                          const pipeline::Engine::Options& options,
                          uint64_t bytes);

class BudgetAdvice {
 public:
  // The server's own, which must outlive this. The budget of `options` is not
  // used.
  BudgetAdvice(const ServerSettings& settings,
               const pipeline::Engine::Options& options,
               const pipeline::DatasetCatalog& catalog,
               const pipeline::MemoryNeeds& needs)
      : settings_(settings),
        options_(options),
        catalog_(catalog),
        needs_(needs) {}

  // Batches of `spec` must fit, too.
  void Add(const PipelineSpec& spec) { specs_.push_back(spec); }

  // Whether a spec that was added reads `dataset`: that spec then says which
  // columns of the dataset must fit.
  bool Reads(const std::string& dataset) const;

  // "the smallest sufficient value is --memory_budget=512MiB": leaves at least
  // `wanted` bytes for batches; those of `spec` fit, unless it is null.
  std::string Sentence(uint64_t wanted,
                       const PipelineSpec* spec = nullptr) const;

 private:
  bool Works(uint64_t budget, const PipelineSpec* spec) const;
  // Whether a batch of one row of the preset fits. If an added spec reads the
  // dataset, the dataset's columns need not fit together.
  bool PresetWorks(pipeline::Engine& engine, const PipelineSpec& preset) const;

  const ServerSettings& settings_;
  const pipeline::Engine::Options& options_;
  const pipeline::DatasetCatalog& catalog_;
  const pipeline::MemoryNeeds needs_;
  std::vector<PipelineSpec> specs_;
};

}  // namespace millrace::server

#endif  // MILLRACE_SERVER_BUDGET_ADVICE_H_
