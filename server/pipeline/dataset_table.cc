#include "server/pipeline/dataset_table.h"

#include <utility>

#include "server/pipeline/added_source.h"

namespace millrace::pipeline {

std::string DatasetTable::Snapshot::KeyOf(const PipelineSpec& spec) const {
  std::string key = spec.SerializeAsString();
  if (numbers_.empty()) return key;
  bool added = false;
  for (const Source& source : spec.sources()) {
    const auto it = numbers_.find(source.dataset());
    if (it == numbers_.end()) continue;
    // A field number is never 0, so no spec's bytes go on with this.
    if (!std::exchange(added, true)) key.push_back('\0');
    key.append(reinterpret_cast<const char*>(&it->second), sizeof(it->second));
  }
  return key;
}

DatasetTable::DatasetTable(const DatasetCatalog& catalog) {
  auto first = std::make_shared<Snapshot>();
  first->catalog_ = catalog;
  for (const auto& [name, source] : catalog) {
    DatasetInfo& info = first_infos_[name];
    info = source->info();
    info.set_name(name);
    first->infos_[name] = &info;
  }
  MutexLock lock(mu_);
  now_ = std::move(first);
}

// A snapshot never changes once it is published, so its readers need no lock
// and see one state of all datasets, however long they keep it.
std::shared_ptr<const DatasetTable::Snapshot> DatasetTable::Now() const {
  MutexLock lock(mu_);
  return now_;
}

void DatasetTable::Set(const std::string& name,
                       std::shared_ptr<const storage::RecordSource> source) {
  auto added = std::make_shared<AddedSource>(name, std::move(source));
  // Declared before the lock: the old snapshot may be the last holder of a
  // source, which closes files.
  std::shared_ptr<const Snapshot> before;
  MutexLock lock(mu_);
  auto next = std::make_shared<Snapshot>(*now_);
  next->infos_[name] = &added->named_info();
  next->catalog_[name] = std::move(added);
  // Never used again: a dataset that is replaced under its name is another key
  // for the cache of pipelines.
  next->numbers_[name] = ++added_;
  before = std::exchange(now_, std::move(next));
}

bool DatasetTable::Remove(const std::string& name) {
  std::shared_ptr<const Snapshot> before;  // as in Set()
  MutexLock lock(mu_);
  if (!now_->numbers_.contains(name)) return false;
  auto next = std::make_shared<Snapshot>(*now_);
  next->infos_.erase(name);
  next->catalog_.erase(name);
  next->numbers_.erase(name);
  before = std::exchange(now_, std::move(next));
  return true;
}

}  // namespace millrace::pipeline
