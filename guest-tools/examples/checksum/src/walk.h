// Visits the files in a folder of the skill and in its subfolders, in a fixed order and within
// limits.

#ifndef WALK_H
#define WALK_H

#include <stdbool.h>

#include "skillhost_kit.h"

// A function that gets a file's path in the skill and the open file, or -1 and the errno of opening
// it. It returns false to end the walk.
typedef bool (*visit)(void *context, const char *path, int file, int error);

// Visits the files of an open folder. The path of the skill's own folder is "". Returns false if not
// all files were visited: a limit was reached, or a folder could not be read, or `visit` ended the
// walk.
bool walk(const sh_folder *folder, const char *path, int opened, visit visit, void *context);

#endif
