#include "trainer/weights/torch_file.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/byte_size.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "trainer/weights/pickle.h"
#include "trainer/weights/zip_archive.h"

namespace millrace::weights {
namespace {

// Max bytes of a pickle. A hostile one would fill the memory: its values take
// about a hundred bytes each.
constexpr size_t kMaxPickle = 16 << 20;
constexpr size_t kMaxDimensions = 64;

struct Storage {
  absl::string_view python;
  DType dtype;
};
constexpr Storage kStorages[] = {
    {"FloatStorage", DTYPE_FLOAT32}, {"DoubleStorage", DTYPE_FLOAT64},
    {"HalfStorage", DTYPE_FLOAT16},  {"BFloat16Storage", DTYPE_BFLOAT16},
    {"LongStorage", DTYPE_INT64},    {"IntStorage", DTYPE_INT32},
    {"ShortStorage", DTYPE_INT16},   {"CharStorage", DTYPE_INT8},
    {"ByteStorage", DTYPE_UINT8},    {"BoolStorage", DTYPE_BOOL},
};

absl::Status Bad(absl::string_view what) { return absl::DataLossError(what); }

// The entries of the archive that matter, by their names below its folder.
struct Archive {
  absl::string_view pickle;
  absl::flat_hash_map<std::string, absl::string_view> data;
};

absl::StatusOr<Archive> OpenArchive(absl::string_view file) {
  // Files from before torch 1.6 are bare pickles that begin with a magic
  // number.
  if (absl::StartsWith(file, absl::string_view("\x80\x02\x8a\x0a", 4))) {
    return absl::InvalidArgumentError(
        "it has the format from before torch 1.6; load it in Python and save "
        "it again with torch.save(torch.load(FILE), FILE)");
  }
  MR_ASSIGN_OR_RETURN(const std::vector<ZipEntry> entries, ParseZip(file));
  std::string folder;
  Archive archive;
  for (const ZipEntry& entry : entries) {
    absl::string_view name = entry.name;
    if (absl::ConsumeSuffix(&name, "/data.pkl") &&
        !absl::StrContains(name, '/')) {
      folder = absl::StrCat(name, "/");
      archive.pickle = entry.data;
    }
  }
  if (folder.empty()) {
    return absl::InvalidArgumentError(
        "it is an archive, but not one of torch.save: it has no data.pkl");
  }
  for (const ZipEntry& entry : entries) {
    absl::string_view name = entry.name;
    if (!absl::ConsumePrefix(&name, folder)) continue;
    if (absl::StartsWith(name, "code/") || name == "constants.pkl") {
      return absl::InvalidArgumentError(
          "it holds a TorchScript module, not weights alone; train it with "
          "--model=torchscript:FILE, or write its weights in Python with "
          "torch.save(torch.jit.load(FILE).state_dict(), OTHER)");
    }
    if (entry.compressed) {
      return absl::InvalidArgumentError(
          absl::StrCat("its entry ", name,
                       " is compressed, and torch.save writes uncompressed "
                       "entries; load the "
                       "file in Python and save it again"));
    }
    if (name == "byteorder" && entry.data != "little") {
      return absl::InvalidArgumentError(
          "it was written on a machine with the other byte order");
    }
    if (absl::ConsumePrefix(&name, "data/")) {
      archive.data.emplace(name, entry.data);
    }
  }
  if (archive.pickle.size() > kMaxPickle) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its pickle has ", FormatExactByteSize(archive.pickle.size()),
        "; the maximum is ", FormatByteSize(kMaxPickle)));
  }
  return archive;
}

bool IsCallOf(const PickleValue& value, absl::string_view function) {
  return value.kind == PickleValue::kCall &&
         value.items[0]->kind == PickleValue::kGlobal &&
         value.items[0]->text == function &&
         value.items[1]->kind == PickleValue::kTuple;
}

// The tensor inside a parameter, or the value itself.
const PickleValue& WithoutParameter(const PickleValue& value) {
  if (!IsCallOf(value, "torch._utils _rebuild_parameter")) return value;
  const auto& arguments = value.items[1]->items;
  return arguments.empty() ? value : *arguments[0];
}

bool IsTensor(const PickleValue& value) {
  return IsCallOf(WithoutParameter(value), "torch._utils _rebuild_tensor_v2");
}

absl::StatusOr<std::vector<int64_t>> Lengths(const PickleValue& tuple) {
  if (tuple.kind != PickleValue::kTuple ||
      tuple.items.size() > kMaxDimensions) {
    return Bad("has no shape");
  }
  std::vector<int64_t> lengths;
  for (const PickleValue* item : tuple.items) {
    if (item->kind != PickleValue::kInt || item->integer < 0) {
      return Bad("has no shape");
    }
    lengths.push_back(item->integer);
  }
  return lengths;
}

