// PictureRenderer renders a Picture to a file. It opens libmillrace_picture.so
// (picture_plugin.h) only when a picture is requested.
//
// Immutable; safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(const auto renderer,
//                       PictureRenderer::Load(PictureRenderer::Paths()));
//   MR_ASSIGN_OR_RETURN(std::string png,
//                       renderer.Render(picture, PictureFormat::kPng));

#ifndef MILLRACE_COMMON_PICTURE_PICTURE_RENDERER_H_
#define MILLRACE_COMMON_PICTURE_PICTURE_RENDERER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/picture/picture.h"
#include "common/picture/picture_plugin.h"

namespace millrace::picture {

// By the end of a file's name: ".png" or ".svg", in letters of any case.
// InvalidArgument: neither.
absl::StatusOr<PictureFormat> PictureFormatOf(absl::string_view path);

class PictureRenderer {
 public:
  // Paths where the library may be, best first.
  static std::vector<std::string> Paths();

  // Errors as OpenPlugIn(): they name the Debian packages to install.
  static absl::StatusOr<PictureRenderer> Load(
      const std::vector<std::string>& paths);

  explicit PictureRenderer(DrawPictureFunction* draw) : draw_(draw) {}

  // The bytes of the file; the same picture gives the same PNG file on a
  // machine (SVG numbers its parts through a process). InvalidArgument: a side
  // is 0 or above kMaxPictureSide. Internal: Cairo fails; says why.
  absl::StatusOr<std::string> Render(const Picture& picture,
                                     PictureFormat format) const;

 private:
  DrawPictureFunction* draw_;
};

}  // namespace millrace::picture

#endif  // MILLRACE_COMMON_PICTURE_PICTURE_RENDERER_H_
