/* Kills its process with SIGKILL at the n-th step that changes a file below a folder: the creation of
 * a file, a write (after half of its bytes), a sync, a rename or a removal. The test loads this
 * library into the program with LD_PRELOAD, so the program needs no code for the test. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int steps;

static int is_below(const char *path) {
    const char *folder = getenv("KILL_BELOW");
    return folder && (path[0] != '/' || strncmp(path, folder, strlen(folder)) == 0);
}

static int is_file_below(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return path[0] == '/' && is_below(path);
}

/* Returns whether this step is the last. */
static int is_last(void) {
    const char *last = getenv("KILL_AT");
    return last && ++steps == atoi(last);
}

static void step(void) {
    if (is_last()) raise(SIGKILL);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    if ((flags & O_CREAT) && is_below(path)) step();
    return REAL(open64)(path, flags, mode);
}

ssize_t write(int file, const void *bytes, size_t length) {
    if (is_file_below(file) && is_last()) {
        REAL(write)(file, bytes, length / 2);
        raise(SIGKILL);
    }
    return REAL(write)(file, bytes, length);
}

int fsync(int file) {
    if (is_file_below(file)) step();
    return REAL(fsync)(file);
}

int rename(const char *from, const char *to) {
    if (is_below(from)) step();
    return REAL(rename)(from, to);
}

int unlink(const char *path) {
    struct stat found;
    if (is_below(path) && lstat(path, &found) == 0) step();
    return REAL(unlink)(path);
}
