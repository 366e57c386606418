// SPDX-License-Identifier: Apache-2.0
// An argument that is neither a number nor a string.
// expect: data
#include "pitot/trace.h"

struct Image {
  int width;
};

void Handle(const Image& image) {
#ifdef BAD
  PITOT_SCOPE("handle", image);
#else
  PITOT_SCOPE("handle", image.width);
#endif
}
