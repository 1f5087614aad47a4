#include "common/picture/picture_renderer.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/plug_in.h"
#include "common/status_macros.h"

namespace millrace::picture {
namespace {

constexpr char kFile[] = "libmillrace_picture.so";

}  // namespace

absl::StatusOr<PictureFormat> PictureFormatOf(absl::string_view path) {
  if (absl::EndsWithIgnoreCase(path, ".png")) return PictureFormat::kPng;
  if (absl::EndsWithIgnoreCase(path, ".svg")) return PictureFormat::kSvg;
  return absl::InvalidArgumentError(absl::StrCat(
      path, " ends in neither .png nor .svg: name it FILE.png or FILE.svg"));
}

std::vector<std::string> PictureRenderer::Paths() { return PlugInPaths(kFile); }

absl::StatusOr<PictureRenderer> PictureRenderer::Load(
    const std::vector<std::string>& paths) {
  PlugIn plug_in;
  plug_in.file = kFile;
  plug_in.function = kDrawPicture;
  plug_in.user = "pictures";
  plug_in.where_missing =
      "the wheels for Python do not contain it; tools/build creates it: copy "
      "the folder lib together with the program";
  plug_in.where_broken =
      "it needs Debian's packages libcairo2 and fonts-dejavu-core: apt-get "
      "install libcairo2 fonts-dejavu-core";
  MR_ASSIGN_OR_RETURN(void* function, OpenPlugIn(plug_in, paths));
  return PictureRenderer(reinterpret_cast<DrawPictureFunction*>(function));
}

absl::StatusOr<std::string> PictureRenderer::Render(
    const Picture& picture, PictureFormat format) const {
  for (const int side : {picture.width, picture.height}) {
    if (side >= 1 && side <= kMaxPictureSide) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the picture has ", picture.width, " x ", picture.height,
                     " pixels; each side must be 1 to ", kMaxPictureSide));
  }
  const PictureRequest request{&picture, format};
  PictureReply reply;
  if (draw_(&request, &reply) != 0) {
    return absl::InternalError(
        absl::StrCat("cannot draw the picture: ", reply.error));
  }
  return std::move(reply.bytes);
}

}  // namespace millrace::picture
