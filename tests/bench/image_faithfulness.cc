// How far the default decode (at 1/2, 1/4, 1/8 where the crop allows it) is
// from the exact one on photographs, after imagenet_train's crop and resize:
//
//   image_faithfulness FOLDER
//
// Prints the mean absolute difference in levels over all photographs, its
// spread from photograph to photograph, and how many were decoded at a
// fraction.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "proto/names.h"
#include "server/pipeline/stage/image_stage.h"

namespace millrace {
namespace {

std::unique_ptr<pipeline::ImageStage> MakeStage(DecodeImage::Mode mode,
                                                uint32_t side) {
  std::vector<Transform> spec(3);
  spec[0].mutable_decode_image()->set_mode(mode);
  spec[1].mutable_random_resized_crop()->set_height(side);
  spec[1].mutable_random_resized_crop()->set_width(side);
  spec[2].mutable_horizontal_flip();
  std::vector<pipeline::PlacedTransform> placed;
  for (const Transform& t : spec) {
    placed.push_back({&t, static_cast<uint32_t>(placed.size())});
  }
  Field field;
  field.set_name("image");
  field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  return *pipeline::ImageStage::Create(field, placed);
}

void Compare(const std::vector<std::string>& paths, uint32_t side) {
  const auto scaled = MakeStage(DecodeImage::SCALED, side);
  const auto exact = MakeStage(DecodeImage::EXACT, side);
  const auto scratch = scaled->NewScratch();
  std::vector<uint8_t> a(side * side * 3);
  std::vector<uint8_t> b(a.size());
  std::vector<double> means;  // of those decoded at a fraction
  double sum = 0;
  size_t photos = 0;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::vector<uint8_t> photo{std::istreambuf_iterator<char>(in),
                                     std::istreambuf_iterator<char>()};
    const uint64_t key = photos * 0x9E3779B97F4A7C15ull;
    if (!scaled->Run(photo, key, *scratch, absl::MakeSpan(a)).ok() ||
        !exact->Run(photo, key, *scratch, absl::MakeSpan(b)).ok()) {
      std::fprintf(stderr, "%s cannot be decoded\n", path.c_str());
      continue;
    }
    ++photos;
    if (a == b) continue;
    double difference = 0;
    for (size_t i = 0; i < a.size(); ++i) difference += std::abs(a[i] - b[i]);
    means.push_back(difference / a.size());
    sum += means.back();
  }
  std::sort(means.begin(), means.end());
  std::printf("to %u x %u: %zu photographs, %zu of them at a fraction", side,
              side, photos, means.size());
  if (!means.empty()) {
    std::printf(
        "; mean absolute difference %.3f levels over all, of those at a "
        "fraction %.3f (median %.3f, largest %.3f)",
        sum / photos, sum / means.size(), means[means.size() / 2],
        means.back());
  }
  std::printf("\n");
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: image_faithfulness FOLDER\n");
    return 2;
  }
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(argv[1])) {
    if (entry.path().extension() == ".jpg") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (uint32_t side : {224, 112, 64}) millrace::Compare(paths, side);
  return 0;
}
