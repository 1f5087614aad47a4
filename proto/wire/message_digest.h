// A digest at the end of a message, by which its receiver tells damage on the
// way from a peer that says something else.
//
// Field 15000 (`request_xxh3` of requests, `answer_xxh3` of unary answers and
// of RpcStatus) has the largest number of its message and is therefore its last
// field: XXH3-64 (https://github.com/Cyan4973/xxHash) of all bytes before it.
// The digest is found from the end of the bytes, so that it protects also a
// message that cannot be parsed. In an answer the seed is AnswerSeed() of the
// request: the answer to a request that was damaged is none to the one that was
// sent.
//
// A side that sends digests says so in the metadata (kDigestKey). Damage that
// cuts a message then cannot pass for a peer without digests. One flipped bit
// damages either the metadata or the message.
//
// What it is not: proof against intent. Frames have a digest of their payload
// instead (BatchHeader.payload_xxh3).
//
// Pure functions.
//
//   const std::string request = WithDigest(message.SerializeAsString());
//   ...
//   if (CheckDigest(answer, AnswerSeed(request), declared) ==
//       DigestCheck::kWrong) return damaged;

#ifndef MILLRACE_PROTO_WIRE_MESSAGE_DIGEST_H_
#define MILLRACE_PROTO_WIRE_MESSAGE_DIGEST_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace::wire {

// The metadatum by which a client (in every call) and a server (in the initial
// metadata of a unary answer) declare that their messages have digests. Only
// the key counts.
inline constexpr char kDigestKey[] = "millrace-digest";
inline constexpr char kDigestValue[] = "xxh3";

enum class DigestCheck {
  kAbsent,  // of a peer that sends none: the message is taken as it is
  kRight,
  kWrong,  // the message, or its digest, is damaged
};

// `content` and its digest. `content` is a serialised message without one.
std::string WithDigest(std::string content, uint64_t seed = 0);

// `declared`: the peer has said that the message has a digest, so that one
// without is damaged.
DigestCheck CheckDigest(absl::string_view bytes, uint64_t seed = 0,
                        bool declared = false);

// `request`: all bytes, those of its digest included.
uint64_t AnswerSeed(absl::string_view request);

}  // namespace millrace::wire

#endif  // MILLRACE_PROTO_WIRE_MESSAGE_DIGEST_H_
