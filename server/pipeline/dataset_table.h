// DatasetTable holds the datasets of an engine by name. Its content may change
// while the engine runs; a call takes a Snapshot once and works on that.
//
// Thread-safe; snapshots are immutable and keep their sources open.
//
//   DatasetTable table(std::move(catalog));
//   const auto now = table.Now();
//   auto found = cache.Find(now->KeyOf(spec));

#ifndef MILLRACE_SERVER_PIPELINE_DATASET_TABLE_H_
#define MILLRACE_SERVER_PIPELINE_DATASET_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/mutex.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/pipeline/engine.h"
#include "server/plan/resolve.h"
#include "server/storage/record_source.h"

namespace millrace::pipeline {

class DatasetTable {
 public:
  class Snapshot {
   public:
    const DatasetCatalog& catalog() const { return catalog_; }
    // With the names of the datasets. Valid as long as their sources.
    const plan::DatasetInfos& infos() const { return infos_; }

    // Equal for two specs only if they are equal and name the same datasets,
    // not merely datasets of the same names: a key for what is built from a
    // spec. That of the bytes of the spec, if its datasets are as they were at
    // the start.
    std::string KeyOf(const PipelineSpec& spec) const;

   private:
    friend class DatasetTable;
    DatasetCatalog catalog_;
    plan::DatasetInfos infos_;
    // Of datasets that were added: each has its own number, from 1.
    std::map<std::string, uint64_t> numbers_;
  };

  // The datasets that are there at the start; they are never destroyed before
  // the table.
  explicit DatasetTable(const DatasetCatalog& catalog);

  std::shared_ptr<const Snapshot> Now() const;

  // Adds the dataset, or replaces the one of that name.
  void Set(const std::string& name,
           std::shared_ptr<const storage::RecordSource> source);
  // False: there is no dataset of that name, or it was there at the start.
  bool Remove(const std::string& name);

 private:
  // With names; of the datasets at the start.
  std::map<std::string, DatasetInfo> first_infos_;  // constant
  mutable Mutex mu_;
  uint64_t added_ MR_GUARDED_BY(mu_) = 0;
  std::shared_ptr<const Snapshot> now_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_DATASET_TABLE_H_
