// JudgeWait says why a consumer of a DataLoader waited between two looks at its
// stats(), as values: the cause, the share of the time, and the line that
// WhereTheTimeWent() gives. client/prefetch/verdict.h has the rules.
//
// Pure function, safe from any thread.
//
//   const Verdict verdict = JudgeWait(before, loader->stats(), seconds);
//   if (verdict.cause == WaitCause::kDecoding) ...

#ifndef MILLRACE_CLIENT_WAIT_VERDICT_H_
#define MILLRACE_CLIENT_WAIT_VERDICT_H_

#include "client/loader.h"
#include "client/prefetch/verdict.h"

namespace millrace {

Verdict JudgeWait(const DataLoader::Stats& before,
                  const DataLoader::Stats& after, double elapsed_seconds);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_WAIT_VERDICT_H_
