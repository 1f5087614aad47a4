// A position in the data for people, counted from 1.

#ifndef MILLRACE_TRAINER_POSITION_TEXT_H_
#define MILLRACE_TRAINER_POSITION_TEXT_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "client/prefetch/host_loader.h"

namespace millrace::trainer {

// "epoch 1, step 120"
inline std::string At(const Position& position) {
  return absl::StrCat("epoch ", position.epoch + 1, ", step ",
                      position.step + 1);
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_POSITION_TEXT_H_
