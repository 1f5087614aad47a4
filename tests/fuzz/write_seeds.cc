// Writes the seeds of a fuzz target as files, and its words as libFuzzer's
// dictionary: write_seeds FOLDER DICTIONARY_FILE

#include <cstdio>
#include <fstream>
#include <string>

#include "tests/fuzz/fuzz_target.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FOLDER DICTIONARY_FILE\n", argv[0]);
    return 2;
  }
  const millrace::FuzzTarget& target = millrace::TheFuzzTarget();
  bool good = true;
  int number = 0;
  for (const std::string& seed : target.seeds()) {
    std::ofstream out(
        std::string(argv[1]) + "/seed_" + std::to_string(number++),
        std::ios::binary);
    out.write(seed.data(), static_cast<std::streamsize>(seed.size()));
    good = good && out.flush().good();
  }
  std::ofstream words(argv[2]);
  if (target.words != nullptr) {
    for (const std::string& word : target.words()) {
      words << '"' << word << "\"\n";
    }
  }
  good = good && words.flush().good();
  if (!good) std::fprintf(stderr, "cannot write to %s\n", argv[1]);
  return good ? 0 : 1;
}
