// Runs millrace-data within a test's process.

#ifndef MILLRACE_TESTS_SERVER_DATA_TOOL_CALL_TOOL_H_
#define MILLRACE_TESTS_SERVER_DATA_TOOL_CALL_TOOL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "server/data_tool/commands.h"
#include "tests/testing/images/jpeg_writer.h"

namespace millrace::data_tool {

struct Result {
  int code;
  std::string out;
  std::string err;
};

inline Result Call(const std::vector<std::string>& args) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Result result;
  result.code = RunDataTool(args, std::cout);
  std::cout.flush();
  result.out = ::testing::internal::GetCapturedStdout();
  result.err = ::testing::internal::GetCapturedStderr();
  return result;
}

// A JPEG of 16 x 8 pixels; other seeds give other pixels.
inline std::string Jpeg(uint64_t seed) {
  JpegKind kind;
  kind.width = 16;
  kind.height = 8;
  const std::vector<uint8_t> jpeg = WriteJpeg(kind, seed);
  return std::string(jpeg.begin(), jpeg.end());
}

}  // namespace millrace::data_tool

#endif  // MILLRACE_TESTS_SERVER_DATA_TOOL_CALL_TOOL_H_
