#include "tests/testing/chart/chart.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/data_tool/png_encoder.h"
#include "server/storage/dataset_writer.h"

namespace millrace {
namespace {

constexpr int kFigures = 3;
constexpr int kBoxes = 4;

// A colour of the wheel, `turn` 0 .. 767, as bright as `level` of 255.
picture::Rgb Wheel(int turn, int level) {
  const int part = turn / 256;
  const int up = turn % 256;
  const int down = 255 - up;
  const int r = part == 0 ? down : part == 1 ? 0 : up;
  const int g = part == 0 ? up : part == 1 ? down : 0;
  const int b = part == 0 ? 0 : part == 1 ? up : down;
  const auto mix = [level](int c) {
    return static_cast<uint8_t>((c + 2 * 255) * level / (3 * 255));
  };
  return {mix(r), mix(g), mix(b)};
}

bool InFigure(int figure, int dx, int dy, int size) {
  switch (figure) {
    case 0:
      return dx * dx + dy * dy < size * size;
    case 1:
      return dy > -size && dy < size && 2 * std::abs(dx) < dy + size;
    default:
      return std::abs(dx) < size && std::abs(dy) < size;
  }
}

picture::Rgb FigureColor(int figure, int dx, int dy) {
  switch (figure) {
    case 0:
      return dx * dx + dy * dy < 40 ? picture::Rgb{250, 250, 250}
                                    : picture::Rgb{200, 40, 50};
    case 1:
      return {30, 90, 190};
    default:
      return (dx + 1000) / 5 % 2 == 0 ? picture::Rgb{20, 20, 20}
                                      : picture::Rgb{240, 220, 60};
  }
}

// An F of 5 x 7 dots.
bool InLetter(int x, int y) { return x == 0 || y == 0 || (y == 3 && x < 4); }

void AppendBytes(const void* data, size_t bytes, std::string& out) {
  out.append(static_cast<const char*>(data), bytes);
}

absl::Span<const uint8_t> AsBytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

Chart DrawChart(int variant) {
  Chart chart;
  chart.image = picture::RgbImage(kChartWidth, kChartHeight);
  chart.mask.assign(kChartWidth * kChartHeight, 0);
  chart.boxes.assign(kBoxes * 4, 0);
  for (int y = 0; y < kChartHeight; ++y) {
    for (int x = 0; x < kChartWidth; ++x) {
      chart.image.Set(x, y,
                      Wheel(x * 767 / (kChartWidth - 1),
                            255 - y * 130 / (kChartHeight - 1)));
    }
  }
  chart.label = variant % kFigures;
  for (int figure = 0; figure < kFigures; ++figure) {
    const int place = (figure + variant) % kFigures;
    const int center_x = 45 + 75 * place;
    const int center_y = 70 + 35 * ((place + variant) % 2);
    const int size = figure == chart.label ? 36 : 24;
    int left = kChartWidth, top = kChartHeight, right = 0, bottom = 0;
    for (int y = 0; y < kChartHeight; ++y) {
      for (int x = 0; x < kChartWidth; ++x) {
        if (!InFigure(figure, x - center_x, y - center_y, size)) continue;
        chart.image.Set(x, y, FigureColor(figure, x - center_x, y - center_y));
        chart.mask[y * kChartWidth + x] = static_cast<uint8_t>(figure + 1);
        left = std::min(left, x);
        right = std::max(right, x + 1);
        top = std::min(top, y);
        bottom = std::max(bottom, y + 1);
      }
    }
    const int corners[] = {left, top, right, bottom};
    for (int i = 0; i < 4; ++i) {
      chart.boxes[figure * 4 + i] = static_cast<float>(corners[i]);
    }
  }
  for (int y = 0; y < 21; ++y) {
    for (int x = 0; x < 15; ++x) {
      chart.image.Set(8 + x, 8 + y,
                      InLetter(x / 3, y / 3) ? picture::Rgb{0, 0, 0}
                                             : picture::Rgb{255, 255, 255});
    }
  }
  return chart;
}

absl::Status WriteChartDataset(absl::string_view uri, int samples) {
  DatasetInfo info;
  info.set_samples(samples);
  Schema& schema = *info.mutable_schema();
  for (const char* name : {"image", "mask"}) {
    Field& field = *schema.add_fields();
    field.set_name(name);
    field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  }
  Field& boxes = *schema.add_fields();
  boxes.set_name("boxes");
  boxes.set_kind(FIELD_KIND_TENSOR);
  boxes.set_dtype(DTYPE_FLOAT32);
  boxes.add_shape(kBoxes);
  boxes.add_shape(4);
  Field& label = *schema.add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(kFigures);
  for (const char* name : {"disc", "triangle", "stripes"}) {
    label.add_class_names(name);
  }
  info.set_train_preset("imagenet_train");
  info.set_eval_preset("imagenet_eval");
  MR_ASSIGN_OR_RETURN(auto writer, storage::DatasetWriter::Create(
                                       uri, info, {.overwrite = true}));
  for (int i = 0; i < samples; ++i) {
    const Chart chart = DrawChart(i);
    std::string image, mask, corners, index;
    MR_RETURN_IF_ERROR(data_tool::EncodePng(chart.image.bytes(), kChartHeight,
                                            kChartWidth, 3, &image));
    MR_RETURN_IF_ERROR(
        data_tool::EncodePng(chart.mask, kChartHeight, kChartWidth, 1, &mask));
    AppendBytes(chart.boxes.data(), chart.boxes.size() * sizeof(float),
                corners);
    const int64_t number = chart.label;
    AppendBytes(&number, sizeof(number), index);
    const absl::Span<const uint8_t> fields[] = {
        AsBytes(image), AsBytes(mask), AsBytes(corners), AsBytes(index)};
    MR_RETURN_IF_ERROR(writer->Append(fields, absl::StrCat("chart ", i)));
  }
  return writer->Finish().status();
}

}  // namespace millrace
