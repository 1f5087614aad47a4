// A reader of event files as TensorBoard's own is: length, checksum, event,
// checksum; it stops at what is not whole. For tests.
//
//   EventContent content = ReadEvents(ReadFile(path));
//   EXPECT_EQ(content.error, "");

#ifndef MILLRACE_TESTS_TRAINER_LOGS_EVENT_READER_H_
#define MILLRACE_TESTS_TRAINER_LOGS_EVENT_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace millrace::testing {

struct ReadEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  bool starts_session = false;
  std::map<std::string, float> scalars;
};

struct EventContent {
  std::vector<ReadEvent> events;
  std::string error;  // what the first thing was that is not right; "": nothing
};

EventContent ReadEvents(const std::string& bytes);

// step -> value of a tag; the last one where a step comes twice.
std::map<int64_t, float> Series(const EventContent& content,
                                const std::string& tag);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TRAINER_LOGS_EVENT_READER_H_
