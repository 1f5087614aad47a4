// OpeningAdvice names the memory budget for a server of which an image folder,
// or a dataset of records in files, cannot be opened, because its list or its
// largest record does not fit: the smallest budget with which all datasets of
// the server can be opened and served.
//
// The other datasets that are not open yet are opened for it, one after the
// other, each with a budget of its own.
//
// Not thread-safe. Owns no thread between calls.
//
//   OpeningAdvice advice(settings, options, sources);
//   options.metadata_advice = [&](uint64_t bytes, const DatasetInfo* known) {
//     return advice.Sentence(opened, "photos", bytes, known);
//   };

#ifndef MILLRACE_SERVER_OPENING_ADVICE_H_
#define MILLRACE_SERVER_OPENING_ADVICE_H_

#include <cstdint>
#include <string>

#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/config.h"
#include "server/pipeline/engine.h"
#include "server/storage/open_options.h"

namespace millrace::server {

class OpeningAdvice {
 public:
  // The server's own, which must outlive this. `sources`: how it opens
  // datasets.
  OpeningAdvice(const ServerSettings& settings,
                const pipeline::Engine::Options& options,
                const storage::OpenSourceOptions& sources)
      : settings_(settings), options_(options), sources_(sources) {}

  // "the smallest sufficient value is --memory_budget=512MiB", when the dataset
  // `refused` needs `bytes` for its list and its largest file. `opened`: the
  // datasets that are open. `known`: the description of the dataset that is
  // refused; null: it has images of classes.
  std::string Sentence(const pipeline::DatasetCatalog& opened,
                       const std::string& refused, uint64_t bytes,
                       const DatasetInfo* known) const;

 private:
  const ServerSettings& settings_;
  const pipeline::Engine::Options& options_;
  const storage::OpenSourceOptions& sources_;
};

}  // namespace millrace::server

#endif  // MILLRACE_SERVER_OPENING_ADVICE_H_
