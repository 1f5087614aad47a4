#include "server/operators/operator_ref.h"

#include "absl/strings/str_cat.h"

namespace millrace::operators {

std::string FormatOperator(const OperatorRef& ref) {
  return absl::StrCat(ref.name(), " ", ref.version(), " of the library ",
                      ref.library_hash());
}

absl::Status CheckSameOperator(absl::string_view kind, const OperatorRef& asked,
                               const OperatorRef& have) {
  const bool version =
      asked.version().empty() || asked.version() == have.version();
  const bool library = asked.library_hash().empty() ||
                       asked.library_hash() == have.library_hash();
  if (version && library) return absl::OkStatus();
  if (!version) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the ", kind, " ", have.name(), " differs: the pipeline names version ",
        asked.version(), ", this server has version ", have.version(),
        ": load the same library on every server (--operators), or remove the "
        "version"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the ", kind, " ", have.name(), " differs: the job runs with version ",
      have.version(), " of the library file ", asked.library_hash(),
      ", this server has loaded ", have.library_hash(),
      " (XXH3-128 of the files): copy one file to every server, or start a new "
      "job"));
}

}  // namespace millrace::operators
