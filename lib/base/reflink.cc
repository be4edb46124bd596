#include "base/reflink.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

namespace lzy {

bool Reflink(File& from, File& to) { return ioctl(to.SystemDescriptor(), FICLONE, from.SystemDescriptor()) == 0; }

}  // namespace lzy
