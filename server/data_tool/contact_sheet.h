// A contact sheet: pairs of pictures, before and after, in rows, each pair with
// its caption.
//
// Pure function, safe from any thread.

#ifndef MILLRACE_SERVER_DATA_TOOL_CONTACT_SHEET_H_
#define MILLRACE_SERVER_DATA_TOOL_CONTACT_SHEET_H_

#include <string>
#include <vector>

#include "server/data_tool/canvas.h"

namespace millrace {

struct SheetPair {
  RgbImage before;  // at most the cell's size
  RgbImage after;
  std::string caption;  // cut to the pair's width
};

struct SheetOptions {
  int cell = 192;   // width and height of a picture's room, pixels
  int columns = 0;  // pairs in a row; 0: as many as 1200 pixels hold
};

// Of an empty list: a sheet that says so.
RgbImage DrawContactSheet(const std::vector<SheetPair>& pairs,
                          const SheetOptions& options);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_CONTACT_SHEET_H_
