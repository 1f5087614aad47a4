// Images whose headers claim another size than their pixels have, for tests of
// the limits that decoders check before they allocate.

#ifndef MILLRACE_TESTS_TESTING_IMAGES_CLAIMED_SIZE_H_
#define MILLRACE_TESTS_TESTING_IMAGES_CLAIMED_SIZE_H_

#include <cstdint>
#include <vector>

namespace millrace {

// The image with the size of its header replaced. Empty: it has no such header.
std::vector<uint8_t> JpegClaiming(std::vector<uint8_t> jpeg, int width,
                                  int height);
// The checksum is right.
std::vector<uint8_t> PngClaiming(std::vector<uint8_t> png, int width,
                                 int height);
// A file whose first chunk is its picture; sides of 14 bits.
std::vector<uint8_t> WebpClaiming(std::vector<uint8_t> webp, int width,
                                  int height);

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTING_IMAGES_CLAIMED_SIZE_H_
