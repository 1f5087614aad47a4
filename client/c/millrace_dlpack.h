/* The structs of DLPack 1.0 that millrace_batch_dlpack() returns, for programs
 * without dlpack.h. Names and layout are those of dlpack.h
 * (https://github.com/dmlc/dlpack, include/dlpack/dlpack.h, Apache
 * License 2.0), and the Python array API standard specifies them.
 *
 * A program that has dlpack.h includes dlpack.h and not this file; included
 * after dlpack.h, this file declares nothing.
 *
 * Plain data. */

#ifndef MILLRACE_C_MILLRACE_DLPACK_H_
#define MILLRACE_C_MILLRACE_DLPACK_H_

#ifndef DLPACK_DLPACK_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of DLPackVersion. */
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 0

/* Bits of DLManagedTensorVersioned.flags. */
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)

typedef struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

/* Millrace exports kDLCPU only. */
typedef enum DLDeviceType { kDLCPU = 1 } DLDeviceType;

typedef struct DLDevice {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

typedef enum DLDataTypeCode {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLBfloat = 4U,
  kDLBool = 6U
} DLDataTypeCode;

typedef struct DLDataType {
  uint8_t code; /* DLDataTypeCode */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} DLDataType;

typedef struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;       /* [ndim] */
  int64_t* strides;     /* [ndim], in elements; Millrace never leaves it NULL */
  uint64_t byte_offset; /* 0 */
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* DLPACK_DLPACK_H_ */

#endif /* MILLRACE_C_MILLRACE_DLPACK_H_ */
