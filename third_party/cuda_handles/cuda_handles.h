// The names of CUDA's linear algebra libraries that ATen's CUDA headers use in
// declarations. No function of those libraries is called here, so their headers
// (in wheels of half a gigabyte together) are not fetched: handles are pointers
// to types nobody looks into, and a status is a number.

#ifndef MILLRACE_THIRD_PARTY_CUDA_HANDLES_H_
#define MILLRACE_THIRD_PARTY_CUDA_HANDLES_H_

typedef struct cublasContext* cublasHandle_t;
typedef struct cublasLtContext* cublasLtHandle_t;
typedef struct cusparseContext* cusparseHandle_t;
typedef struct cusolverDnContext* cusolverDnHandle_t;

typedef enum { CUBLAS_STATUS_SUCCESS = 0 } cublasStatus_t;
typedef enum { CUSPARSE_STATUS_SUCCESS = 0 } cusparseStatus_t;
typedef enum { CUSOLVER_STATUS_SUCCESS = 0 } cusolverStatus_t;

#endif  // MILLRACE_THIRD_PARTY_CUDA_HANDLES_H_
