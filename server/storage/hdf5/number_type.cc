#include "server/storage/hdf5/number_type.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace millrace::storage {
namespace {

// An enumeration with more values has no names here.
constexpr int kMaxNames = 65536;

struct KnownType {
  hid_t little;
  hid_t big;
  StoredType stored;
};

bool Match(hid_t type, const KnownType& known, NumberType* number) {
  if (H5Tequal(type, known.little) > 0) {
    number->swapped = false;
  } else if (known.big >= 0 && H5Tequal(type, known.big) > 0) {
    number->swapped = true;
  } else {
    return false;
  }
  number->stored = known.stored;
  number->memory = Hdf5Handle(H5Tcopy(known.little), H5Tclose);
  return true;
}

// float16, for which libhdf5 1.10 has no name: sign at bit 15, 5 bits of
// exponent at 10, 10 of mantissa at 0.
Hdf5Handle Float16(H5T_order_t order) {
  Hdf5Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  H5Tset_fields(type.get(), 15, 10, 5, 0, 10);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), 15);
  H5Tset_order(type.get(), order);
  return type;
}

bool MatchPlain(hid_t type, NumberType* number) {
  const Hdf5Handle half = Float16(H5T_ORDER_LE);
  const Hdf5Handle swapped_half = Float16(H5T_ORDER_BE);
  const KnownType known[] = {
      {H5T_STD_U8LE, H5T_STD_U8BE, StoredType::kUint8},
      {H5T_STD_I8LE, H5T_STD_I8BE, StoredType::kInt8},
      {H5T_STD_U16LE, H5T_STD_U16BE, StoredType::kUint16},
      {H5T_STD_I16LE, H5T_STD_I16BE, StoredType::kInt16},
      {H5T_STD_U32LE, H5T_STD_U32BE, StoredType::kUint32},
      {H5T_STD_I32LE, H5T_STD_I32BE, StoredType::kInt32},
      {H5T_STD_U64LE, H5T_STD_U64BE, StoredType::kUint64},
      {H5T_STD_I64LE, H5T_STD_I64BE, StoredType::kInt64},
      {half.get(), swapped_half.get(), StoredType::kFloat16},
      {H5T_IEEE_F32LE, H5T_IEEE_F32BE, StoredType::kFloat32},
      {H5T_IEEE_F64LE, H5T_IEEE_F64BE, StoredType::kFloat64},
  };
  return std::any_of(
      std::begin(known), std::end(known),
      [&](const KnownType& each) { return Match(type, each, number); });
}

// The names of the values 0, 1, ... in this order; empty: the enumeration has
// other values.
std::vector<std::string> ValueNames(hid_t type) {
  const int count = H5Tget_nmembers(type);
  if (count <= 0 || count > kMaxNames) return {};
  const Hdf5Handle base(H5Tget_super(type), H5Tclose);
  std::vector<std::string> names(static_cast<size_t>(count));
  std::vector<bool> named(names.size());
  for (int i = 0; i < count; ++i) {
    // Room for the value of the file, of at most 8 bytes, and the converted
    // one.
    int64_t value = 0;
    if (H5Tget_size(type) > sizeof(value) ||
        H5Tget_member_value(type, static_cast<unsigned>(i), &value) < 0 ||
        H5Tconvert(base.get(), H5T_NATIVE_INT64, 1, &value, nullptr,
                   H5P_DEFAULT) < 0 ||
        value < 0 || value >= count || named[static_cast<size_t>(value)]) {
      return {};
    }
    char* const name = H5Tget_member_name(type, static_cast<unsigned>(i));
    if (name == nullptr) return {};
    names[static_cast<size_t>(value)] = name;
    named[static_cast<size_t>(value)] = true;
    H5free_memory(name);
  }
  return names;
}

}  // namespace

std::optional<NumberType> NumberTypeOf(hid_t type) {
  NumberType number;
  if (H5Tget_class(type) != H5T_ENUM) {
    if (!MatchPlain(type, &number)) return std::nullopt;
    return number;
  }
  const Hdf5Handle base(H5Tget_super(type), H5Tclose);
  if (!base.ok() || !MatchPlain(base.get(), &number)) return std::nullopt;
  // The enumeration itself in the order of the machine.
  number.memory =
      Hdf5Handle(H5Tget_native_type(type, H5T_DIR_ASCEND), H5Tclose);
  if (!number.memory.ok()) return std::nullopt;
  number.value_names = ValueNames(type);
  // As h5py writes bool.
  if (number.stored == StoredType::kInt8 &&
      number.value_names == std::vector<std::string>{"FALSE", "TRUE"}) {
    number.stored = StoredType::kBool;
    number.value_names.clear();
  }
  return number;
}

}  // namespace millrace::storage
