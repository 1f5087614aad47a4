// Fuzz target of tables of paths: whatever the text is, parsing ends, every row
// has a path, a line of the file in rising order, and a value of the right size
// for each label and the boxes; class indices are those of the names.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/logging.h"
#include "server/storage/csv/path_table.h"
#include "server/storage/sample_check.h"
#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

// The first byte of the input chooses the options.
storage::FormatOptions OptionsOf(uint8_t choice) {
  storage::FormatOptions options;
  if ((choice & 1) != 0) options["header"] = "no";
  if ((choice & 2) != 0) {
    options["path"] = (choice & 1) != 0 ? "1" : "file";
    options["label"] = (choice & 1) != 0 ? "2,3" : "age,sex";
  }
  if ((choice & 4) != 0) options["separator"] = "tab";
  if ((choice & 8) != 0) options["boxes"] = (choice & 1) != 0 ? "3" : "boxes";
  if ((choice & 16) != 0) {
    options["boxes"] = (choice & 1) != 0 ? "4,5,6,7" : "x,y,r,b";
  }
  if ((choice & 32) != 0) options["label"] = "";
  return options;
}

bool Run(const uint8_t* data, size_t size) {
  if (size == 0) return false;
  const std::string file = "/data/labels.csv";
  const auto options = storage::ParseCsvOptions(file, OptionsOf(data[0]));
  MR_CHECK(options.ok());
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1,
                               size - 1);
  const auto table = storage::PathTable::Parse(text, file, *options);
  if (!table.ok()) {
    MR_CHECK(absl::StartsWith(table.status().message(), file));
    return false;
  }
  const Schema& schema = table->schema();
  const auto check = storage::SampleCheck::Create(schema);
  MR_CHECK(check.ok()) << check.status().message();
  MR_CHECK(table->rows() >= 1);
  int64_t before = 0;
  for (int64_t row = 0; row < table->rows(); ++row) {
    MR_CHECK(!table->path(row).empty());
    MR_CHECK(table->line(row) > before);
    before = table->line(row);
    std::vector<absl::Span<const uint8_t>> fields = {{data, 1}};
    for (int i = 0; i + 1 < schema.fields_size(); ++i) {
      fields.push_back(table->value(i + 1, row));
    }
    MR_CHECK(check->Check(fields).ok());
  }
  MR_CHECK(before <= std::count(text.begin(), text.end(), '\n') + 1);
  return true;
}

std::vector<std::string> Seeds() {
  using std::string_literals::operator""s;
  return {
      "\0file,class\na.jpg,dog\r\n\"b,\"\"c\"\".jpg\",cat\n"s,
      "\1a.jpg,1\nb.jpg,2.5\n"s,
      "\2file,age,sex\na.jpg,31,f\nb.jpg,5,m\n"s,
      "\3a.jpg,1,x\n\nb.jpg,2,y"s,
      "\4f\tl\na b.jpg\t-1\n"s,
      "\10file,boxes,l\na.jpg,\"[[1, 2.5, 3, 4]]\",1\nb.jpg,[],2\n"s,
      "\50f,boxes\na.jpg,1 2 3 4 5 6 7 8\nb.jpg,(1;2;3;4)\n"s,
      "\23a.jpg,1,x,1,2,3,4\nb.jpg,2,y,5,6,7,8.5\n"s,
  };
}

std::vector<std::string> Words() {
  return {"file", "age", "sex", "jpg", ",", "1", "0.5", "boxes", "[["};
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds, .words = Words};
  return target;
}

}  // namespace millrace
