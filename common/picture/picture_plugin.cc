#include "common/picture/picture_plugin.h"

#include <cairo/cairo-svg.h>
#include <cairo/cairo.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <type_traits>

namespace millrace::picture {
namespace {

struct Free {
  void operator()(cairo_t* cr) const { cairo_destroy(cr); }
  void operator()(cairo_surface_t* surface) const {
    cairo_surface_destroy(surface);
  }
  void operator()(cairo_font_options_t* options) const {
    cairo_font_options_destroy(options);
  }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

void Check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS) {
    throw std::runtime_error(cairo_status_to_string(status));
  }
}

// Cairo is C: no exception may pass through it.
cairo_status_t Append(void* to, const unsigned char* data,
                      unsigned int length) noexcept try {
  static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data),
                                        length);
  return CAIRO_STATUS_SUCCESS;
} catch (...) {
  return CAIRO_STATUS_NO_MEMORY;
}

void SetColor(cairo_t* cr, Rgb color) {
  cairo_set_source_rgb(cr, color.r / 255.0, color.g / 255.0, color.b / 255.0);
}

void AddBox(cairo_t* cr, const PictureBox& box) {
  cairo_rectangle(cr, box.left, box.top, box.width, box.height);
}

void Draw(cairo_t* cr, const PictureFill& fill) {
  SetColor(cr, fill.color);
  AddBox(cr, fill.box);
  cairo_fill(cr);
}

Owned<cairo_surface_t> SurfaceOf(const RgbImage& image) {
  Owned<cairo_surface_t> surface(cairo_image_surface_create(
      CAIRO_FORMAT_RGB24, image.width(), image.height()));
  Check(cairo_surface_status(surface.get()));
  cairo_surface_flush(surface.get());
  uint8_t* const to = cairo_image_surface_get_data(surface.get());
  const int stride = cairo_image_surface_get_stride(surface.get());
  const uint8_t* from = image.bytes().data();
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x, from += 3) {
      const uint32_t pixel =
          uint32_t{from[0]} << 16 | uint32_t{from[1]} << 8 | from[2];
      std::memcpy(to + std::ptrdiff_t{y} * stride + x * 4, &pixel, 4);
    }
  }
  cairo_surface_mark_dirty(surface.get());
  return surface;
}

void Draw(cairo_t* cr, const PicturePixels& pixels) {
  const int width = pixels.image.width();
  const int height = pixels.image.height();
  if (width == 0 || height == 0) return;
  const Owned<cairo_surface_t> surface = SurfaceOf(pixels.image);
  AddBox(cr, pixels.box);
  cairo_translate(cr, pixels.box.left, pixels.box.top);
  cairo_scale(cr, pixels.box.width / width, pixels.box.height / height);
  cairo_set_source_surface(cr, surface.get(), 0, 0);
  const bool shrinks = pixels.box.width < width || pixels.box.height < height;
  cairo_pattern_t* const pattern = cairo_get_source(cr);
  cairo_pattern_set_filter(pattern,
                           shrinks ? CAIRO_FILTER_GOOD : CAIRO_FILTER_NEAREST);
  // Otherwise pixels at the edges are mixed with what lies below the picture.
  cairo_pattern_set_extend(pattern, CAIRO_EXTEND_PAD);
  cairo_fill(cr);
}

void Draw(cairo_t* cr, const PictureOutline& outline) {
  AddBox(cr, outline.clip);
  cairo_clip(cr);
  for (const PicturePoint& corner : outline.corners) {
    cairo_line_to(cr, corner.x, corner.y);
  }
  cairo_close_path(cr);
  SetColor(cr, outline.color);
  cairo_set_line_width(cr, outline.width);
  cairo_set_line_join(cr, CAIRO_LINE_JOIN_MITER);
  cairo_stroke(cr);
}

// A character of a text.
struct Letter {
  size_t begin = 0;
  size_t bytes = 0;
  double x = 0;  // width of what stands before it
  bool missing = false;
};

