// docs/transforms.md says all of it: every transform of the spec with every
// parameter, every preset, and pipelines that a server takes as they stand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/spec_text.h"
#include "server/plan/presets.h"
#include "server/plan/resolve.h"
#include "server/plan/spec_file.h"
#include "server/plan/transforms/transforms.h"
#include "tests/server/plan/list_outputs.h"

namespace millrace::plan {
namespace {

using ::testing::HasSubstr;

constexpr uintmax_t kMaxPictureBytes = 80'000;

std::string ReadPage() {
  std::ifstream file("docs/transforms.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

// The text below each "### `name`", up to the next heading.
std::map<std::string, std::string> Sections(const std::string& page) {
  std::map<std::string, std::string> sections;
  std::string* section = nullptr;
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    if (absl::StartsWith(line, "### `")) {
      const absl::string_view rest = line.substr(5);
      section = &sections[std::string(rest.substr(0, rest.find('`')))];
    } else if (absl::StartsWith(line, "#")) {
      section = nullptr;
    } else if (section != nullptr) {
      absl::StrAppend(section, line, "\n");
    }
  }
  return sections;
}

std::vector<std::string> Pipelines(const std::string& text) {
  std::vector<std::string> blocks;
  const std::string open = "```textproto\n";
  size_t at = 0;
  while ((at = text.find(open, at)) != text.npos) {
    at += open.size();
    blocks.push_back(text.substr(at, text.find("```", at) - at));
  }
  return blocks;
}

// The dataset of charts that the pictures are made of.
DatasetInfo Charts() {
  DatasetInfo info;
  info.set_name("charts");
  info.set_samples(100);
  for (const char* name : {"image", "mask"}) {
    Field& field = *info.mutable_schema()->add_fields();
    field.set_name(name);
    field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  }
  Field& boxes = *info.mutable_schema()->add_fields();
  boxes.set_name("boxes");
  boxes.set_kind(FIELD_KIND_TENSOR);
  boxes.set_dtype(DTYPE_FLOAT32);
  boxes.add_shape(4);
  boxes.add_shape(4);
  Field& label = *info.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(3);
  return info;
}

absl::Status Resolve(const std::string& pipeline) {
  auto spec = ParseSpecText(
      absl::StrCat("sources { dataset: 'charts' } batch_size: 4\n", pipeline),
      "docs/transforms.md");
  if (!spec.ok()) return spec.status();
  const DatasetInfo info = Charts();
  ListOutputs(info, *spec);
  return ResolveSpec(*spec, {{"charts", &info}}).status();
}

TEST(TransformsPage, HasEveryTransformWithEveryParameter) {
  const auto sections = Sections(ReadPage());
  const auto* kinds = Transform::descriptor()->oneof_decl(0);
  ASSERT_GT(kinds->field_count(), 20);
  for (int i = 0; i < kinds->field_count(); ++i) {
    const auto* kind = kinds->field(i);
    const auto section = sections.find(kind->name());
    ASSERT_NE(section, sections.end()) << kind->name();
    for (int k = 0; k < kind->message_type()->field_count(); ++k) {
      const std::string& name = kind->message_type()->field(k)->name();
      if (name == "fields") continue;  // said once for all
      EXPECT_THAT(section->second, HasSubstr(absl::StrCat("`", name, "`")))
          << kind->name();
    }
    // The pipeline below shows this transform.
    const auto pipelines = Pipelines(section->second);
    ASSERT_EQ(pipelines.size(), 1u) << kind->name();
    EXPECT_THAT(pipelines[0], HasSubstr(kind->name() + " {"));
  }
  EXPECT_EQ(static_cast<int>(sections.size()), kinds->field_count());
}

TEST(TransformsPage, EveryPipelineIsTakenAsItStands) {
  const auto pipelines = Pipelines(ReadPage());
  EXPECT_GT(pipelines.size(), 20u);
  for (const std::string& pipeline : pipelines) {
    const absl::Status status = Resolve(pipeline);
    if (absl::StrContains(pipeline, "custom {")) {
      // Needs the library.
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    } else {
      EXPECT_TRUE(status.ok()) << pipeline << status;
    }
  }
}

// `millrace-data check` refused those with mix_up and cut_mix, for want of a
// batch size, which is a flag of programs.
TEST(TransformsPage, EveryPipelineIsCheckedWithoutAMistake) {
  for (const std::string& pipeline : Pipelines(ReadPage())) {
    for (const SpecMistake& mistake : CheckSpecText(pipeline)) {
      ADD_FAILURE() << pipeline << mistake.line << ": " << mistake.message;
    }
  }
}

constexpr char kTableHead[] = "| parameter | default | range | ";

// The first and the last cell of a row: "`p`" and " – |".
std::pair<std::string, std::string> EndsOf(absl::string_view row) {
  const size_t end = row.find(" | ");
  const size_t last = row.rfind('|', row.size() - 2);
  return {std::string(row.substr(2, end - 2)),
          std::string(row.substr(last + 1))};
}

// A row of a kind's table. `rows`: the rows of the page, whose last column is
// the page's own; a new parameter has a dash there.
std::string Row(const Parameter& parameter,
                const std::map<std::string, std::string>& rows) {
  const std::string name =
      absl::StrCat("`", absl::StrJoin(parameter.fields, "`, `"), "`");
  const auto row = rows.find(name);
  return absl::StrCat("| ", name, " | ", parameter.left_out, " | ",
                      parameter.range.empty() ? "–" : parameter.range, " |",
                      row == rows.end() ? " – |" : row->second);
}

const TransformKind* KindNamed(absl::string_view name) {
  const auto* field =
      Transform::descriptor()->FindFieldByName(std::string(name));
  if (field == nullptr) return nullptr;
  Transform transform;
  transform.GetReflection()->MutableMessage(&transform, field);
  return KindOf(transform);
}

// The page with the tables as the transforms describe themselves: the first
// table below the heading of each, which has the first three columns of
// kTableHead. `tables` is the number of tables.
std::string WithTables(const std::string& page, int* tables) {
  const std::vector<std::string> lines = absl::StrSplit(page, '\n');
  std::vector<std::string> written;
  const TransformKind* kind = nullptr;  // whose table is still to come
  *tables = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    written.push_back(lines[i]);
    if (absl::StartsWith(lines[i], "#")) {
      kind = nullptr;
      if (absl::StartsWith(lines[i], "### `")) {
        kind = KindNamed(lines[i].substr(5, lines[i].find('`', 5) - 5));
      }
    }
    if (kind == nullptr || !absl::StartsWith(lines[i], kTableHead)) continue;
    written.push_back(lines[++i]);  // |---|---|
    std::map<std::string, std::string> rows;
    for (; absl::StartsWith(lines[i + 1], "|"); ++i) {
      rows.insert(EndsOf(lines[i + 1]));
    }
    for (const Parameter& parameter : kind->parameters()) {
      written.push_back(Row(parameter, rows));
    }
    ++*tables;
    kind = nullptr;
  }
  return absl::StrJoin(written, "\n");
}

// Defaults and bounds on the page are those that the server has. The test
// writes them into the file that MILLRACE_UPDATE_PAGE names.
TEST(TransformsPage, TablesAreThoseOfTheCode) {
  const std::string page = ReadPage();
  int tables = 0;
  const std::string wanted = WithTables(page, &tables);
  int described = 0;  // kinds that have parameters
  const auto* kinds = Transform::descriptor()->oneof_decl(0);
  for (int i = 0; i < kinds->field_count(); ++i) {
    described += !KindNamed(kinds->field(i)->name())->parameters().empty();
  }
  EXPECT_EQ(tables, described)
      << "each section has a table that begins with " << kTableHead;
  if (const char* file = std::getenv("MILLRACE_UPDATE_PAGE")) {
    std::ofstream(file, std::ios::binary) << wanted;
    return;
  }
  EXPECT_EQ(page, wanted)
      << "The tables of docs/transforms.md differ from the transforms. This "
         "command rewrites them:\n"
         "  MILLRACE_UPDATE_PAGE=\"$PWD/docs/transforms.md\" bazel run "
         "//tests/server/plan:transforms_page_test";
}

// A changed bound, a new parameter and one that has gone; nothing else.
TEST(TransformsPage, TablesAreWrittenWithoutTheirLastColumn) {
  const std::string page =
      "# Title\n| parameter | default | range | x |\n|---|---|---|---|\n"
      "| `p` | 9 | 9 | no table of a transform |\n\n"
      "### `grayscale`\n\nText.\n\n"
      "| parameter | default | range | torchvision |\n|---|---|---|---|\n"
      "| `gone` | 1 | 2 | `old` |\n"
      "| `p` | 7 | 8 .. 9 | `p`: [link](x.md) |\n"
      "\n| parameter | default | range | second |\n|---|---|---|---|\n"
      "| `p` | 7 | 8 | stays |\n";
  int tables = 0;
  std::string want = page;
  want.replace(want.find("| `gone`"), sizeof("| `gone` | 1 | 2 | `old` |"), "");
  want.replace(want.find("| 7 | 8 .. 9 |"), sizeof("| 7 | 8 .. 9 |") - 1,
               "| 1 | 0 .. 1 |");
  EXPECT_EQ(WithTables(page, &tables), want);
  EXPECT_EQ(tables, 1);
  want.replace(want.find("| `p` | 1 |"),
               sizeof("| `p` | 1 | 0 .. 1 | `p`: ["
                      "link](x.md) |"),
               "");
  EXPECT_THAT(WithTables(want, &tables),
              HasSubstr("|---|---|---|---|\n| `p` | 1 | 0 .. 1 | – |\n"));
}

// Whether the transform takes one bound of the pair `name`, say 0.3, without
// the other one.
bool TakesOneBound(const google::protobuf::FieldDescriptor* kind,
                   const std::string& name) {
  for (const auto& [bound, value] :
       {std::pair("_min", 0.3), std::pair("_min", -0.3),
        std::pair("_max", 0.3)}) {
    Transform transform;
    const auto* reflection = transform.GetReflection();
    google::protobuf::Message* message =
        reflection->MutableMessage(&transform, kind);
    const auto* fields = message->GetDescriptor();
    for (const char* required : {"height", "width", "kernel_size"}) {
      const auto* field = fields->FindFieldByName(required);
      if (field == nullptr) continue;
      message->GetReflection()->SetUInt32(message, field, 5);
    }
    message->GetReflection()->SetDouble(
        message, fields->FindFieldByName(name + bound), value);
    if (FindTransformProblems(transform).empty()) return true;
  }
  return false;
}

// The page had two independent parameters, each with its default.
TEST(TransformsPage, SaysOfEveryRangeWhetherOneBoundMayBeLeftOut) {
  const auto sections = Sections(ReadPage());
  const auto* kinds = Transform::descriptor()->oneof_decl(0);
  int ranges = 0;
  for (int i = 0; i < kinds->field_count(); ++i) {
    const auto* kind = kinds->field(i);
    for (int k = 0; k < kind->message_type()->field_count(); ++k) {
      std::string name = kind->message_type()->field(k)->name();
      if (!absl::EndsWith(name, "_min")) continue;
      name.resize(name.size() - 4);
      ++ranges;
      const std::string row =
          absl::StrCat("| `", name, "_min`, `", name, "_max` |");
      const std::string& section = sections.at(kind->name());
      const size_t at = section.find(row);
      ASSERT_NE(at, section.npos) << kind->name() << " " << name;
      EXPECT_THAT(section.substr(at, section.find('\n', at) - at),
                  HasSubstr(TakesOneBound(kind, name) ? "a bound left out is 0"
                                                      : "both or neither"))
          << kind->name();
    }
  }
  EXPECT_GE(ranges, 14);
}

TEST(TransformsPage, HasEveryPresetOnceAndNoOther) {
  const std::string page = ReadPage();
  std::multiset<std::string> listed;
  const std::regex row("\n\\| `(\\w+)` \\| [^|]*\\|[^|]*\\|[^|]*\\|");
  const size_t begin = page.find("\n## Presets");
  const std::string table =
      page.substr(begin, page.find("\n## ", begin + 1) - begin);
  for (std::sregex_iterator it(table.begin(), table.end(), row), end; it != end;
       ++it) {
    listed.insert((*it)[1]);
  }
  const auto names = PresetNames();
  EXPECT_EQ(listed, std::multiset<std::string>(names.begin(), names.end()));
}

TEST(TransformsPage, EveryPictureIsThereAndSmall) {
  const std::string page = ReadPage();
  std::set<std::string> shown;
  const std::regex picture("\\]\\(pictures/(\\w+\\.png)\\)");
  for (std::sregex_iterator it(page.begin(), page.end(), picture), end;
       it != end; ++it) {
    shown.insert((*it)[1]);
  }
  // All but custom, normalize and to_dtype, which show nothing, and one of
  // masks.
  EXPECT_EQ(static_cast<int>(shown.size()),
            Transform::descriptor()->oneof_decl(0)->field_count() - 3 + 1);
  std::set<std::string> there;
  for (const auto& entry :
       std::filesystem::directory_iterator("docs/pictures")) {
    if (entry.path().extension() != ".png") continue;
    there.insert(entry.path().filename());
    EXPECT_LE(std::filesystem::file_size(entry.path()), kMaxPictureBytes)
        << entry.path();
  }
  EXPECT_EQ(shown, there);
}

}  // namespace
}  // namespace millrace::plan