// The type and bytes of ("storage", torch.FloatStorage, key, device, elements).
absl::StatusOr<std::pair<DType, absl::string_view>> FindStorage(
    const PickleValue& value, const Archive& archive) {
  const std::vector<const PickleValue*>* parts = nullptr;
  if (value.kind == PickleValue::kPersistent &&
      value.items[0]->kind == PickleValue::kTuple) {
    parts = &value.items[0]->items;
  }
  if (parts == nullptr || parts->size() < 5 || (*parts)[0]->text != "storage" ||
      (*parts)[1]->kind != PickleValue::kGlobal ||
      (*parts)[2]->kind != PickleValue::kText) {
    return Bad("has no storage");
  }
  absl::string_view type = (*parts)[1]->text;
  DType dtype = DTYPE_UNSPECIFIED;
  if (absl::ConsumePrefix(&type, "torch ")) {
    for (const Storage& storage : kStorages) {
      if (storage.python == type) dtype = storage.dtype;
    }
  }
  if (dtype == DTYPE_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        absl::StrCat("is stored as ", (*parts)[1]->text,
                     ", which the trainer does not read"));
  }
  const auto data = archive.data.find((*parts)[2]->text);
  if (data == archive.data.end()) {
    return Bad(absl::StrCat("is in data/", (*parts)[2]->text,
                            ", which the archive does not contain"));
  }
  return std::make_pair(dtype, data->second);
}

// _rebuild_tensor_v2(storage, offset, shape, strides, ...).
absl::StatusOr<StoredTensor> ToTensor(const PickleValue& value,
                                      const Archive& archive) {
  const auto& arguments = WithoutParameter(value).items[1]->items;
  if (arguments.size() < 4 || arguments[1]->kind != PickleValue::kInt ||
      arguments[1]->integer < 0) {
    return Bad("is damaged");
  }
  MR_ASSIGN_OR_RETURN(const auto storage, FindStorage(*arguments[0], archive));
  StoredTensor tensor;
  tensor.dtype = storage.first;
  MR_ASSIGN_OR_RETURN(tensor.shape, Lengths(*arguments[2]));
  MR_ASSIGN_OR_RETURN(tensor.strides, Lengths(*arguments[3]));
  if (tensor.strides.size() != tensor.shape.size()) return Bad("is damaged");
  const uint64_t held = storage.second.size() / ElementBytes(tensor.dtype);
  const auto offset = static_cast<uint64_t>(arguments[1]->integer);
  bool empty = false;
  for (const int64_t dim : tensor.shape) empty = empty || dim == 0;
  if (empty) return tensor;
  if (offset >= held) return Bad("begins outside of its storage");
  // Index of the last element, counted from the first.
  uint64_t last = 0;
  uint64_t elements = 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const auto steps = static_cast<uint64_t>(tensor.shape[i] - 1);
    const auto stride = static_cast<uint64_t>(tensor.strides[i]);
    if (stride > 0 && steps > (held - 1 - offset - last) / stride) {
      return Bad("reaches beyond its storage");
    }
    last += steps * stride;
    // A stride of 0 makes many elements from few bytes. No weights have that,
    // and a copy of them could take any amount of memory.
    elements =
        elements > held / (steps + 1) ? held + 1 : elements * (steps + 1);
  }
  if (elements > held) return Bad("has more elements than its storage");
  tensor.bytes = storage.second.substr(offset * ElementBytes(tensor.dtype),
                                       (last + 1) * ElementBytes(tensor.dtype));
  return tensor;
}

size_t CountTensors(const PickleValue& dict) {
  size_t tensors = 0;
  if (dict.kind != PickleValue::kDict) return 0;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    if (dict.items[i]->kind == PickleValue::kText &&
        IsTensor(*dict.items[i + 1])) {
      ++tensors;
    }
  }
  return tensors;
}

// The dictionary with the weights: the file's own, or one inside it.
absl::StatusOr<const PickleValue*> FindWeights(const PickleValue& root) {
  if (root.kind != PickleValue::kDict) {
    const bool object = root.kind == PickleValue::kCall &&
                        root.items[0]->kind == PickleValue::kGlobal;
    return absl::InvalidArgumentError(absl::StrCat(
        "it holds ",
        object ? absl::StrCat("a Python object (", root.items[0]->text, ")")
               : "something",
        ", but must hold a dictionary of names and tensors; write "
        "torch.save(module.state_dict(), FILE)"));
  }
  if (CountTensors(root) > 0) return &root;
  std::vector<std::string> keys;
  for (const absl::string_view wanted :
       {"state_dict", "model_state_dict", "model"}) {
    for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
      if (root.items[i]->kind == PickleValue::kText &&
          root.items[i]->text == wanted &&
          CountTensors(*root.items[i + 1]) > 0) {
        return root.items[i + 1];
      }
    }
  }
  for (size_t i = 0; i + 1 < root.items.size() && keys.size() < 8; i += 2) {
    if (root.items[i]->kind == PickleValue::kText) {
      keys.push_back(root.items[i]->text);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "its dictionary holds no tensors, neither directly nor under state_dict, "
      "model_state_dict or model; its keys are: ",
      absl::StrJoin(keys, ", ")));
}