std::vector<Letter> LettersOf(cairo_t* cr, const std::string& text) {
  cairo_glyph_t* glyphs = nullptr;
  cairo_text_cluster_t* clusters = nullptr;
  int glyph_count = 0;
  int cluster_count = 0;
  cairo_text_cluster_flags_t flags;
  Check(cairo_scaled_font_text_to_glyphs(
      cairo_get_scaled_font(cr), 0, 0, text.data(),
      static_cast<int>(text.size()), &glyphs, &glyph_count, &clusters,
      &cluster_count, &flags));
  std::vector<Letter> letters;
  size_t begin = 0;
  const cairo_glyph_t* glyph = glyphs;
  for (int i = 0; i < cluster_count; ++i) {
    const size_t bytes = static_cast<size_t>(clusters[i].num_bytes);
    if (clusters[i].num_glyphs > 0) {
      letters.push_back({begin, bytes, glyph->x, glyph->index == 0});
    }
    glyph += clusters[i].num_glyphs;
    begin += bytes;
  }
  cairo_glyph_free(glyphs);
  cairo_text_cluster_free(clusters);
  return letters;
}

double WidthOf(cairo_t* cr, const std::string& text) {
  cairo_text_extents_t extents;
  cairo_text_extents(cr, text.c_str(), &extents);
  return extents.x_advance;
}

// What the font lacks would be drawn as an empty box.
std::string Readable(cairo_t* cr, const std::string& text) {
  std::string readable;
  for (const Letter& letter : LettersOf(cr, text)) {
    readable += letter.missing ? "?" : text.substr(letter.begin, letter.bytes);
  }
  return readable;
}

// The whole text, or its beginning and "..."; empty where not even those fit.
std::string Fitting(cairo_t* cr, const std::string& text, double width) {
  if (WidthOf(cr, text) <= width) return text;
  const double dots = WidthOf(cr, "...");
  if (dots > width) return "";
  size_t end = 0;
  for (const Letter& letter : LettersOf(cr, text)) {
    if (letter.x + dots > width) break;
    end = letter.begin;
  }
  return text.substr(0, end) + "...";
}

void Draw(cairo_t* cr, const PictureText& text) {
  cairo_select_font_face(
      cr, "sans", CAIRO_FONT_SLANT_NORMAL,
      text.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(cr, text.size);
  const std::string shown =
      Fitting(cr, Readable(cr, text.text), text.box.width);
  cairo_font_extents_t font;
  cairo_font_extents(cr, &font);
  double x = text.box.left;
  if (text.align != PictureText::Align::kLeft) {
    const double room = text.box.width - WidthOf(cr, shown);
    x += text.align == PictureText::Align::kRight ? room : room / 2;
  }
  const double y = text.box.top +
                   (text.box.height - font.ascent - font.descent) / 2 +
                   font.ascent;
  cairo_move_to(cr, std::floor(x), std::round(y));
  SetColor(cr, text.color);
  cairo_show_text(cr, shown.c_str());
}

std::string FileOf(const Picture& picture, PictureFormat format) {
  std::string bytes;
  const bool png = format == PictureFormat::kPng;
  const Owned<cairo_surface_t> surface(
      png ? cairo_image_surface_create(CAIRO_FORMAT_RGB24, picture.width,
                                       picture.height)
          : cairo_svg_surface_create_for_stream(Append, &bytes, picture.width,
                                                picture.height));
  Check(cairo_surface_status(surface.get()));
  if (!png) {
    cairo_svg_surface_set_document_unit(surface.get(), CAIRO_SVG_UNIT_PX);
  }
  const Owned<cairo_t> cr(cairo_create(surface.get()));
  // Text in grey levels: others look coloured where screens differ.
  const Owned<cairo_font_options_t> options(cairo_font_options_create());
  cairo_font_options_set_antialias(options.get(), CAIRO_ANTIALIAS_GRAY);
  cairo_set_font_options(cr.get(), options.get());
  SetColor(cr.get(), picture.paper);
  cairo_paint(cr.get());
  for (const PictureItem& item : picture.items) {
    cairo_save(cr.get());
    std::visit([&](const auto& one) { Draw(cr.get(), one); }, item);
    cairo_restore(cr.get());
    Check(cairo_status(cr.get()));
  }
  if (png) {
    Check(cairo_surface_write_to_png_stream(surface.get(), Append, &bytes));
  }
  cairo_surface_finish(surface.get());
  Check(cairo_surface_status(surface.get()));
  return bytes;
}

}  // namespace
}  // namespace millrace::picture

static_assert(std::is_same_v<decltype(millrace_draw_picture_v1),
                             millrace::picture::DrawPictureFunction>);

int millrace_draw_picture_v1(const millrace::picture::PictureRequest* request,
                             millrace::picture::PictureReply* reply) try {
  reply->bytes = millrace::picture::FileOf(*request->picture, request->format);
  return 0;
} catch (const std::exception& error) {
  reply->error = error.what();
  return 1;
}
