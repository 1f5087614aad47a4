// The interface between Millrace's programs and libmillrace_picture.so, which
// draws a Picture with Cairo.
//
// Cairo needs fontconfig and X11, which most machines that run these
// programs do not have. So Cairo is not linked into a program: a small shared
// library links it, and the program opens that library for a picture.
//
// The interface is one C function. Its arguments are data of picture.h and
// strings, so both sides must be built from one source tree; the number in the
// function's name changes whenever anything here or in picture.h does, and a
// library of another version is then refused by name.
//
// Ownership: the request and the reply belong to the caller, and the function
// keeps no pointer to them. Safe from any thread. No exception crosses the
// border.

#ifndef MILLRACE_COMMON_PICTURE_PICTURE_PLUGIN_H_
#define MILLRACE_COMMON_PICTURE_PICTURE_PLUGIN_H_

#include <string>

#include "common/picture/picture.h"

namespace millrace::picture {

enum class PictureFormat { kPng, kSvg };

struct PictureRequest {
  const Picture* picture = nullptr;
  PictureFormat format = PictureFormat::kPng;
};

struct PictureReply {
  std::string bytes;  // the file
  std::string error;  // when the function fails
};

using DrawPictureFunction = int(const PictureRequest* request,
                                PictureReply* reply);

// The name of the function, which the library exports and nothing else.
inline constexpr char kDrawPicture[] = "millrace_draw_picture_v1";

}  // namespace millrace::picture

// Zero: the reply holds the file; else it says what went wrong.
extern "C" int millrace_draw_picture_v1(
    const millrace::picture::PictureRequest* request,
    millrace::picture::PictureReply* reply);

#endif  // MILLRACE_COMMON_PICTURE_PICTURE_PLUGIN_H_
