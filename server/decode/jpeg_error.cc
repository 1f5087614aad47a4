#include "server/decode/jpeg_error.h"

#include "server/decode/limits.h"

namespace millrace::decode {

jpeg_error_mgr* JpegErrors::Install(void (*emit_message)(j_common_ptr, int)) {
  jpeg_std_error(&base);
  base.error_exit = JpegErrorExit;
  base.emit_message = emit_message;
  base.output_message = [](j_common_ptr) {};
  message[0] = '\0';
  return &base;
}

void JpegErrorExit(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  (*errors->base.format_message)(info, errors->message);
  std::longjmp(errors->jump, 1);
}

void CheckJpegScans(j_common_ptr info) {
  if (info->is_decompressor &&
      reinterpret_cast<j_decompress_ptr>(info)->input_scan_number >
          kMaxJpegScans) {
    auto* errors = reinterpret_cast<JpegErrors*>(info->err);
    std::snprintf(errors->message, sizeof(errors->message),
                  "it has more than %d scans", kMaxJpegScans);
    std::longjmp(errors->jump, 1);
  }
}

}  // namespace millrace::decode
