// JpegErrors turns an error of libjpeg into a message and a jump to the caller,
// who calls setjmp(errors.jump) in a function that has nothing to destroy.
// libjpeg's own handler would end the process.
//
// Not thread-safe: one per user of libjpeg, which may have several structs of
// libjpeg. They must not outlive it.
//
//   info.err = errors.Install(EmitMessage);
//   info.progress = &scans;  // scans.progress_monitor = CheckJpegScans
//   if (setjmp(errors.jump) != 0) return Damaged(errors.message);
//   jpeg_read_header(&info, TRUE);

#ifndef MILLRACE_SERVER_DECODE_JPEG_ERROR_H_
#define MILLRACE_SERVER_DECODE_JPEG_ERROR_H_

#include <csetjmp>
#include <cstdio>

// After stdio.h, which it needs.
#include <jpeglib.h>

namespace millrace::decode {

struct JpegErrors {
  jpeg_error_mgr base;  // first: libjpeg hands out a pointer to it
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];

  // `emit_message` gets warnings (level below 0) and trace messages. Nothing is
  // printed. Returns `base`, for libjpeg's structs.
  jpeg_error_mgr* Install(void (*emit_message)(j_common_ptr info, int level));
};

// Jumps with the message of libjpeg's current error.
void JpegErrorExit(j_common_ptr info);

// A progress monitor: an error for an image of more than kMaxJpegScans scans.
void CheckJpegScans(j_common_ptr info);

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_JPEG_ERROR_H_