// Writes the instructions of protocol 2.
class PickleWriter {
 public:
  PickleWriter() : out_("\x80\x02") {}

  void Code(char code) { out_.push_back(code); }
  void Text(absl::string_view text) {
    Code('X');
    Bytes(text.size(), 4);
    absl::StrAppend(&out_, text);
  }
  void Global(absl::string_view module, absl::string_view name) {
    absl::StrAppend(&out_, "c", module, "\n", name, "\n");
  }
  void Integer(int64_t value) {
    if (value >= std::numeric_limits<int32_t>::min() &&
        value <= std::numeric_limits<int32_t>::max()) {
      Code('J');
      Bytes(static_cast<uint64_t>(value), 4);
    } else {
      Code('\x8a');
      Bytes(8, 1);
      Bytes(static_cast<uint64_t>(value), 8);
    }
  }
  void Integers(const std::vector<int64_t>& values) {
    Code('(');
    for (const int64_t value : values) Integer(value);
    Code('t');
  }
  std::string Finish() {
    Code('.');
    return std::move(out_);
  }

 private:
  void Bytes(uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      out_.push_back(static_cast<char>(value >> (8 * i)));
    }
  }
  std::string out_;
};

}  // namespace

absl::StatusOr<std::vector<StoredTensor>> ParseTorchFile(
    absl::string_view file) {
  MR_ASSIGN_OR_RETURN(const Archive archive, OpenArchive(file));
  MR_ASSIGN_OR_RETURN(const Pickle pickle, Pickle::Parse(archive.pickle));
  MR_ASSIGN_OR_RETURN(const PickleValue* dict, FindWeights(pickle.root()));
  std::vector<StoredTensor> tensors;
  absl::flat_hash_map<std::string, size_t> places;
  for (size_t i = 0; i + 1 < dict->items.size(); i += 2) {
    const PickleValue& key = *dict->items[i];
    const PickleValue& value = *dict->items[i + 1];
    if (key.kind != PickleValue::kText || !IsTensor(value)) continue;
    absl::StatusOr<StoredTensor> tensor = ToTensor(value, archive);
    if (!tensor.ok()) {
      return absl::Status(tensor.status().code(),
                          absl::StrCat("the tensor \"", key.text, "\" ",
                                       tensor.status().message()));
    }
    tensor->name = key.text;
    // As in Python, a repeated key replaces the value.
    const auto [place, fresh] = places.emplace(key.text, tensors.size());
    if (fresh) {
      tensors.push_back(*std::move(tensor));
    } else {
      tensors[place->second] = *std::move(tensor);
    }
  }
  return tensors;
}

void WriteTorchFile(const std::vector<StoredTensor>& tensors,
                    const ByteSink& sink) {
  PickleWriter pickle;
  pickle.Code('}');
  pickle.Code('(');
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& tensor = tensors[i];
    absl::string_view storage;
    for (const Storage& known : kStorages) {
      if (known.dtype == tensor.dtype) storage = known.python;
    }
    MR_CHECK(!storage.empty()) << tensor.name;
    pickle.Text(tensor.name);
    pickle.Global("torch._utils", "_rebuild_tensor_v2");
    pickle.Code('(');
    pickle.Code('(');
    pickle.Text("storage");
    pickle.Global("torch", storage);
    pickle.Text(absl::StrCat(i));
    pickle.Text("cpu");
    pickle.Integer(
        static_cast<int64_t>(tensor.bytes.size() / ElementBytes(tensor.dtype)));
    pickle.Code('t');
    pickle.Code('Q');
    pickle.Integer(0);
    pickle.Integers(tensor.shape);
    pickle.Integers(tensor.strides);
    pickle.Code('\x89');  // needs no gradient
    pickle.Global("collections", "OrderedDict");
    pickle.Code(')');
    pickle.Code('R');  // no hooks
    pickle.Code('t');
    pickle.Code('R');
  }
  pickle.Code('u');
  const std::string data_pkl = pickle.Finish();
  std::vector<ZipEntry> entries = {{"archive/data.pkl", data_pkl},
                                   {"archive/byteorder", "little"}};
  for (size_t i = 0; i < tensors.size(); ++i) {
    entries.push_back({absl::StrCat("archive/data/", i), tensors[i].bytes});
  }
  entries.push_back({"archive/version", "3\n"});
  WriteZip(entries, sink);
}

}  // namespace millrace::weights
