// The files below a folder of the skill, in a fixed order. What is too much ends the walk.

#ifndef WALK_H
#define WALK_H

#include <stdbool.h>

#include "skillhost_kit.h"

// Is given a file's path in the skill and the open file, or -1 and the errno that says why it
// is not open. False ends the walk.
typedef bool (*visit)(void *context, const char *path, int file, int error);

// Walks through an open folder, whose path is "" for the skill's own. False: something was left
// out because there was too much.
bool walk(const sh_folder *folder, const char *path, int opened, visit visit, void *context);

#endif
