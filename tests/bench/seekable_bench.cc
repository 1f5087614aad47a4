// What `millrace-data pack --seekable` brings: bytes of the rewritten
// photographs, and images/s of the whole image stage of imagenet_train over
// them and over the originals, in turn, on one thread.
//
//   PHOTOS=/folder/with/jpegs ROUNDS=9 seekable_bench
//
// Each round takes every photograph once in each form, one form right after the
// other, with the same crop in every round. Two rates are printed: from each
// photograph's best time of all rounds, which other programs disturb little,
// and from all times together. Each form has a decoder of its own, as in a
// server that has only such a dataset. CLASS=baseline or progressive takes only
// photographs of that kind. FORM=plain or seekable and PRESET=imagenet_eval run
// only one, for a profiler.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/names.h"
#include "server/decode/seekable_jpeg.h"
#include "server/pipeline/stage/image_stage.h"

namespace millrace {
namespace {

using Bytes = std::vector<uint8_t>;
using Clock = std::chrono::steady_clock;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Whether a frame header of a progressive image stands in it.
bool IsProgressive(const Bytes& jpeg) {
  for (size_t i = 2; i + 4 < jpeg.size() && jpeg[i] == 0xFF;
       i += 2 + (jpeg[i + 2] << 8 | jpeg[i + 3])) {
    if (jpeg[i + 1] == 0xC2) return true;
    if (jpeg[i + 1] == 0xDA) break;
  }
  return false;
}

std::vector<Bytes> ReadPhotos(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension == ".jpg" || extension == ".jpeg") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  const std::string kind = Variable("CLASS");
  std::vector<Bytes> photos;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    Bytes bytes{std::istreambuf_iterator<char>(in),
                std::istreambuf_iterator<char>()};
    if (kind == "baseline" && IsProgressive(bytes)) continue;
    if (kind == "progressive" && !IsProgressive(bytes)) continue;
    photos.push_back(std::move(bytes));
  }
  return photos;
}

struct Preset {
  const char* name;
  std::vector<Transform> transforms;
};

std::vector<Preset> Presets() {
  Transform decode;
  decode.mutable_decode_image();
  Transform exact;
  exact.mutable_decode_image()->set_mode(DecodeImage::EXACT);
  Transform random;
  random.mutable_random_resized_crop()->set_height(224);
  random.mutable_random_resized_crop()->set_width(224);
  Transform flip;
  flip.mutable_horizontal_flip();
  Transform resize;
  resize.mutable_resize()->set_short_side(256);
  Transform center;
  center.mutable_center_crop()->set_height(224);
  center.mutable_center_crop()->set_width(224);
  return {{"imagenet_train", {decode, random, flip}},
          {"imagenet_train, EXACT", {exact, random, flip}},
          {"imagenet_eval", {decode, resize, center}}};
}

int Main() {
  const std::vector<Bytes> plain = ReadPhotos(Variable("PHOTOS"));
  if (plain.empty()) {
    std::fprintf(stderr, "set PHOTOS to a folder of JPEGs\n");
    return 1;
  }
  std::vector<Bytes> seekable;
  decode::SeekableJpeg rewriter;
  std::string out;
  double plain_bytes = 0;
  double seekable_bytes = 0;
  int rewritten = 0;
  const Clock::time_point start = Clock::now();
  for (const Bytes& photo : plain) {
    const bool done = rewriter.Rewrite(photo, &out) ==
                      decode::SeekableJpeg::Outcome::kRewritten;
    rewritten += done;
    seekable.push_back(done ? Bytes(out.begin(), out.end()) : photo);
    plain_bytes += photo.size();
    seekable_bytes += seekable.back().size();
  }
  const std::chrono::duration<double> packing = Clock::now() - start;
  std::printf(
      "%zu photographs, %d rewritten (%.0f/s): %.2f MB -> %.2f MB "
      "(%+.2f %%)\n",
      plain.size(), rewritten, plain.size() / packing.count(),
      plain_bytes / 1e6, seekable_bytes / 1e6,
      (seekable_bytes / plain_bytes - 1) * 100);

  const std::string rounds_text = Variable("ROUNDS");
  const int rounds = rounds_text.empty() ? 9 : std::atoi(rounds_text.c_str());
  const std::string only = Variable("FORM");
  const std::string preset_only = Variable("PRESET");
  for (const Preset& preset : Presets()) {
    if (!preset_only.empty() && preset_only != preset.name) continue;
    Field field;
    field.set_name("image");
    field.set_kind(FIELD_KIND_ENCODED_IMAGE);
    std::vector<pipeline::PlacedTransform> placed;
    for (const Transform& t : preset.transforms) {
      placed.push_back({&t, static_cast<uint32_t>(placed.size())});
    }
    auto stage = pipeline::ImageStage::Create(field, placed);
    if (!stage.ok()) {
      std::fprintf(stderr, "%s\n", stage.status().ToString().c_str());
      return 1;
    }
    constexpr size_t kBatch = 64;
    size_t bytes = 1;
    for (int64_t n : (*stage)->output_shape()) bytes *= n;
    Bytes batch(bytes * kBatch);
    struct Form {
      const char* name;
      const std::vector<Bytes>* photos;
      std::unique_ptr<pipeline::ImageStage::Scratch> scratch;
      std::vector<double> best;  // seconds of each photograph
      double all = 0;            // of all rounds
    };
    std::vector<Form> forms(2);
    forms[0].name = "plain";
    forms[0].photos = &plain;
    forms[1].name = "seekable";
    forms[1].photos = &seekable;
    for (Form& form : forms) {
      form.scratch = (*stage)->NewScratch();
      form.best.assign(plain.size(), 1e9);
    }
    for (int round = -1; round < rounds; ++round) {  // the first warms up
      for (size_t i = 0; i < plain.size(); ++i) {
        for (Form& form : forms) {
          if (!only.empty() && only != form.name) continue;
          const Clock::time_point begin = Clock::now();
          const absl::Status status = (*stage)->Run(
              (*form.photos)[i], (i + 1) * 0x9E3779B97F4A7C15ull, *form.scratch,
              absl::MakeSpan(batch).subspan(bytes * (i % kBatch), bytes));
          const std::chrono::duration<double> took = Clock::now() - begin;
          if (!status.ok()) {
            std::fprintf(stderr, "%s\n", status.ToString().c_str());
            return 1;
          }
          if (round < 0) continue;
          form.all += took.count();
          form.best[i] = std::min(form.best[i], took.count());
        }
      }
    }
    for (Form& form : forms) {
      if (form.all == 0) continue;
      double best = 0;
      for (double seconds : form.best) best += seconds;
      std::printf("%-22s %-8s %7.1f images/s at best, %7.1f in all\n",
                  preset.name, form.name, plain.size() / best,
                  plain.size() * rounds / form.all);
    }
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main() { return millrace::Main(); }
