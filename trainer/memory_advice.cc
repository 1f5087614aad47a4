#include "trainer/memory_advice.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace::trainer {
namespace {

constexpr double kUsable = 0.9;

std::string Size(double bytes) {
  return bytes >= 1 << 30 ? absl::StrFormat("%.1f GiB", bytes / (1 << 30))
                          : absl::StrFormat("%.1f MiB", bytes / (1 << 20));
}

// 0: unknown.
double BytesPerRow(const StepMemory& memory) {
  if (memory.rows == 0 || memory.peak <= memory.outside) return 0;
  return static_cast<double>(memory.peak - memory.outside) /
         static_cast<double>(memory.rows);
}

// People choose powers of two and small multiples of them: 96, not 103.
uint64_t RoundDown(uint64_t rows) {
  uint64_t unit = 1;
  while (unit * 8 <= rows) unit *= 2;
  return rows / unit * unit;
}

}  // namespace

uint64_t RowsThatFit(const StepMemory& memory) {
  const double each = BytesPerRow(memory);
  const double room = kUsable * static_cast<double>(memory.available) -
                      static_cast<double>(memory.outside);
  if (each <= 0 || room <= 0 || memory.rows < 2) return 0;
  const double fit = std::floor(room / each);
  // The step did not fit, whatever the line says: an unfinished step needs
  // more.
  const uint64_t below = memory.ran_before
                             ? memory.rows - 1
                             : std::max<uint64_t>(1, memory.rows / 2);
  const uint64_t rows =
      fit < static_cast<double>(below) ? static_cast<uint64_t>(fit) : below;
  return rows == 0 ? 0 : RoundDown(rows);
}

std::string MemoryAdvice(const StepMemory& memory) {
  const double each = BytesPerRow(memory);
  if (each <= 0) {
    return absl::StrCat("try a --batch_size below ",
                        memory.rows * memory.world_size);
  }
  std::string text = absl::StrFormat(
      "a row of the batch takes %s%s; %s of %s are used without any row",
      memory.ran_before ? "about " : "at least ", Size(each),
      Size(static_cast<double>(memory.outside)),
      Size(static_cast<double>(memory.available)));
  const uint64_t rows = RowsThatFit(memory);
  if (rows == 0) {
    return absl::StrCat(text,
                        ": not a single row fits; choose a smaller model or "
                        "smaller samples, or free the device");
  }
  absl::StrAppendFormat(
      &text, ": %s %d of %d rows per rank would fit; try --batch_size=%d",
      memory.ran_before ? "about" : "at most", rows, memory.rows,
      rows * memory.world_size);
  if (memory.world_size > 1) {
    absl::StrAppend(&text, " (", memory.world_size, " ranks)");
  }
  return text;
}

}  // namespace millrace::trainer
