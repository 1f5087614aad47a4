// TFRecord files of tf.train.Example as an ExtentFormat: `tfrecord:PATH`, with
// the options of example_options.h. PATH is a file, a folder of *.tfrecord
// files or a glob (train-*-of-01024); the order of the samples is that of the
// files by their names and of the records in each.
//
// It reads neither compressed files nor SequenceExamples.

#ifndef MILLRACE_SERVER_STORAGE_TFRECORD_TFRECORD_FORMAT_H_
#define MILLRACE_SERVER_STORAGE_TFRECORD_TFRECORD_FORMAT_H_

#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

const ExtentFormat& TfrecordFormat();

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_TFRECORD_TFRECORD_FORMAT_H_
